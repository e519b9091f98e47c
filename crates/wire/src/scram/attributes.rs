//! Text of SCRAM messages (RFC 5802, section 7): attributes of one letter, separated by commas.

use crate::error::WireError;

/// The message as text.
pub(super) fn text(message: &[u8]) -> Result<&str, WireError> {
    std::str::from_utf8(message).map_err(|_| WireError::Scram("not text"))
}

/// Reads attributes in order.
pub(super) struct Attributes<'a>(Option<&'a str>);

impl<'a> Attributes<'a> {
    /// Starts at the first attribute of `text`.
    pub(super) fn new(text: &'a str) -> Self {
        Self(Some(text))
    }

    /// The value of the next attribute, whose name must be `letter`.
    pub(super) fn next(&mut self, letter: char) -> Result<&'a str, WireError> {
        let text = self.0.ok_or(WireError::Scram("an attribute is missing"))?;
        let (attribute, rest) = match text.split_once(',') {
            Some((attribute, rest)) => (attribute, Some(rest)),
            None => (text, None),
        };
        self.0 = rest;
        let value = attribute.strip_prefix(letter);
        value
            .and_then(|value| value.strip_prefix('='))
            .ok_or(WireError::Scram("another attribute was expected"))
    }
}

/// Whether a text is a valid nonce: one or more printable ASCII characters other than the comma.
pub(super) fn is_nonce(text: &str) -> bool {
    let fits = |byte: u8| matches!(byte, 0x21..=0x7e) && byte != b',';
    !text.is_empty() && text.bytes().all(fits)
}
