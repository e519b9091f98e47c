//! SCRAM-SHA-256, both sides of it (RFC 5802 and 7677; PostgreSQL documentation, chapter "SASL Authentication").
//!
//! An exchange is a chain of values, one for each message that is awaited: each is used up by the message that it awaits, so
//! that nothing can come out of order. Randomness comes in as an argument, and nothing here asks for the expensive step by
//! itself: whoever has a password turns it into [`Keys`] where that may take a while.

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
/// The mechanism that is bound to the TLS connection that it runs in.
pub const MECHANISM_PLUS: &str = "SCRAM-SHA-256-PLUS";

/// The one kind of channel binding that PostgreSQL has, as the client's first message names it.
const END_POINT: &str = "p=tls-server-end-point";

/// Bytes of every key.
pub const KEY_LEN: usize = 32;
type Key = [u8; KEY_LEN];

/// Bytes of randomness in a nonce: as many as PostgreSQL's (`SCRAM_RAW_NONCE_LEN`).
pub const NONCE_LEN: usize = 18;

/// What PostgreSQL stretches passwords by unless told otherwise.
pub const ITERATIONS: NonZeroU32 = NonZeroU32::new(4_096).unwrap();

/// More than this is not computed for a peer: whoever asks for it could keep a processor busy for as long as it likes.
pub const ITERATIONS_MAX: u32 = 1_000_000;

/// A nonce as text: printable, and without a comma.
pub fn nonce(random: [u8; NONCE_LEN]) -> String {
    STANDARD.encode(random)
}

/// How a password is stretched into keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stretch {
    /// Different for every stored password.
    pub salt: Vec<u8>,
    /// How long it takes.
    pub iterations: NonZeroU32,
}

/// What a password becomes: proves to the other side, in both directions, that one knows it. As good as the password itself
/// wherever it is stored with the same [`Stretch`]; `Debug` does not show it.
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
    /// Stretches a password. Takes milliseconds: nothing for a thread that serves sockets.
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

    /// What a server would keep of them.
    pub fn verifier(&self, stretch: Stretch) -> Verifier {
        Verifier {
            stretch,
            stored: sha256(&self.client),
            server: self.server,
        }
    }
}

/// SASLprep where the password is text that it takes; any other bytes are taken as they are, as PostgreSQL does.
fn prepared(password: &[u8]) -> Vec<u8> {
    let text = std::str::from_utf8(password).ok();
    let prepared = text.and_then(|text| stringprep::saslprep(text).ok());
    prepared.map_or_else(|| password.to_vec(), |text| text.into_owned().into_bytes())
}

/// What a server keeps of a password: checks the proof of who knows it, and is no such proof itself.
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
    /// Of the hash of the client's key, and the server's key.
    pub fn new(stretch: Stretch, stored: [u8; KEY_LEN], server: [u8; KEY_LEN]) -> Self {
        Self {
            stretch,
            stored,
            server,
        }
    }

    /// Reads what PostgreSQL keeps: `SCRAM-SHA-256$<iterations>:<salt>$<stored key>:<server key>`.
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

    /// How a password must be stretched to be compared.
    pub fn stretch(&self) -> &Stretch {
        &self.stretch
    }

    /// Whether these are the keys of the password that it was made of. Takes as long when they are not.
    pub fn is_of(&self, keys: &Keys) -> bool {
        self.stored.ct_eq(&sha256(&keys.client)).into()
    }
}

fn mac(key: &[u8], message: &[u8]) -> Key {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message);
    taken(tag.as_ref())
}

fn sha256(bytes: &[u8]) -> Key {
    taken(digest::digest(&digest::SHA256, bytes).as_ref())
}

/// The bytes of a hash, which are as many as they are.
fn taken(bytes: &[u8]) -> Key {
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
