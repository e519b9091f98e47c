//! The side that proves, towards a server.

use super::attributes::{Attributes, is_nonce, text};
use super::{END_POINT, ITERATIONS_MAX, Key, Keys, Stretch, mac, sha256, xor};
use crate::WireError;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::num::NonZeroU32;
use subtle::ConstantTimeEq;

/// What is known of the channel to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Channel<'a> {
    /// Nothing to bind to.
    #[default]
    None,
    /// It could be bound to, but the server does not offer it.
    NotOffered,
    /// It is bound to (`tls-server-end-point`).
    EndPoint(&'a [u8]),
}

impl Channel<'_> {
    fn header(self) -> String {
        let flag = match self {
            Self::None => "n",
            Self::NotOffered => "y",
            Self::EndPoint(_) => END_POINT,
        };
        format!("{flag},,")
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::None | Self::NotOffered => &[],
            Self::EndPoint(bytes) => bytes,
        }
    }
}

/// Our first message is out.
#[derive(Debug)]
pub struct AwaitChallenge {
    channel: String,
    nonce: String,
    bare: String,
}

impl AwaitChallenge {
    /// Begins, and returns the first message. The server takes the user from the start-up packet.
    pub fn begin(nonce: String, channel: Channel<'_>) -> (Self, String) {
        let header = channel.header();
        let bare = format!("n=,r={nonce}");
        let first = format!("{header}{bare}");
        let awaits = Self {
            channel: STANDARD.encode([header.as_bytes(), channel.bytes()].concat()),
            nonce,
            bare,
        };
        (awaits, first)
    }

    /// Takes the server's challenge: [`AwaitKeys::stretch`] says which keys it wants.
    pub fn challenged(self, challenge: &[u8]) -> Result<AwaitKeys, WireError> {
        let challenge = text(challenge)?;
        let mut attributes = Attributes::new(challenge);
        let nonce = attributes.next('r')?;
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() || !is_nonce(nonce) {
            return Err(WireError::Scram("nonce does not match"));
        }
        let salt = STANDARD.decode(attributes.next('s')?);
        let iterations = attributes.next('i')?.parse().ok();
        let iterations = iterations.filter(|count: &NonZeroU32| count.get() <= ITERATIONS_MAX);
        let unproved = format!("c={},r={nonce}", self.channel);
        Ok(AwaitKeys {
            stretch: Stretch {
                salt: salt.map_err(|_| WireError::Scram("invalid salt"))?,
                iterations: iterations.ok_or(WireError::Scram("invalid iteration count"))?,
            },
            signed: format!("{},{challenge},{unproved}", self.bare),
            unproved,
        })
    }
}

/// The challenge is there.
#[derive(Debug)]
pub struct AwaitKeys {
    stretch: Stretch,
    /// What both sides sign.
    signed: String,
    unproved: String,
}

impl AwaitKeys {
    /// How the server's password is stretched.
    pub fn stretch(&self) -> &Stretch {
        &self.stretch
    }

    /// Proves that we have the keys: returns the last message.
    pub fn prove(self, keys: &Keys) -> (AwaitSignature, String) {
        let signature = mac(&sha256(&keys.client), self.signed.as_bytes());
        let proof = STANDARD.encode(xor(keys.client, &signature));
        let awaits = AwaitSignature(mac(&keys.server, self.signed.as_bytes()));
        (awaits, format!("{},p={proof}", self.unproved))
    }
}

/// The proof is out.
pub struct AwaitSignature(Key);

impl AwaitSignature {
    /// Takes the server's last message.
    ///
    /// # Errors
    /// [`WireError::Proof`] if the server does not know the password.
    pub fn verify(self, last: &[u8]) -> Result<(), WireError> {
        let signature = Attributes::new(text(last)?).next('v')?;
        let signature = STANDARD.decode(signature).unwrap_or_default();
        match bool::from(signature.ct_eq(&self.0[..])) {
            true => Ok(()),
            false => Err(WireError::Proof),
        }
    }
}
