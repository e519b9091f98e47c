//! A request: what a client sends up to the point where it waits for an answer. One `Query`, or messages of the extended
//! protocol up to `Sync`.

use crate::parsed::ClientParse;
use crate::settings::SessionSettings;
use crate::template::Template;
use bytes::{Bytes, BytesMut};
use paceline_sql::{Literal, SequenceUse};
use paceline_wire::backend;
use paceline_wire::frontend::{BindValues, read_header, tag};
use paceline_wire::{Frame, Frames, Header, WireError, frame};
use std::sync::Arc;

/// A longer request is relayed while it arrives (bytes).
pub const REQUEST_BYTES_MAX: usize = 256 * 1024;

/// Maximum number of bytes of a part, if a request that cannot join a group is relayed in parts. A part has at least one
/// message.
pub const PART_BYTES_MAX: usize = 8 * 1024;

/// A longer `Query` or `Bind` is relayed while it arrives (bytes).
const LONG_MESSAGE_MIN: usize = REQUEST_BYTES_MAX;

/// Number of bytes at the beginning of such a message that Paceline reads. The rest does not occupy memory.
pub const LONG_HEAD_BYTES: usize = 4 * 1024;

/// Whether a message is relayed while it arrives.
pub fn is_long(header: Header) -> bool {
    matches!(header.tag, tag::QUERY | tag::BIND) && header.len > LONG_MESSAGE_MIN
}

/// Where the first request in a buffer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Boundary {
    /// The request is complete and has this many bytes.
    Complete(usize),
    /// The request is not complete, but these first bytes must be relayed now: the client sent `Flush`, the request cannot
    /// join a group, or it is too long.
    Relay(usize),
    /// As `Relay`, with possibly 0 bytes. After them a message begins that is relayed while it arrives.
    Long(usize),
    /// The client sent `Terminate`, which ends after this many bytes.
    Terminate(usize),
    /// The caller must read more.
    Incomplete,
}

/// Finds the end of the first request in a growing buffer. Between calls it remembers which messages it has seen.
#[derive(Debug, Default)]
pub struct RequestScanner {
    seen: usize,
    kind: RequestKind,
    /// Bytes of the messages that `kind` covers.
    classified: usize,
}

impl RequestScanner {
    /// Looks at the bytes that have arrived. Unless the result is `Incomplete`, the caller removes the bytes from the
    /// buffer.
    ///
    /// # Errors
    /// The bytes are no messages of the protocol.
    pub fn scan(&mut self, buf: &[u8]) -> Result<Boundary, WireError> {
        loop {
            let rest = buf.get(self.seen..).unwrap_or_default();
            let Some(header) = read_header(rest)? else {
                return Ok(self.incomplete(buf));
            };
            let start = self.seen;
            if is_long(header) {
                *self = Self::default();
                return Ok(Boundary::Long(start));
            }
            if rest.len() < header.len {
                return Ok(self.incomplete(buf));
            }
            self.seen += header.len;
            let boundary = match header.tag {
                tag::QUERY | tag::SYNC | tag::FUNCTION_CALL => self.complete(buf),
                tag::FLUSH => self.relay(self.seen),
                tag::TERMINATE if start == 0 => {
                    let boundary = Boundary::Terminate(self.seen);
                    *self = Self::default();
                    boundary
                }
                tag::TERMINATE => self.relay(start),
                _ => continue,
            };
            return Ok(boundary);
        }
    }

    /// Whether messages of a request that may join a group have arrived, without its end.
    pub fn awaits_more(&self) -> bool {
        self.seen > 0
    }

    /// The client pauses: returns the messages that have arrived, to relay them.
    pub fn give_up(&mut self) -> Boundary {
        match self.seen {
            0 => Boundary::Incomplete,
            seen => self.relay(seen),
        }
    }

    fn relay(&mut self, len: usize) -> Boundary {
        *self = Self::default();
        Boundary::Relay(len)
    }

    /// A long request that cannot join a group is relayed in parts, because to process all of it at once would delay other
    /// clients.
    fn complete(&mut self, buf: &[u8]) -> Boundary {
        if self.seen > PART_BYTES_MAX && self.is_relay_only(buf) {
            return self.relay(part_len(buf));
        }
        let len = self.seen;
        *self = Self::default();
        Boundary::Complete(len)
    }

