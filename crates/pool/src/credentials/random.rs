//! Random bytes of the operating system.

use std::io;

/// Unpredictable bytes.
///
/// # Errors
/// The operating system gives no random numbers.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes)
}
