//! What an operator should know about a configuration that is valid. Remarks go to the log at the start, and to the answer of
//! `paceline check` and `paceline import`. None repeats a value: it might be a secret.

use crate::config::Config;
use std::fmt;

/// One thing to know, and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// `file:line`, or the variable of the environment.
    place: String,
    text: String,
    condition: Condition,
}

/// When a remark is true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    Always,
    /// If every pool pools sessions: the environment and the command line may say otherwise than the file.
    OnlySessions,
}

impl Remark {
    /// A remark about the text at `place`.
    pub(super) fn new(place: impl Into<String>, text: impl Into<String>) -> Remark {
        Remark {
            place: place.into(),
            text: text.into(),
            condition: Condition::Always,
        }
    }

    /// The same, if every pool of the configuration that results pools sessions.
    pub(super) fn if_only_sessions(self) -> Remark {
        Remark {
            condition: Condition::OnlySessions,
            ..self
        }
    }

    /// Whether it is true of this configuration.
    pub fn holds(&self, config: &Config) -> bool {
        match self.condition {
            Condition::Always => true,
            Condition::OnlySessions => config.pools_only_sessions(),
        }
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.place, self.text)
    }
}

impl Config {
    /// Settings that are valid, but that Paceline cannot follow to the letter.
    pub fn remarks(&self) -> Vec<Remark> {
        let remarks = self.paceline.encryption.remarks();
        remarks.map(|(key, text)| Remark::new(key, text)).collect()
    }
}
