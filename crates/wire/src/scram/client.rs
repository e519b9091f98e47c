//! The client side, for logins to servers.

use super::attributes::{Attributes, is_nonce, text};
use super::{END_POINT, ITERATIONS_MAX, Key, Keys, Stretch, mac, sha256, xor};
use crate::error::WireError;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::num::NonZeroU32;
use subtle::ConstantTimeEq;

/// Channel binding of the connection to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Channel<'a> {
    /// The client does not support channel binding.
    #[default]
    None,
    /// The client supports it, but the server does not offer it.
    NotOffered,
    /// The exchange is bound to the channel with these data (`tls-server-end-point`).
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

/// The client has sent its first message and waits for the server's challenge.
#[derive(Debug)]
pub struct AwaitChallenge {
    channel: String,
    nonce: String,
    bare: String,
}

impl AwaitChallenge {
    /// Starts an exchange and returns the client's first message. The user name in it is empty: PostgreSQL takes it
    /// from the start-up packet.
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

    /// Handles the server's challenge; [`AwaitKeys::stretch`] then returns the parameters of the keys.
    ///
    /// # Errors
    /// [`WireError::Scram`] if the message is malformed, its nonce does not extend the client's, or it requests more
    /// than [`ITERATIONS_MAX`] iterations.
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

/// The server's challenge has arrived; the exchange waits for the keys.
#[derive(Debug)]
pub struct AwaitKeys {
    stretch: Stretch,
    /// `AuthMessage`: both sides sign it.
    signed: String,
    unproved: String,
}

impl AwaitKeys {
    /// The parameters of the key derivation on the server.
    pub fn stretch(&self) -> &Stretch {
        &self.stretch
    }

    /// Returns the client's last message, with the proof.
    pub fn prove(self, keys: &Keys) -> (AwaitSignature, String) {
        let signature = mac(&sha256(&keys.client), self.signed.as_bytes());
        let proof = STANDARD.encode(xor(keys.client, &signature));
        let awaits = AwaitSignature(mac(&keys.server, self.signed.as_bytes()));
        (awaits, format!("{},p={proof}", self.unproved))
    }
}

/// The client has sent its proof and waits for the server's signature.
pub struct AwaitSignature(Key);

impl AwaitSignature {
    /// Handles the server's last message.
    ///
    /// # Errors
    /// [`WireError::Proof`] if the server does not know the password, [`WireError::Scram`] if the message is
    /// malformed.
    pub fn verify(self, last: &[u8]) -> Result<(), WireError> {
        let signature = Attributes::new(text(last)?).next('v')?;
        let signature = STANDARD.decode(signature).unwrap_or_default();
        match bool::from(signature.ct_eq(&self.0[..])) {
            true => Ok(()),
            false => Err(WireError::Proof),
        }
    }
}
