//! Remarks for the operator about a valid configuration. Paceline logs them at the start; `paceline check` and
//! `paceline import` print them. No remark repeats a value, which might be a secret.

use crate::config::Config;
use std::fmt;

/// A remark, and the place that it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// `file:line`, or the variable of the environment.
    place: String,
    text: String,
    condition: Condition,
}

/// The condition under which a remark applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    Always,
    /// If every pool is in session mode. The environment and the command line may set another mode than the file.
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

    /// The same, if every pool is in session mode.
    pub(super) fn if_only_sessions(self) -> Remark {
        Remark {
            condition: Condition::OnlySessions,
            ..self
        }
    }

    /// Whether the remark applies to this configuration.
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
    /// Remarks about valid settings that Paceline cannot follow exactly.
    pub fn remarks(&self) -> Vec<Remark> {
        let remarks = self.paceline.encryption.remarks();
        remarks.map(|(key, text)| Remark::new(key, text)).collect()
    }
}