    fn incomplete(&mut self, buf: &[u8]) -> Boundary {
        if self.seen == 0 {
            Boundary::Incomplete
        } else if self.is_relay_only(buf) {
            let len = self.seen.min(part_len(buf));
            self.relay(len)
        } else if self.seen > REQUEST_BYTES_MAX {
            self.relay(self.seen)
        } else {
            Boundary::Incomplete
        }
    }

    /// Whether the request cannot join a group, whatever messages follow.
    fn is_relay_only(&mut self, buf: &[u8]) -> bool {
        let fresh = buf.get(self.classified..self.seen).unwrap_or_default();
        for frame in Frames::new(fresh) {
            if self.kind == RequestKind::RelayOnly {
                break;
            }
            self.classified += frame.bytes.len();
            self.kind = self.kind.with(frame, self.classified);
        }
        self.kind == RequestKind::RelayOnly
    }
}

/// Bytes of the messages that fit into a part, at least of one.
fn part_len(buf: &[u8]) -> usize {
    let mut len = 0;
    for frame in Frames::new(buf) {
        if len > 0 && len + frame.bytes.len() > PART_BYTES_MAX {
            break;
        }
        len += frame.bytes.len();
    }
    len
}

/// What a request may still become after its messages so far: one statement that may join a group (`[Parse] Bind [Describe
/// portal] Execute Sync`), or a request that only prepares and closes statements, which Paceline may answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum RequestKind {
    #[default]
    Empty,
    /// One `Parse`.
    Parsed {
        named: bool,
    },
    Bound,
    Described,
    Executed,
    /// `Parse` of named statements and `Close` of statements.
    Prepares,
    RelayOnly,
}

impl RequestKind {
    /// After another message. `bytes`: those of the request up to the end of the message.
    fn with(self, frame: Frame<'_>, bytes: usize) -> Self {
        let body = frame.body();
        let unnamed = body.first() == Some(&0);
        let fits = bytes <= PART_BYTES_MAX;
        match (self, frame.tag) {
            // Here the request ends.
            (before, tag::SYNC) | (before @ Self::Empty, tag::QUERY) => before,
            (Self::Empty, tag::PARSE) => Self::Parsed { named: !unnamed },
            (Self::Empty | Self::Parsed { .. }, tag::BIND) if unnamed => Self::Bound,
            (Self::Bound, tag::DESCRIBE) if body == [b'P', 0] => Self::Described,
            (Self::Bound | Self::Described, tag::EXECUTE) if body == [0; 5] => Self::Executed,
            (Self::Parsed { named: true } | Self::Prepares, tag::PARSE) if !unnamed && fits => {
                Self::Prepares
            }
            (Self::Empty | Self::Parsed { named: true } | Self::Prepares, tag::CLOSE)
                if body.first() == Some(&b'S') && fits =>
            {
                Self::Prepares
            }
            _ => Self::RelayOnly,
        }
    }
}

/// The protocol of a request. The answer uses the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RequestForm {
    /// `Query`.
    Simple,
    /// `[Parse] Bind [Describe portal] Execute Sync`.
    Extended {
        /// The request has a `Parse`.
        parse: bool,
        /// The request has a `Describe` of the portal.
        describe: bool,
    },
}

impl RequestForm {
    /// Whether an answer describes its columns, or states that it has none.
    pub fn is_described(self, has_columns: bool) -> bool {
        match self {
            Self::Simple => has_columns,
            Self::Extended { describe, .. } => describe,
        }
    }

    /// Whether the request executes a statement that was prepared earlier. Its columns may have been described to the client
    /// then.
    pub fn relies_on_parsed(self) -> bool {
        matches!(self, Self::Extended { parse: false, .. })
    }

    /// Writes the answer to the client's own `Parse`, if the request has one.
    pub fn write_parsed(self, out: &mut BytesMut) {
        if let Self::Extended { parse: true, .. } = self {
            frame::write_empty(out, backend::tag::PARSE_COMPLETE);
        }
    }
}

/// The values of a request's parameters.
#[derive(Debug, Clone)]
pub enum Values {
    /// As bound. The ranges refer to the bytes of the request.
    Bound(BindValues),
    /// Literals of a simple query.
    Literals(Vec<Literal>),
}

