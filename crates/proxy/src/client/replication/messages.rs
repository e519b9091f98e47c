//! Finds message boundaries in a stream of bytes. It does not keep the messages.

use paceline_wire::backend::tag;
use paceline_wire::frame::HEADER_LEN;

/// A position in a stream of messages.
#[derive(Debug, Default)]
pub(super) struct Messages {
    /// The part of the current message's header that has arrived …
    header: [u8; HEADER_LEN],
    header_len: usize,
    /// … and the number of bytes of its body that have not.
    body_left: usize,
}

impl Messages {
    /// Whether the position is between two messages.
    pub(super) fn are_whole(&self) -> bool {
        self.header_len == 0
    }

    /// Advances over the next bytes. Calls `ready` with the status byte of each ReadyForQuery.
    pub(super) fn pass(&mut self, mut bytes: &[u8], mut ready: impl FnMut(u8)) {
        while let Some((&first, rest)) = bytes.split_first() {
            if self.header_len < HEADER_LEN {
                if let Some(place) = self.header.get_mut(self.header_len) {
                    *place = first;
                }
                self.header_len += 1;
                bytes = rest;
                if self.header_len == HEADER_LEN {
                    let [_, length @ ..] = self.header;
                    let length = u32::from_be_bytes(length) as usize;
                    self.body_left = length.saturating_sub(size_of::<u32>());
                    self.end_if_over();
                }
                continue;
            }
            let [kind, ..] = self.header;
            if kind == tag::READY_FOR_QUERY {
                ready(first);
            }
            let passed = self.body_left.min(bytes.len());
            self.body_left -= passed;
            bytes = bytes.get(passed..).unwrap_or_default();
            self.end_if_over();
        }
    }

    fn end_if_over(&mut self) {
        if self.body_left == 0 {
            self.header_len = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boundaries_are_found_in_any_portions() {
        let bytes = b"S\0\0\0\x08a\0b\0n\0\0\0\x04Z\0\0\0\x05Td\0\0\0\x09ZZZZZZ\0\0\0\x05I";
        // Ends of messages: after ParameterStatus, NoData, ReadyForQuery, CopyData, ReadyForQuery.
        let ends = [0, 9, 14, 20, 30, 36];
        for portion in 1..bytes.len() {
            let (mut messages, mut seen, mut at) = (Messages::default(), Vec::new(), 0);
            for part in bytes.chunks(portion) {
                messages.pass(part, |status| seen.push(status));
                at += part.len();
                assert_eq!(messages.are_whole(), ends.contains(&at), "{portion} {at}");
            }
            assert_eq!(seen, b"TI");
        }
    }
}
