//! A unit: what a client sends up to the point where it waits, and what Paceline knows of it.

use crate::settings::Settings;
use crate::strategy::GroupPlan;
use crate::tally::Tally;
use crate::template::Template;
use bytes::Bytes;
use paceline_sql::Literal;
use paceline_wire::frontend::{BindValues, read_header, tag};
use paceline_wire::{Frames, WireError};
use std::sync::Arc;

/// A unit longer than this is relayed while it arrives instead of being kept (bytes).
pub const UNIT_BYTES_MAX: usize = 256 * 1024;

/// Where the first unit in a buffer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Boundary {
    /// After this many bytes; it is complete.
    Complete(usize),
    /// It goes on, but these first bytes must be relayed now: the client asked for it (`Flush`) or it is too long.
    Relay(usize),
    /// The client says goodbye after this many bytes.
    Terminate(usize),
    /// More must be read.
    Incomplete,
}

/// Finds the end of the first unit; remembers what it has seen between calls on a growing buffer.
#[derive(Debug, Default)]
pub struct Scanner {
    seen: usize,
}

impl Scanner {
    /// Looks at what has come. After anything but `Incomplete` the caller takes those bytes off the buffer.
    pub fn scan(&mut self, buf: &[u8]) -> Result<Boundary, WireError> {
        loop {
            let rest = buf.get(self.seen..).unwrap_or_default();
            let Some(header) = read_header(rest)? else {
                return Ok(self.incomplete());
            };
            if rest.len() < header.len {
                return Ok(self.incomplete());
            }
            let start = self.seen;
            self.seen += header.len;
            let boundary = match header.tag {
                tag::QUERY | tag::SYNC | tag::FUNCTION_CALL => Boundary::Complete(self.seen),
                tag::FLUSH => Boundary::Relay(self.seen),
                tag::TERMINATE if start == 0 => Boundary::Terminate(self.seen),
                tag::TERMINATE => Boundary::Relay(start),
                _ => continue,
            };
            self.seen = 0;
            return Ok(boundary);
        }
    }

    fn incomplete(&mut self) -> Boundary {
        if self.seen <= UNIT_BYTES_MAX {
            return Boundary::Incomplete;
        }
        Boundary::Relay(std::mem::take(&mut self.seen))
    }
}

/// How the client asked, which is how it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// `Query`.
    Simple,
    /// `[Parse] Bind [Describe portal] Execute Sync`.
    Extended {
        /// A `Parse` came with it.
        parse: bool,
        /// A `Describe` of the portal came with it.
        describe: bool,
    },
}

/// Values of a unit's parameters.
#[derive(Debug, Clone)]
pub enum Values {
    /// As bound; ranges of the unit's bytes.
    Bound(BindValues),
    /// Literals of a simple query.
    Literals(Vec<Literal>),
}

/// A unit of one statement that may travel with others.
#[derive(Debug, Clone)]
pub struct Unit {
    /// The client's messages.
    pub bytes: Bytes,
    /// How it asked.
    pub form: Form,
    /// Its statement.
    pub template: Arc<Template>,
    /// Its parameters.
    pub values: Values,
    /// The client's settings.
    pub settings: Arc<Settings>,
    /// How it travels with others in one statement, if it does.
    pub plan: Option<GroupPlan>,
    /// Where it is counted.
    pub tally: Option<Arc<Tally>>,
    /// It may change the session in a way that its text does not tell.
    pub taints: bool,
}

impl Unit {
    /// Are these parameters in one format, so that they can stand in one array?
    pub fn is_even(&self, numbers: &[u32]) -> bool {
        let mut formats = numbers
            .iter()
            .map(|number| self.parameter(*number).map(|(binary, _)| binary));
        let first = formats.next();
        formats.all(|format| Some(format) == first)
    }

    /// The bytes of parameter `number` (from 1) and whether they are binary. `None`: there is no such parameter.
    pub fn parameter(&self, number: u32) -> Option<(bool, Option<&[u8]>)> {
        let index = (number as usize).checked_sub(1)?;
        match &self.values {
            Values::Bound(bound) => {
                let range = bound.values.get(index)?;
                let binary = bound.binary.get(index).copied()?;
                Some((binary, range.clone().and_then(|r| self.bytes.get(r))))
            }
            Values::Literals(literals) => {
                let literal = literals.get(index)?;
                Some((false, Some(literal.text.as_bytes())))
            }
        }
    }

    /// All parameters: binary?, bytes.
    pub fn parameters(&self) -> Vec<(bool, Option<&[u8]>)> {
        (1..).map_while(|number| self.parameter(number)).collect()
    }

    /// Result formats as bound: none, one for all, or one per column.
    pub fn result_formats(&self) -> &[i16] {
        match &self.values {
            Values::Bound(bound) => &bound.result_formats,
            Values::Literals(_) => &[],
        }
    }

    /// The messages, one by one.
    pub fn frames(&self) -> Frames<'_> {
        Frames::new(&self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::{BufMut, BytesMut};
    use paceline_wire::{frame, frontend};

    #[test]
    fn a_unit_ends_at_sync_query_or_flush_however_it_arrives() {
        let mut out = BytesMut::new();
        frontend::write_execute(&mut out);
        frontend::write_sync(&mut out);
        let first = out.len();
        frontend::write_query(&mut out, "select 1");
        let mut scanner = Scanner::default();
        for len in 0..first {
            assert_eq!(scanner.scan(&out[..len]), Ok(Boundary::Incomplete), "{len}");
        }
        assert_eq!(scanner.scan(&out), Ok(Boundary::Complete(first)));
        let rest = &out[first..];
        assert_eq!(scanner.scan(rest), Ok(Boundary::Complete(rest.len())));
        assert_eq!(scanner.scan(b"H\0\0\0\x04"), Ok(Boundary::Relay(5)));
        assert_eq!(scanner.scan(b"X\0\0\0\x04"), Ok(Boundary::Terminate(5)));
    }

    #[test]
    fn a_long_unit_is_relayed_in_whole_messages() {
        let mut out = BytesMut::new();
        frame::write(&mut out, b'P', |b| b.put_bytes(b'x', UNIT_BYTES_MAX));
        let whole = out.len();
        out.put_slice(b"B\0\0");
        let mut scanner = Scanner::default();
        assert_eq!(scanner.scan(&out), Ok(Boundary::Relay(whole)));
    }

    #[test]
    fn unknown_message_types_are_errors() {
        assert_eq!(
            Scanner::default().scan(b"G\0\0\0\x04"),
            Err(WireError::Tag(b'G'))
        );
    }
}
