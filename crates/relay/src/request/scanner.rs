//! Finds where a request ends in the bytes that a client sends, and whether it may join a group.

#[cfg(test)]
mod tests;

use paceline_wire::frame::HEADER_LEN;
use paceline_wire::frontend::{read_header, tag};
use paceline_wire::{Frame, Frames, Header, WireError};

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

/// The end of the first request in a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Boundary {
    /// The request is complete and has this many bytes.
    Complete(usize),
    /// The request is not complete, but these first bytes must be relayed now: the client sent `Flush`, the request cannot
    /// join a group, or it is too long.
    Relay(usize),
    /// As `Relay`, with possibly 0 bytes. After them a message begins that is relayed while it arrives.
    Long(usize),
    /// These first bytes belong to no request: `Flush` or messages of COPY IN, which PostgreSQL ignores between two requests (a client may
    /// still send them after an error in COPY IN).
    Ignored(usize),
    /// The client sent `Terminate`, which ends after this many bytes.
    Terminate(usize),
    /// The caller must read more.
    Incomplete,
}

/// Whether PostgreSQL ignores a message between two requests.
fn is_ignored(header: Header) -> bool {
    match header.tag {
        tag::FLUSH => header.len == HEADER_LEN,
        tag::COPY_DATA | tag::COPY_DONE | tag::COPY_FAIL => true,
        _ => false,
    }
}

/// Finds the end of the first request in a growing buffer. Between calls it remembers which messages it has seen.
#[derive(Debug, Default)]
pub struct RequestScanner {
    seen: usize,
    kind: RequestKind,
    /// Bytes of the messages that `kind` covers.
    classified: usize,
    /// Bytes of an ignored message that have not arrived.
    ignored_left: usize,
}

impl RequestScanner {
    /// Looks at the bytes that have arrived. Unless the result is `Incomplete`, the caller removes the bytes from the
    /// buffer.
    ///
    /// # Errors
    /// The bytes are no messages of the protocol.
    pub fn scan(&mut self, buf: &[u8]) -> Result<Boundary, WireError> {
        if self.is_in_ignored() {
            return Ok(self.ignore(self.ignored_left, buf.len()));
        }
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
            if start == 0 && is_ignored(header) {
                return Ok(self.ignore(header.len, buf.len()));
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

    /// Whether the buffer begins in the middle of an ignored message.
    pub fn is_in_ignored(&self) -> bool {
        self.ignored_left > 0
    }

    fn ignore(&mut self, len: usize, arrived: usize) -> Boundary {
        let here = len.min(arrived);
        self.ignored_left = len - here;
        match here {
            0 => Boundary::Incomplete,
            _ => Boundary::Ignored(here),
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

/// The kinds that a request may still have after its messages so far: one statement that may join a group (`[Parse] Bind [Describe portal]
/// Execute Sync`), or a request that only prepares and closes statements, which Paceline may answer.
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
            // The limit, if there is one, has no effect on a statement that returns no rows.
            (Self::Bound | Self::Described, tag::EXECUTE) if unnamed => Self::Executed,
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
