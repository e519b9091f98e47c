//! The problems of a file and the remarks about it, each with its line.

use super::source_line::SourceLine;
use crate::error::{ConfigError, ConfigProblem, IniError, Problem};
use crate::remark::Remark;
use crate::suggest;

/// Problems and remarks, in the order in which the reader finds them.
#[derive(Default)]
pub(super) struct Diagnostics {
    problems: Vec<(SourceLine, ConfigProblem)>,
    remarks: Vec<(SourceLine, Remark)>,
}

impl Diagnostics {
    /// Returns the remarks in the order of the lines. If there are problems, returns them as an error.
    pub(super) fn into_remarks(mut self) -> Result<Vec<Remark>, ConfigError> {
        if self.problems.is_empty() {
            self.remarks.sort_by(|one, other| one.0.cmp(&other.0));
            let remarks = self.remarks.into_iter();
            return Ok(remarks.map(|(_, remark)| remark).collect());
        }
        self.problems.sort_by(|one, other| one.0.cmp(&other.0));
        let problem =
            |(place, wrong): (SourceLine, ConfigProblem)| Problem::at(place.to_string(), wrong);
        let problems = self.problems.into_iter().map(problem);
        Err(ConfigError::Invalid(problems.collect()))
    }

    pub(super) fn wrong(&mut self, place: &SourceLine, wrong: impl Into<ConfigProblem>) {
        self.problems.push((place.clone(), wrong.into()));
    }

    pub(super) fn refuse(&mut self, place: &SourceLine, key: &str, why: impl Into<String>) {
        let key = key.to_owned();
        let why = why.into();
        self.wrong(place, IniError::Refused { key, why });
    }

    pub(super) fn remark(&mut self, place: &SourceLine, text: impl Into<String>) {
        let remark = Remark::new(place.to_string(), text);
        self.remarks.push((place.clone(), remark));
    }

    /// A remark that applies only if every pool is in session mode.
    pub(super) fn remark_of_sessions(&mut self, place: &SourceLine, text: impl Into<String>) {
        let remark = Remark::new(place.to_string(), text).if_only_sessions();
        self.remarks.push((place.clone(), remark));
    }

    pub(super) fn unknown_key<'a>(
        &mut self,
        place: &SourceLine,
        key: &str,
        section: &'static str,
        known: impl IntoIterator<Item = &'a str>,
    ) {
        let nearest = suggest::nearest(key, known).map(str::to_owned);
        let key = key.to_owned();
        self.wrong(
            place,
            IniError::UnknownKey {
                key,
                section,
                nearest,
            },
        );
    }
}