/// A request of one statement that may join a group.
#[derive(Debug, Clone)]
pub struct Request {
    /// The client's messages.
    pub bytes: Bytes,
    /// The protocol.
    pub form: RequestForm,
    /// The statement.
    pub template: Arc<Template>,
    /// The values of its parameters.
    pub values: Values,
    /// The client's settings.
    pub settings: Arc<SessionSettings>,
    /// Whether the statement may change the session in a way that its text does not tell.
    pub may_change_session: bool,
    /// The client's `Parse` of the statement, if it came earlier. `None` if the statement is parsed with the request.
    pub client_parse: Option<ClientParse>,
    /// What the statement may do with sequences, as far as known.
    pub sequences: SequenceUse,
}

impl Request {
    /// Whether these parameters have the same format, so that they can form one array.
    pub fn is_even(&self, numbers: &[u32]) -> bool {
        let mut formats = numbers
            .iter()
            .map(|number| self.parameter(*number).map(|(binary, _)| binary));
        let first = formats.next();
        formats.all(|format| Some(format) == first)
    }

    /// The bytes of parameter `number` (from 1), and whether they are binary. `None` if there is no such parameter.
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

    /// All parameters: whether binary, and the bytes.
    pub fn parameters(&self) -> Vec<(bool, Option<&[u8]>)> {
        (1..).map_while(|number| self.parameter(number)).collect()
    }

    /// The result formats as bound: none, one for all columns, or one per column.
    pub fn result_formats(&self) -> &[i16] {
        match &self.values {
            Values::Bound(bound) => &bound.result_formats,
            Values::Literals(_) => &[],
        }
    }

    /// The messages.
    pub fn frames(&self) -> Frames<'_> {
        Frames::new(&self.bytes)
    }
}

/// The beginning of a group's answer, for the member that takes over the server connection.
#[derive(Debug)]
pub struct PartialAnswer {
    /// The protocol of the member's request.
    pub form: RequestForm,
    /// The messages that have arrived so far. All of them are complete.
    pub answer: BytesMut,
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::{BufMut, BytesMut};
    use paceline_wire::frame;

    fn message(tag: u8, body: &[u8]) -> Vec<u8> {
        let mut out = BytesMut::new();
        frame::write(&mut out, tag, |out| out.put_slice(body));
        out.to_vec()
    }

    /// Messages by letter. Lower case: may be part of a request that joins a group. Upper case: may not.
    fn messages(letters: &str) -> Vec<Vec<u8>> {
        let one = |letter| match letter {
            'p' => message(b'P', b"\0SELECT 1\0\0\0"),
            'n' => message(b'P', b"name\0SELECT 1\0\0\0"),
            'b' => message(b'B', b"\0\0\0\0\0\0\0\0"),
            'B' => message(b'B', b"portal\0\0\0\0\0\0\0\0"),
            'd' => message(b'D', b"P\0"),
            'D' => message(b'D', b"S\0"),
            'e' => message(b'E', &[0; 5]),
            'E' => message(b'E', b"\0\0\0\0\x07"),
            'c' => message(b'C', b"Sname\0"),
            'C' => message(b'C', b"Pportal\0"),
            'q' => message(b'Q', b"SELECT 1\0"),
            's' => message(b'S', b""),
            other => panic!("{other}"),
        };
        letters.chars().map(one).collect()
    }

