//! The header of a block. Its lengths have 16 bits, so no peer can announce a block of more than 64 KiB, compressed or not.

/// Maximum bytes of a block before compression, and of its content.
pub(super) const BLOCK_BYTES_MAX: usize = 1 << 16;

/// Length of the header of a stored block.
const STORED_HEADER_LEN: usize = 3;

/// Length of the header of a compressed block.
pub(super) const COMPRESSED_HEADER_LEN: usize = 5;

/// Flag of a compressed block.
const COMPRESSED: u8 = 1;

/// Flag of a block that ends an exchange.
const LAST: u8 = 2;

/// The form of a block's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// The bytes themselves.
    Stored,
    /// A zstd frame of this length, at least 1.
    Zstd(usize),
}

/// The header of a block: a byte of flags, the length before compression, and the length of the zstd frame if there is one. A length is
/// transmitted less one, so that a block is never empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) form: Form,
    /// Length before compression, at least 1.
    pub(super) plain_len: usize,
    /// Whether the block ends an exchange: later blocks do not refer to what precedes them.
    pub(super) last: bool,
}

/// The reason why the peer's bytes are not a block.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum BlockError {
    #[error("a block has the unknown flags {0:#04x}")]
    Flags(u8),
    #[error("a block cannot be decompressed: {0}")]
    Zstd(&'static str),
    #[error("a block of {announced} bytes has {found}")]
    Length { announced: usize, found: usize },
}

impl Header {
    /// Reads the header at the start of `bytes` and returns it with its length; `None` if it is incomplete.
    pub(super) fn read(bytes: &[u8]) -> Result<Option<(Self, usize)>, BlockError> {
        let Some(&flags) = bytes.first() else {
            return Ok(None);
        };
        if flags & !(COMPRESSED | LAST) != 0 {
            return Err(BlockError::Flags(flags));
        }
        let Some(plain_len) = length_at(bytes, 1) else {
            return Ok(None);
        };
        let last = flags & LAST != 0;
        let stored = Self {
            form: Form::Stored,
            plain_len,
            last,
        };
        if flags & COMPRESSED == 0 {
            return Ok(Some((stored, STORED_HEADER_LEN)));
        }
        Ok(length_at(bytes, STORED_HEADER_LEN).map(|len| {
            let form = Form::Zstd(len);
            (Self { form, ..stored }, COMPRESSED_HEADER_LEN)
        }))
    }

    /// The bytes of the header, and how many of them it has.
    pub(super) fn bytes(self) -> ([u8; COMPRESSED_HEADER_LEN], usize) {
        let last = if self.last { LAST } else { 0 };
        let [a, b] = length(self.plain_len);
        match self.form {
            Form::Stored => ([last, a, b, 0, 0], STORED_HEADER_LEN),
            Form::Zstd(len) => {
                let [c, d] = length(len);
                ([last | COMPRESSED, a, b, c, d], COMPRESSED_HEADER_LEN)
            }
        }
    }

    /// Length of the content that follows the header.
    pub(super) fn content_len(self) -> usize {
        match self.form {
            Form::Stored => self.plain_len,
            Form::Zstd(len) => len,
        }
    }
}

fn length_at(bytes: &[u8], at: usize) -> Option<usize> {
    let word = bytes.get(at..)?.first_chunk()?;
    Some(usize::from(u16::from_be_bytes(*word)) + 1)
}

/// The transmitted form of a length of 1 to [`BLOCK_BYTES_MAX`].
fn length(len: usize) -> [u8; 2] {
    debug_assert!((1..=BLOCK_BYTES_MAX).contains(&len));
    u16::try_from(len.wrapping_sub(1))
        .unwrap_or(u16::MAX)
        .to_be_bytes()
}
