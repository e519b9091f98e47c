//! A cursor over a message body. Every step can say that the peer sent too little.

use crate::WireError;

/// Reads fields from the front of a body.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// A reader at the start of `body`.
    pub fn new(body: &'a [u8]) -> Self {
        Self(body)
    }

    /// What has not been read.
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// The next `len` bytes.
    pub fn bytes(&mut self, len: usize) -> Result<&'a [u8], WireError> {
        let (head, rest) = self.0.split_at_checked(len).ok_or(WireError::Truncated)?;
        self.0 = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (head, rest) = self
            .0
            .split_first_chunk::<N>()
            .ok_or(WireError::Truncated)?;
        self.0 = rest;
        Ok(*head)
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8, WireError> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Int16.
    pub fn i16(&mut self) -> Result<i16, WireError> {
        self.array().map(i16::from_be_bytes)
    }

    /// Int16 that counts something.
    pub fn count(&mut self) -> Result<usize, WireError> {
        // Counts are unsigned in practice: libpq sends up to 65,535 parameters.
        self.array().map(u16::from_be_bytes).map(usize::from)
    }

    /// Int32.
    pub fn i32(&mut self) -> Result<i32, WireError> {
        self.array().map(i32::from_be_bytes)
    }

    /// Int32, unsigned (OIDs, process ids, keys).
    pub fn u32(&mut self) -> Result<u32, WireError> {
        self.array().map(u32::from_be_bytes)
    }

    /// A value with a length word in front, -1 for NULL.
    pub fn value(&mut self) -> Result<Option<&'a [u8]>, WireError> {
        let len = self.i32()?;
        match usize::try_from(len) {
            Ok(len) => self.bytes(len).map(Some),
            Err(_) if len == -1 => Ok(None),
            Err(_) => Err(WireError::Length),
        }
    }

    /// A string ended by a zero byte, as bytes (it is in the client's encoding).
    pub fn cstr(&mut self) -> Result<&'a [u8], WireError> {
        let end = self
            .0
            .iter()
            .position(|&b| b == 0)
            .ok_or(WireError::String)?;
        let text = self.bytes(end)?;
        self.bytes(1)?;
        Ok(text)
    }

    /// A string ended by a zero byte that must be UTF-8.
    pub fn str(&mut self) -> Result<&'a str, WireError> {
        std::str::from_utf8(self.cstr()?).map_err(|_| WireError::String)
    }
}