    #[test]
    fn a_request_ends_at_sync_query_or_flush_however_it_arrives() {
        let out = messages("bes").concat();
        let first = out.len();
        let out = [out, messages("q").concat()].concat();
        let mut scanner = RequestScanner::default();
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
    fn only_requests_that_may_join_a_group_are_awaited() {
        for letters in [
            "p", "pb", "pbd", "pbde", "nbe", "b", "be", "bde", "n", "nn", "ncn", "c",
        ] {
            let out = messages(letters).concat();
            let mut scanner = RequestScanner::default();
            assert_eq!(scanner.scan(&out), Ok(Boundary::Incomplete), "{letters}");
            assert!(scanner.awaits_more(), "{letters}");
            // A client that pauses does not wait for an answer.
            assert_eq!(scanner.give_up(), Boundary::Relay(out.len()), "{letters}");
            assert!(!scanner.awaits_more());
        }
        for letters in [
            "pp", "pn", "np", "B", "pB", "pD", "D", "pd", "pbD", "pbdd", "pbE", "E", "e", "pe",
            "C", "pc", "nC", "bb", "beb", "bep", "pbec", "pbdeb", "cb", "ncb", "cp",
        ] {
            let parts = messages(letters);
            let (last, before) = parts.split_last().unwrap();
            let before = before.concat();
            let mut scanner = RequestScanner::default();
            assert_eq!(scanner.scan(&before), Ok(Boundary::Incomplete), "{letters}");
            let whole = [&before[..], last].concat();
            // Not before the message is complete.
            let cut = whole.len() - 1;
            assert_eq!(scanner.scan(&whole[..cut]), Ok(Boundary::Incomplete));
            let found = scanner.scan(&whole);
            assert_eq!(found, Ok(Boundary::Relay(whole.len())), "{letters}");
        }
    }

    #[test]
    fn a_request_with_its_end_is_complete() {
        for letters in ["ppbebes", "Bes", "Ds", "beq", "pq", "cbs"] {
            let out = messages(letters).concat();
            let found = RequestScanner::default().scan(&out);
            assert_eq!(found, Ok(Boundary::Complete(out.len())), "{letters}");
        }
    }

    #[test]
    fn a_complete_long_request_that_cannot_join_a_group_is_relayed_in_parts() {
        let pair = messages("be").concat();
        let mut out = pair.repeat(10_000);
        out.extend(messages("s").concat());
        let mut scanner = RequestScanner::default();
        let Ok(Boundary::Relay(part)) = scanner.scan(&out) else {
            panic!("it cannot join a group");
        };
        assert!(part <= PART_BYTES_MAX && part > PART_BYTES_MAX - pair.len());
        assert_eq!(
            Frames::new(&out[..part])
                .map(|f| f.bytes.len())
                .sum::<usize>(),
            part
        );
        // A request that may join a group is not relayed in parts.
        let long = message(b'B', &[&[0, 0, 0, 0, 0, 1][..], &[0; 20_000]].concat());
        let out = [long, messages("es").concat()].concat();
        assert_eq!(scanner.scan(&out), Ok(Boundary::Complete(out.len())));
        // So many statements are not prepared at once.
        let out = [messages("n").concat().repeat(1_000), messages("s").concat()].concat();
        assert!(matches!(scanner.scan(&out), Ok(Boundary::Relay(part)) if part <= PART_BYTES_MAX));
    }

    #[test]
    fn a_long_request_is_relayed_in_whole_messages() {
        let mut out = BytesMut::new();
        frame::write(&mut out, b'P', |b| {
            b.put_u8(0);
            b.put_bytes(b'x', REQUEST_BYTES_MAX);
        });
        let whole = out.len();
        out.put_slice(b"B\0\0");
        let mut scanner = RequestScanner::default();
        assert_eq!(scanner.scan(&out), Ok(Boundary::Relay(whole)));
    }

    #[test]
    fn a_long_message_is_relayed_while_it_arrives() {
        for (tag, long) in [(b'Q', true), (b'B', true), (b'P', false), (b'F', false)] {
            let whole = message(tag, &vec![0; LONG_MESSAGE_MIN]);
            let mut scanner = RequestScanner::default();
            for len in [4, 5, 100_000, whole.len()] {
                let found = scanner.scan(&whole[..len]);
                assert_eq!(
                    found == Ok(Boundary::Long(0)),
                    long && len > 4,
                    "{tag} {len}"
                );
            }
            let before = messages("pb").concat();
            let found = scanner.scan(&[before.clone(), whole].concat()[..before.len() + 9]);
            assert_eq!(found == Ok(Boundary::Long(before.len())), long, "{tag}");
        }
    }

    /// Not a measurement. If each byte costs a walk over those before it, the test does not end.
    #[test]
    fn a_request_that_arrives_byte_by_byte_is_scanned_once() {
        let names = messages("n").concat().repeat(PART_BYTES_MAX / 24 - 1);
        let mut scanner = RequestScanner::default();
        for len in 0..names.len() {
            assert_eq!(scanner.scan(&names[..len]), Ok(Boundary::Incomplete));
        }
        let long = message(b'B', &[0; 200_000]);
        let mut scanner = RequestScanner::default();
        for len in 0..long.len() {
            assert_eq!(scanner.scan(&long[..len]), Ok(Boundary::Incomplete));
        }
    }

    #[test]
    fn unknown_message_types_are_errors() {
        assert_eq!(
            RequestScanner::default().scan(b"G\0\0\0\x04"),
            Err(WireError::Tag(b'G'))
        );
    }
}
