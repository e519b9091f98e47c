//! A cursor over a message body (PostgreSQL documentation, section "Message Data Types"). Each method reports a body
//! that ends too early.

use crate::error::WireError;

/// Reads fields from the start of a body.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// A reader at the start of `body`.
    pub fn new(body: &'a [u8]) -> Self {
        Self(body)
    }

    /// The bytes that were not read.
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// The next `len` bytes.
    ///
    /// # Errors
    /// [`WireError::Truncated`] if the body ends too early.
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

    /// Byte1.
    ///
    /// # Errors
    /// [`WireError::Truncated`] if the body ends too early.
    pub fn u8(&mut self) -> Result<u8, WireError> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Int16.
    ///
    /// # Errors
    /// [`WireError::Truncated`] if the body ends too early.
    pub fn i16(&mut self) -> Result<i16, WireError> {
        self.array().map(i16::from_be_bytes)
    }

    /// Int16 that is a number of items.
    ///
    /// # Errors
    /// [`WireError::Truncated`] if the body ends too early.
    pub fn count(&mut self) -> Result<usize, WireError> {
        // libpq sends up to 65,535 parameters, so that the number is unsigned.
        self.array().map(u16::from_be_bytes).map(usize::from)
    }

    /// Int32.
    ///
    /// # Errors
    /// [`WireError::Truncated`] if the body ends too early.
    pub fn i32(&mut self) -> Result<i32, WireError> {
        self.array().map(i32::from_be_bytes)
    }

    /// Int32, unsigned (OIDs, process IDs, secrets).
    ///
    /// # Errors
    /// [`WireError::Truncated`] if the body ends too early.
    pub fn u32(&mut self) -> Result<u32, WireError> {
        self.array().map(u32::from_be_bytes)
    }

    /// A value after its length word; a length of -1 is NULL.
    ///
    /// # Errors
    /// [`WireError::Truncated`] if the body ends too early, [`WireError::Length`] for a length below -1.
    pub fn value(&mut self) -> Result<Option<&'a [u8]>, WireError> {
        let len = self.i32()?;
        match usize::try_from(len) {
            Ok(len) => self.bytes(len).map(Some),
            Err(_) if len == -1 => Ok(None),
            Err(_) => Err(WireError::Length),
        }
    }

    /// A string that a zero byte terminates, in the client's encoding.
    ///
    /// # Errors
    /// [`WireError::String`] if the zero byte is missing.
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

    /// A string that a zero byte terminates and that must be UTF-8.
    ///
    /// # Errors
    /// [`WireError::String`] if the zero byte is missing or the string is not UTF-8.
    pub fn str(&mut self) -> Result<&'a str, WireError> {
        std::str::from_utf8(self.cstr()?).map_err(|_| WireError::String)
    }
}
