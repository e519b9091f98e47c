//! Finds the ends of exchanges in a stream of messages. An exchange is the messages that one request sends, or those that answer it: on a
//! connection that serves several clients in turn, each exchange belongs to one of them.

use crate::frame::HEADER_LEN;
use crate::{backend, frontend};

/// Finds the ends of exchanges in one direction of a connection, from its first message after the login.
#[derive(Debug)]
pub struct ExchangeEnds {
    /// Types of the messages that end an exchange.
    ends: &'static [u8],
    state: State,
}

#[derive(Debug)]
enum State {
    /// Awaits the rest of a header.
    Header { bytes: [u8; HEADER_LEN], len: usize },
    /// Awaits the rest of a message.
    Body { left: usize, ends: bool },
}

/// Awaits the next message.
const NEXT: State = State::Header {
    bytes: [0; HEADER_LEN],
    len: 0,
};

impl ExchangeEnds {
    /// In the messages of a client: each request ends with Query, Sync or FunctionCall.
    pub fn of_requests() -> Self {
        use frontend::tag::{FUNCTION_CALL, QUERY, SYNC};
        Self {
            ends: &[QUERY, SYNC, FUNCTION_CALL],
            state: NEXT,
        }
    }

    /// In the messages of a server: each answer ends with ReadyForQuery.
    pub fn of_answers() -> Self {
        Self {
            ends: &[backend::tag::READY_FOR_QUERY],
            state: NEXT,
        }
    }

    /// The distance to the first end in `bytes`; `None` if they contain none. The next call must get the bytes that follow the end, or
    /// that follow all of these.
    pub fn next_end(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut rest = bytes;
        loop {
            match &mut self.state {
                State::Header { bytes: header, len } => {
                    let missing = header.get_mut(*len..)?;
                    let taken = missing.len().min(rest.len());
                    let (first, behind) = rest.split_at(taken);
                    missing
                        .iter_mut()
                        .zip(first)
                        .for_each(|(to, from)| *to = *from);
                    *len += taken;
                    rest = behind;
                    if *len < HEADER_LEN {
                        return None;
                    }
                    let [tag, length @ ..] = *header;
                    self.state = State::Body {
                        left: (u32::from_be_bytes(length) as usize).saturating_sub(length.len()),
                        ends: self.ends.contains(&tag),
                    };
                }
                State::Body { left, ends } => {
                    let taken = rest.len().min(*left);
                    *left -= taken;
                    rest = rest.get(taken..)?;
                    if *left > 0 {
                        return None;
                    }
                    let ends = *ends;
                    self.state = NEXT;
                    if ends {
                        return Some(bytes.len() - rest.len());
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame;
    use bytes::{BufMut, BytesMut};

    /// The ends in all of `bytes`, which arrive in parts of `step` bytes.
    fn ends(mut found: ExchangeEnds, bytes: &[u8], step: usize) -> Vec<usize> {
        let mut ends = Vec::new();
        let mut at = 0;
        for part in bytes.chunks(step) {
            let mut rest = part;
            while let Some(end) = found.next_end(rest) {
                ends.push(at + part.len() - rest.len() + end);
                rest = &rest[end..];
            }
            at += part.len();
        }
        ends
    }

    #[test]
    fn requests_and_answers_end_wherever_the_bytes_are_divided() {
        let mut out = BytesMut::new();
        let mut expected = Vec::new();
        for (tag, body) in [
            (b'Q', &b"select 1\0"[..]),
            (b'P', b"\0select 2\0\0\0"),
            (b'H', b""),
            (b'S', b""),
            (b'S', b""),
            (b'd', b"Z\0\0\0\x05I"),
            (b'F', b"\0\0\0\x01"),
            (b'X', b""),
        ] {
            frame::write(&mut out, tag, |out| out.put_slice(body));
            if b"QSF".contains(&tag) {
                expected.push(out.len());
            }
        }
        for step in 1..=out.len() {
            assert_eq!(
                ends(ExchangeEnds::of_requests(), &out, step),
                expected,
                "{step}"
            );
        }
        let mut out = BytesMut::new();
        frame::write(&mut out, b'D', |out| out.put_slice(&[b'Z'; 300]));
        frame::write(&mut out, b'Z', |out| out.put_slice(b"I"));
        let len = out.len();
        frame::write_empty(&mut out, b'Q');
        for step in 1..=out.len() {
            assert_eq!(
                ends(ExchangeEnds::of_answers(), &out, step),
                [len],
                "{step}"
            );
        }
    }
}
