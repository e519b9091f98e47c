//! Problems in a file, and remarks about it.

use super::mapping::{Mapping, Sort};
use super::source_line::SourceLine;
use crate::error::IniError;
use crate::error::{ConfigError, ConfigProblem, Problem};
use crate::remark::Remark;
use crate::suggest;

/// Problems and remarks, in the order in which the reader finds them.
#[derive(Default)]
pub(super) struct Diagnostics {
    problems: Vec<(SourceLine, ConfigProblem)>,
    remarks: Vec<(SourceLine, Remark)>,
}

impl Diagnostics {
    /// The remarks, from top to bottom; an error with all problems if there are any.
    pub(super) fn verdict(mut self) -> Result<Vec<Remark>, ConfigError> {
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

    /// A remark that is true only if every pool pools sessions.
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

    /// Notes a key that Paceline does not have; returns the comment that replaces it.
    pub(super) fn without(
        &mut self,
        place: &SourceLine,
        key: &str,
        value: &str,
        mapping: Mapping,
    ) -> Option<String> {
        match mapping {
            Mapping::Key(_) | Mapping::PartOf(_) => None,
            Mapping::Ignored(why) => {
                self.remark(place, format!("{key} is ignored: {why}"));
                Some(format!("{key} has no equal: {why}"))
            }
            Mapping::Refused { unless, .. } if unless.contains(&value) => {
                Some(format!("{key} says what holds anyway"))
            }
            Mapping::Refused { why, .. } => {
                self.refuse(place, key, why);
                None
            }
        }
    }

    /// `value` as [`Written::Argument`](crate::value::Written) has it. `None`, and a note: it is not as PgBouncer reads it.
    pub(super) fn plain(
        &mut self,
        place: &SourceLine,
        key: &str,
        value: &str,
        sort: Sort,
    ) -> Option<String> {
        let plain = match sort {
            Sort::Number => c_number(value).map(|number| number.to_string()),
            Sort::Switch => c_number(value).map(|number| u8::from(number != 0).to_string()),
            Sort::Mode => c_number(value).map(|number| format!("{number:04o}")),
            Sort::Path => Some(absolute(value)),
            Sort::Seconds | Sort::Text => Some(value.to_owned()),
        };
        if plain.is_none() {
            let (key, got) = (key.to_owned(), value.to_owned());
            self.wrong(place, IniError::Number { key, got });
        }
        plain
    }
}

/// A whole number as C's `strtol` reads it: decimal, `0x` hexadecimal, `0` octal.
fn c_number(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (digits, radix) = match digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None if digits.len() > 1 && digits.starts_with('0') => (digits, 8),
        None => (digits, 10),
    };
    // A second sign would be read, too.
    let all_digits = digits.chars().all(|digit| digit.is_digit(radix));
    let number = i64::from_str_radix(digits, radix).ok();
    number.filter(|_| all_digits).map(|number| sign * number)
}

/// `path` from the root on: as in PgBouncer it is relative to the folder that the process was started in.
fn absolute(path: &str) -> String {
    match std::path::absolute(path) {
        Ok(absolute) => absolute.display().to_string(),
        // Empty: none.
        Err(_) => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{absolute, c_number};

    #[test]
    fn numbers_are_read_as_c_reads_them() {
        for (text, number) in [
            ("20", Some(20)),
            ("020", Some(16)),
            ("0x14", Some(20)),
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("+3", Some(3)),
            ("--3", None),
            ("+-3", None),
            ("08", None),
            ("3s", None),
            ("", None),
            ("0x", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(c_number(text), number, "{text}");
        }
    }

    #[test]
    fn paths_begin_where_the_process_was_started() {
        let here = std::env::current_dir().unwrap();
        assert_eq!(
            absolute("users.txt"),
            here.join("users.txt").display().to_string()
        );
        assert_eq!(absolute("/etc/users.txt"), "/etc/users.txt");
        assert_eq!(absolute(""), "");
    }
}
