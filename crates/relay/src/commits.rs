//! Counts acknowledged commits, and whether they have written, by the command tags of PostgreSQL.
//!
//! A tag tells how many rows a statement has changed, but not what triggers, rules and functions have done.

use paceline_wire::backend::{affected_rows, tag};
use paceline_wire::{Frame, Frames};
use std::ops::AddAssign;

/// Acknowledged commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CommitCounts {
    /// Those that may have written.
    pub possible: u64,
    /// Those among them that certainly have: a tag reports changed rows.
    pub certain: u64,
}

/// Whether a statement or a transaction has written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Writes {
    /// It has not.
    #[default]
    No,
    /// It may have.
    Possible,
    /// It has.
    Certain,
}

impl AddAssign<Writes> for CommitCounts {
    fn add_assign(&mut self, commit: Writes) {
        self.possible += u64::from(commit >= Writes::Possible);
        self.certain += u64::from(commit == Writes::Certain);
    }
}

impl CommitCounts {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.possible == 0
    }
}

impl Writes {
    /// Of the statement that has completed; `command` is the body of its `CommandComplete`. `only_reads`: its text is known to
    /// write nothing if it is a SELECT.
    pub fn of_command(command: &[u8], only_reads: bool) -> Self {
        let text = command.strip_suffix(b"\0").unwrap_or(command);
        let word = text.split(|byte| *byte == b' ').next();
        match word.unwrap_or_default() {
            b"INSERT" | b"UPDATE" | b"DELETE" | b"MERGE" => match affected_rows(command) {
                Some(0) | None => Self::Possible,
                Some(_) => Self::Certain,
            },
            // No tag: the statement has stopped at a row limit.
            b"SELECT" | b"" if only_reads => Self::No,
            b"BEGIN" | b"START" | b"SAVEPOINT" | b"RELEASE" | b"SET" | b"RESET" | b"SHOW"
            | b"DECLARE" | b"MOVE" | b"CLOSE" | b"DEALLOCATE" | b"LISTEN" | b"UNLISTEN"
            | b"CHECKPOINT" | b"DISCARD" => Self::No,
            // `PREPARE TRANSACTION` writes.
            b"PREPARE" if text == b"PREPARE" => Self::No,
            _ => Self::Possible,
        }
    }

    /// Of the only statement in an answer that was given in autocommit. `exact`: a statement that changed no row has written nothing.
    pub fn of_answer(answer: &[u8], exact: bool) -> Self {
        let ends = |frame: &Frame<'_>| {
            let end = [
                tag::COMMAND_COMPLETE,
                tag::PORTAL_SUSPENDED,
                tag::ERROR_RESPONSE,
            ];
            end.contains(&frame.tag)
        };
        match Frames::new(answer).find(ends) {
            Some(end) if end.tag == tag::COMMAND_COMPLETE => {
                match Self::of_command(end.body(), false) {
                    Self::Possible if exact && affected_rows(end.body()) == Some(0) => Self::No,
                    writes => writes,
                }
            }
            Some(end) if end.tag == tag::PORTAL_SUSPENDED => Self::Possible,
            _ => Self::No,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_testing::messages::server::{complete, error, ready, suspended};

    #[test]
    fn a_command_tag_says_whether_a_statement_has_written() {
        for (command, only_reads, writes) in [
            ("INSERT 0 1", false, Writes::Certain),
            ("UPDATE 3", false, Writes::Certain),
            ("DELETE 0", false, Writes::Possible),
            ("MERGE 1", false, Writes::Certain),
            ("SELECT 1", true, Writes::No),
            ("SELECT 1", false, Writes::Possible),
            ("COPY 5", false, Writes::Possible),
            ("CREATE TABLE", true, Writes::Possible),
            ("CALL", false, Writes::Possible),
            ("BEGIN", false, Writes::No),
            ("PREPARE", false, Writes::No),
            ("PREPARE TRANSACTION", false, Writes::Possible),
            ("A NEW COMMAND", false, Writes::Possible),
        ] {
            let body = format!("{command}\0");
            let found = Writes::of_command(body.as_bytes(), only_reads);
            assert_eq!(found, writes, "{command}");
        }
    }

    #[test]
    fn an_answer_says_whether_its_commit_has_written() {
        let answer = |message: Vec<u8>| [message, ready('I')].concat();
        for (message, exact, writes) in [
            (complete("UPDATE 1"), true, Writes::Certain),
            (complete("UPDATE 0"), true, Writes::No),
            (complete("UPDATE 0"), false, Writes::Possible),
            (complete("SELECT 1"), true, Writes::Possible),
            (suspended(), true, Writes::Possible),
            (error("23505", "duplicate"), false, Writes::No),
        ] {
            assert_eq!(Writes::of_answer(&answer(message), exact), writes);
        }
    }
}
