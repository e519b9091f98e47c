//! Calls of zstd. The connections of a thread share its contexts, so that a connection owns none.

use super::block::BlockError;
use std::cell::RefCell;
use zstd_safe::{CCtx, DCtx, ErrorCode, get_error_name};

thread_local! {
    static COMPRESSION: RefCell<CCtx<'static>> = RefCell::new(CCtx::create());
    static DECOMPRESSION: RefCell<DCtx<'static>> = RefCell::new(DCtx::create());
}

/// Compresses a block by this dictionary into `out`. Returns the length; `None` if the result would not fit into `out`.
pub(super) fn compress(
    plain: &[u8],
    dictionary: &[u8],
    level: i32,
    out: &mut [u8],
) -> Option<usize> {
    COMPRESSION.with_borrow_mut(|context| {
        let compressed = context.compress_using_dict(out, plain, dictionary, level);
        compressed.ok()
    })
}

/// Decompresses a block by this dictionary. It must fill `plain`.
pub(super) fn decompress(
    content: &[u8],
    dictionary: &[u8],
    plain: &mut [u8],
) -> Result<(), BlockError> {
    let announced = plain.len();
    let found = DECOMPRESSION
        .with_borrow_mut(|context| context.decompress_using_dict(plain, content, dictionary))
        .map_err(|code: ErrorCode| BlockError::Zstd(get_error_name(code)))?;
    match found == announced {
        true => Ok(()),
        false => Err(BlockError::Length { announced, found }),
    }
}
