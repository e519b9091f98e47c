//! The side that checks: a client's first message is answered with a challenge, its last one holds the proof.

use super::attributes::{Attributes, is_nonce, text};
use super::{END_POINT, Key, Keys, MECHANISM, MECHANISM_PLUS, Verifier, mac, sha256, xor};
use crate::WireError;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use subtle::ConstantTimeEq;

/// The mechanisms to offer; `bound` where the channel is one that can be bound to.
pub fn mechanisms(bound: bool) -> &'static [&'static str] {
    match bound {
        true => &[MECHANISM_PLUS, MECHANISM],
        false => &[MECHANISM],
    }
}

/// The challenge is out.
#[derive(Debug)]
pub struct AwaitProof {
    verifier: Verifier,
    /// The value that the client must repeat: what it said of the channel, and the channel itself.
    channel: String,
    /// Of both sides.
    nonce: String,
    /// What both sides sign, up to and with the challenge.
    so_far: String,
}

impl AwaitProof {
    /// Takes the client's first message and returns what to send next. `channel` is what TLS knows of the channel
    /// (`tls-server-end-point`), if it does; then both mechanisms were offered.
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
        let theirs = read_bare(bare)?;
        let header = format!("{flag},,");
        let nonce = format!("{theirs}{nonce}");
        let stretch = verifier.stretch();
        let salt = STANDARD.encode(&stretch.salt);
        let challenge = format!("r={nonce},s={salt},i={}", stretch.iterations);
        let awaits = Self {
            channel: STANDARD.encode([header.as_bytes(), bound].concat()),
            so_far: format!("{bare},{challenge}"),
            nonce,
            verifier,
        };
        Ok((awaits, challenge))
    }

    /// Takes the client's last message: returns the keys that it has proved to have, and what to send it as a proof of ours.
    ///
    /// # Errors
    /// [`WireError::Proof`] if it does not know the password.
    pub fn verify(self, last: &[u8]) -> Result<(Keys, String), WireError> {
        let last = text(last)?;
        let (unproved, proof) = last
            .rsplit_once(",p=")
            .ok_or(WireError::Scram("there is no proof"))?;
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
        let signed = format!("{},{unproved}", self.so_far);
        let client = xor(proof, &mac(&self.verifier.stored, signed.as_bytes()));
        if !bool::from(sha256(&client).ct_eq(&self.verifier.stored)) {
            return Err(WireError::Proof);
        }
        let server = self.verifier.server;
        let ours = STANDARD.encode(mac(&server, signed.as_bytes()));
        Ok((Keys { client, server }, format!("v={ours}")))
    }
}

/// The bytes of the channel that the exchange is bound to, none where it is not bound.
fn bound_to<'a>(
    mechanism: &str,
    flag: &str,
    channel: Option<&'a [u8]>,
) -> Result<&'a [u8], WireError> {
    match (mechanism, flag, channel) {
        (MECHANISM, "n", _) | (MECHANISM, "y", None) => Ok(&[]),
        // It could, and believes that we cannot: somebody has changed our offer on its way.
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

/// The client's nonce. Its name is not looked at: it is that of the start-up packet.
fn read_bare(bare: &str) -> Result<&str, WireError> {
    let mut attributes = Attributes::new(bare);
    attributes.next('n')?;
    let nonce = attributes.next('r')?;
    match is_nonce(nonce) {
        true => Ok(nonce),
        false => Err(WireError::Scram("non-printable characters in nonce")),
    }
}
