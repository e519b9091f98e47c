//! Reads `postmaster.pid`, in which the server records its process id and its status. It never writes the file.

use std::fs;
use std::path::Path;

/// The name of the file inside a cluster.
pub(crate) const NAME: &str = "postmaster.pid";

/// PostgreSQL's `miscadmin.h`: the process id is line 1, the status line 8.
const STATUS_LINE: usize = 8;

/// The contents of the file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PidFile {
    /// The process id of the postmaster.
    pub(crate) pid: u32,
    /// Whether the postmaster accepts connections.
    pub(crate) ready: bool,
}

impl PidFile {
    /// Reads the file of a cluster. Returns `None` if there is no file, or if the server has not yet written its first line.
    pub(crate) fn read(pgdata: &Path) -> Option<Self> {
        Self::parse(&fs::read_to_string(pgdata.join(NAME)).ok()?)
    }

    fn parse(contents: &str) -> Option<Self> {
        // A standalone backend writes its process id as a negative number.
        let pid = contents
            .lines()
            .next()?
            .trim()
            .trim_start_matches('-')
            .parse()
            .ok()?;
        let ready = contents
            .lines()
            .nth(STATUS_LINE - 1)
            .is_some_and(|status| status.trim() == "ready");
        Some(Self { pid, ready })
    }
}

#[cfg(test)]
mod tests {
    use super::PidFile;

    const STARTING: &str =
        "4711\n/data\n1764000000\n5433\n/socket\n127.0.0.1\n  3422341 98306\nstarting\n";

    #[test]
    fn parses_each_step_of_a_start() {
        assert_eq!(PidFile::parse(""), None);
        assert_eq!(
            PidFile::parse("4711\n/data\n"),
            Some(PidFile {
                pid: 4711,
                ready: false
            })
        );
        assert_eq!(
            PidFile::parse(STARTING),
            Some(PidFile {
                pid: 4711,
                ready: false
            })
        );
        let ready = STARTING.replace("starting", "ready   ");
        assert_eq!(
            PidFile::parse(&ready),
            Some(PidFile {
                pid: 4711,
                ready: true
            })
        );
    }

    #[test]
    fn parses_a_standalone_backend_and_rejects_garbage() {
        assert_eq!(
            PidFile::parse("-4711\n"),
            Some(PidFile {
                pid: 4711,
                ready: false
            })
        );
        assert_eq!(PidFile::parse("not a number\n"), None);
    }
}
