//! Hashes with a key that only this process has.

use super::random::random;
use ring::hmac;
use std::io;
use std::sync::OnceLock;

/// Length of a hash in bytes.
pub(super) const HASH_LEN: usize = 32;

/// The key, created when the first hash is made.
#[derive(Default)]
pub struct ProcessKey(OnceLock<hmac::Key>);

impl ProcessKey {
    /// The hash of these parts and of their lengths.
    ///
    /// # Errors
    /// The operating system gives no random numbers.
    pub fn hash(&self, parts: &[&[u8]]) -> io::Result<[u8; HASH_LEN]> {
        let mut context = hmac::Context::with_key(self.key()?);
        for part in parts {
            context.update(&part.len().to_be_bytes());
            context.update(part);
        }
        let mut hash = [0; HASH_LEN];
        let tag = context.sign();
        hash.iter_mut()
            .zip(tag.as_ref())
            .for_each(|(to, from)| *to = *from);
        Ok(hash)
    }

    fn key(&self) -> io::Result<&hmac::Key> {
        if let Some(key) = self.0.get() {
            return Ok(key);
        }
        let drawn = hmac::Key::new(hmac::HMAC_SHA256, &random::<HASH_LEN>()?);
        Ok(self.0.get_or_init(|| drawn))
    }
}
