//! The server side: answers a client's first message with a challenge, then verifies the proof in the last message.

use super::attributes::{Attributes, is_nonce, text};
use super::{END_POINT, Key, Keys, MECHANISM, MECHANISM_PLUS, Verifier, mac, sha256, xor};
use crate::error::WireError;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use subtle::ConstantTimeEq;

/// The mechanisms to offer; `bound` if the connection supports channel binding.
pub fn mechanisms(bound: bool) -> &'static [&'static str] {
    match bound {
        true => &[MECHANISM_PLUS, MECHANISM],
        false => &[MECHANISM],
    }
}

/// The server has sent its challenge and waits for the client's proof.
#[derive(Debug)]
pub struct AwaitProof {
    verifier: Verifier,
    /// The value that the client must repeat: its channel binding header, and the channel binding data.
    channel: String,
    /// The nonces of client and server.
    nonce: String,
    /// `AuthMessage` without the client's last message: both sides sign it.
    signed_so_far: String,
}

impl AwaitProof {
    /// Handles the client's first message and returns the challenge. `channel` is the channel binding data of the TLS
    /// connection (`tls-server-end-point`); if it is present, both mechanisms were offered.
    ///
    /// # Errors
    /// [`WireError::Scram`] if the message is malformed, or its mechanism or channel binding was not offered.
    pub fn challenge(
        mechanism: &str,
        first: &[u8],
        verifier: Verifier,
        nonce: &str,
        channel: Option<&[u8]>,
    ) -> Result<(Self, String), WireError> {
        let first = text(first)?;
        let (flag, rest) = first
            .split_once(',')
            .ok_or(WireError::Scram("a comma is missing"))?;
        let (identity, bare) = rest
            .split_once(',')
            .ok_or(WireError::Scram("a comma is missing"))?;
        if !identity.is_empty() {
            return Err(WireError::Scram(
                "an authorization identity is not supported",
            ));
        }
        let bound = bound_to(mechanism, flag, channel)?;
        let client_nonce = read_bare(bare)?;
        let header = format!("{flag},,");
        let nonce = format!("{client_nonce}{nonce}");
        let stretch = verifier.stretch();
        let salt = STANDARD.encode(&stretch.salt);
        let challenge = format!("r={nonce},s={salt},i={}", stretch.iterations);
        let awaits = Self {
            channel: STANDARD.encode([header.as_bytes(), bound].concat()),
            signed_so_far: format!("{bare},{challenge}"),
            nonce,
            verifier,
        };
        Ok((awaits, challenge))
    }

    /// Handles the client's last message: returns the keys that the client has proved to know, and the message with
    /// the server's signature.
    ///
    /// # Errors
    /// [`WireError::Proof`] if the client does not know the password, [`WireError::Scram`] if the message is
    /// malformed.
    pub fn verify(self, last: &[u8]) -> Result<(Keys, String), WireError> {
        let last = text(last)?;
        let (unproved, proof) = last
            .rsplit_once(",p=")
            .ok_or(WireError::Scram("the proof is missing"))?;
        let mut attributes = Attributes::new(unproved);
        if attributes.next('c')? != self.channel {
            return Err(WireError::Scram("channel binding does not match"));
        }
        if attributes.next('r')? != self.nonce {
            return Err(WireError::Scram("nonce does not match"));
        }
        let proof = STANDARD.decode(proof).ok();
        let proof = proof.and_then(|proof| Key::try_from(proof).ok());
        let proof = proof.ok_or(WireError::Scram("the proof is malformed"))?;
        let signed = format!("{},{unproved}", self.signed_so_far);
        let client = xor(proof, &mac(&self.verifier.stored, signed.as_bytes()));
        if !bool::from(sha256(&client).ct_eq(&self.verifier.stored)) {
            return Err(WireError::Proof);
        }
        let server = self.verifier.server;
        let ours = STANDARD.encode(mac(&server, signed.as_bytes()));
        Ok((Keys { client, server }, format!("v={ours}")))
    }
}

/// The channel binding data of the exchange; empty without channel binding.
fn bound_to<'a>(
    mechanism: &str,
    flag: &str,
    channel: Option<&'a [u8]>,
) -> Result<&'a [u8], WireError> {
    match (mechanism, flag, channel) {
        (MECHANISM, "n", _) | (MECHANISM, "y", None) => Ok(&[]),
        // The client supports channel binding and believes that the server does not: the offer was changed in
        // transit.
        (MECHANISM, "y", Some(_)) => Err(WireError::Scram("channel binding was offered")),
        (MECHANISM_PLUS, END_POINT, Some(channel)) => Ok(channel),
        (MECHANISM | MECHANISM_PLUS, _, _) => {
            Err(WireError::Scram("channel binding is not possible"))
        }
        _ => Err(WireError::Scram(
            "client selected an invalid SASL authentication mechanism",
        )),
    }
}

/// The client's nonce. The user name is ignored, as in PostgreSQL: the start-up packet has named the user.
fn read_bare(bare: &str) -> Result<&str, WireError> {
    let mut attributes = Attributes::new(bare);
    attributes.next('n')?;
    let nonce = attributes.next('r')?;
    match is_nonce(nonce) {
        true => Ok(nonce),
        false => Err(WireError::Scram("non-printable characters in nonce")),
    }
}
