//! The place of a line in a `pgbouncer.ini`: the file and the number of the line.

use std::fmt;
use std::sync::Arc;

/// A line of a file. Lines are ordered as Paceline reads them, except that an included file follows the whole file that includes it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SourceLine {
    /// Number of files begun before this one.
    pub(super) order: usize,
    pub(super) file: Arc<str>,
    pub(super) line: usize,
}

impl fmt::Display for SourceLine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.file, self.line)
    }
}

impl SourceLine {
    /// The beginning of a file that no other file includes.
    pub(super) fn start(file: &str) -> SourceLine {
        SourceLine {
            order: 0,
            file: Arc::from(file),
            line: 1,
        }
    }
}
