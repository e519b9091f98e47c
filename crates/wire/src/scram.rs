//! SCRAM-SHA-256, client and server side (RFC 5802, RFC 7677; PostgreSQL documentation, section "SASL
//! Authentication").
//!
//! An exchange is a sequence of values, one for each message that it waits for. Handling the message consumes the
//! value, so that messages out of order cannot be handled. The caller passes random bytes as an argument and calls
//! [`Keys::derive`], the expensive step, on a thread that may block.

mod attributes;
pub mod client;
pub mod server;
#[cfg(test)]
mod tests;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, hmac, pbkdf2};
use std::fmt;
use std::num::NonZeroU32;
use subtle::ConstantTimeEq;

/// The mechanism without channel binding.
pub const MECHANISM: &str = "SCRAM-SHA-256";
/// The mechanism with channel binding to the TLS connection.
pub const MECHANISM_PLUS: &str = "SCRAM-SHA-256-PLUS";

/// The only channel binding type of PostgreSQL, as the client's first message spells it (RFC 5929, section 4).
const END_POINT: &str = "p=tls-server-end-point";

/// Bytes of a key.
pub const KEY_LEN: usize = 32;
type Key = [u8; KEY_LEN];

/// Random bytes in a nonce. The number is PostgreSQL's (`SCRAM_RAW_NONCE_LEN`).
pub const NONCE_LEN: usize = 18;

/// PostgreSQL's default of `scram_iterations`.
pub const ITERATIONS: NonZeroU32 = NonZeroU32::new(4_096).unwrap();

/// Maximum iterations that a peer may request. The limit keeps a peer from occupying a processor.
pub const ITERATIONS_MAX: u32 = 1_000_000;

/// The printable form of a nonce, without commas.
pub fn nonce(random: [u8; NONCE_LEN]) -> String {
    STANDARD.encode(random)
}

/// Parameters of the key derivation (RFC 5802, section 3: `Hi`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stretch {
    /// Random bytes, different for each stored password.
    pub salt: Vec<u8>,
    /// Number of iterations of PBKDF2.
    pub iterations: NonZeroU32,
}

/// `ClientKey` and `ServerKey` of a password (RFC 5802, section 3). They prove knowledge of the password in both
/// directions, and replace it on each server that stores the password with the same [`Stretch`]. `Debug` does not
/// print them.
#[derive(Clone, PartialEq, Eq)]
pub struct Keys {
    client: Key,
    server: Key,
}

impl fmt::Debug for Keys {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Keys(***)")
    }
}

impl Keys {
    /// Derives the keys of a password. This takes milliseconds: do not call it on a thread that serves sockets.
    pub fn derive(password: &[u8], stretch: &Stretch) -> Self {
        let mut salted = [0; KEY_LEN];
        pbkdf2::derive(
            pbkdf2::PBKDF2_HMAC_SHA256,
            stretch.iterations,
            &stretch.salt,
            &prepared(password),
            &mut salted,
        );
        Self {
            client: mac(&salted, b"Client Key"),
            server: mac(&salted, b"Server Key"),
        }
    }

    /// The secret that a server stores for these keys.
    pub fn verifier(&self, stretch: Stretch) -> Verifier {
        Verifier {
            stretch,
            stored: sha256(&self.client),
            server: self.server,
        }
    }
}

/// Normalizes a password by SASLprep (RFC 4013). Like PostgreSQL, it uses the bytes unchanged if they are not UTF-8
/// or contain prohibited characters.
fn prepared(password: &[u8]) -> Vec<u8> {
    let text = std::str::from_utf8(password).ok();
    let prepared = text.and_then(|text| stringprep::saslprep(text).ok());
    prepared.map_or_else(|| password.to_vec(), |text| text.into_owned().into_bytes())
}

/// The secret that a server stores: verifies a client's proof and cannot produce one.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    stretch: Stretch,
    stored: Key,
    server: Key,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Verifier(***)")
    }
}

impl Verifier {
    /// A secret of `StoredKey` and `ServerKey`.
    pub fn new(stretch: Stretch, stored: [u8; KEY_LEN], server: [u8; KEY_LEN]) -> Self {
        Self {
            stretch,
            stored,
            server,
        }
    }

    /// Parses the form that PostgreSQL stores: `SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>`.
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix(MECHANISM)?.strip_prefix('$')?;
        let (stretch, keys) = rest.split_once('$')?;
        let (iterations, salt) = stretch.split_once(':')?;
        let (stored, server) = keys.split_once(':')?;
        let key = |text: &str| Key::try_from(STANDARD.decode(text).ok()?).ok();
        Some(Self {
            stretch: Stretch {
                salt: STANDARD.decode(salt).ok()?,
                iterations: iterations.parse().ok()?,
            },
            stored: key(stored)?,
            server: key(server)?,
        })
    }

    /// The parameters of the key derivation.
    pub fn stretch(&self) -> &Stretch {
        &self.stretch
    }

    /// Whether the secret was derived from these keys. Takes constant time.
    pub fn is_of(&self, keys: &Keys) -> bool {
        self.stored.ct_eq(&sha256(&keys.client)).into()
    }
}

fn mac(key: &[u8], message: &[u8]) -> Key {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message);
    key_of(tag.as_ref())
}

fn sha256(bytes: &[u8]) -> Key {
    key_of(digest::digest(&digest::SHA256, bytes).as_ref())
}

/// Copies a hash of [`KEY_LEN`] bytes.
fn key_of(bytes: &[u8]) -> Key {
    let mut key = [0; KEY_LEN];
    key.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    key
}

fn xor(one: Key, other: &Key) -> Key {
    let mut both = one;
    both.iter_mut()
        .zip(other)
        .for_each(|(to, from)| *to ^= from);
    both
}
