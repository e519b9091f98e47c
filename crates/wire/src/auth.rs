//! Login to a server: trust, cleartext, md5 and SCRAM-SHA-256 (PostgreSQL documentation, chapter "Frontend/Backend
//! Protocol", sections "Start-up" and "SASL Authentication").

use crate::error::WireError;
use crate::frontend;
use crate::md5;
use crate::reader::Reader;
use crate::scram::client::{AwaitChallenge, AwaitKeys, AwaitSignature, Channel};
use crate::scram::{self, Keys, Stretch};
use bytes::BytesMut;
use std::fmt;

/// Result of handling an `Authentication…` message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// [`Login::handle`] has appended a message to the server; wait for the server's reply.
    Answered,
    /// The caller derives the keys of the password with these parameters and passes them to [`Login::give`]. Deriving
    /// takes milliseconds.
    WantsKeys(Stretch),
    /// The SASL exchange has succeeded; wait for `AuthenticationOk`.
    Nothing,
    /// `AuthenticationOk`: the server accepts the user.
    Accepted,
}

/// The secret that proves the user's identity to a server.
#[derive(Debug, Clone, Copy)]
pub enum Credential<'a> {
    /// No secret: only methods without a proof succeed, such as `trust`.
    None,
    /// The password: works with every method.
    Password(&'a str),
    /// A stored md5 password: works with md5.
    Md5(&'a str),
    /// SCRAM keys: work if the server stores the password with the same [`Stretch`].
    Keys(&'a Keys),
    /// A stored SCRAM secret: verifies proofs and cannot produce one, so that only methods without a proof succeed.
    Verifier,
}

/// The message that the exchange waits for.
enum Awaits {
    /// The server's first `Authentication…` message.
    Request,
    /// SCRAM: the server's challenge.
    Challenge(AwaitChallenge),
    /// SCRAM: the keys, from the caller.
    Keys(AwaitKeys),
    /// SCRAM: the server's signature.
    Signature(AwaitSignature),
}

/// The state of one login.
pub struct Login<'a> {
    user: &'a str,
    credential: Credential<'a>,
    nonce: String,
    end_point: Option<Vec<u8>>,
    awaits: Awaits,
}

impl fmt::Debug for Login<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

impl<'a> Login<'a> {
    /// A login of `user`. `random` must differ for each login: it becomes the SCRAM nonce.
    pub fn new(user: &'a str, credential: Credential<'a>, random: [u8; scram::NONCE_LEN]) -> Self {
        Self {
            user,
            credential,
            nonce: scram::nonce(random),
            end_point: None,
            awaits: Awaits::Request,
        }
    }

    /// Sets the channel binding data of the TLS connection (`tls-server-end-point`, RFC 5929, section 4). SCRAM uses
    /// it if the server offers `SCRAM-SHA-256-PLUS`.
    #[must_use]
    pub fn bound_to(mut self, end_point: Option<Vec<u8>>) -> Self {
        self.end_point = end_point;
        self
    }

    /// Handles the body of an `Authentication…` message and appends the reply, if the message requires one.
    ///
    /// # Errors
    /// [`WireError::Authentication`] for a method that is not supported, a method that requires a secret if there is
    /// none, or a message out of order; [`WireError::Credential`] if the secret does not fit the method;
    /// [`WireError::Scram`] and [`WireError::Proof`] from the SCRAM exchange; other variants for a malformed message.
    pub fn handle(&mut self, body: &[u8], out: &mut BytesMut) -> Result<Progress, WireError> {
        let mut r = Reader::new(body);
        match r.u32()? {
            // Once a proof was requested, `AuthenticationOk` is not accepted before the server has proved that it
            // knows the password.
            0 if !matches!(self.awaits, Awaits::Request) => Err(out_of_order()),
            0 => Ok(Progress::Accepted),
            3 => self.send_password(out),
            5 => self.send_md5(
                r.bytes(4)?.try_into().map_err(|_| WireError::Truncated)?,
                out,
            ),
            10 => self.begin_scram(r, out),
            11 => self.handle_challenge(r.rest(), out),
            12 => match std::mem::replace(&mut self.awaits, Awaits::Request) {
                Awaits::Signature(awaits) => awaits.verify(r.rest()).map(|()| Progress::Nothing),
                _ => Err(out_of_order()),
            },
            other => Err(WireError::Authentication(format!("code {other}").into())),
        }
    }

    /// Continues with the keys that [`Progress::WantsKeys`] has requested.
    ///
    /// # Errors
    /// [`WireError::Authentication`] if no keys were requested.
    pub fn give(&mut self, keys: &Keys, out: &mut BytesMut) -> Result<(), WireError> {
        match std::mem::replace(&mut self.awaits, Awaits::Request) {
            Awaits::Keys(awaits) => {
                let (awaits, proof) = awaits.prove(keys);
                frontend::write_sasl_response(out, proof.as_bytes());
                self.awaits = Awaits::Signature(awaits);
                Ok(())
            }
            _ => Err(out_of_order()),
        }
    }

    fn send_password(&self, out: &mut BytesMut) -> Result<Progress, WireError> {
        match self.credential {
            Credential::Password(password) => {
                frontend::write_password_text(out, password.as_bytes());
                Ok(Progress::Answered)
            }
            Credential::None => Err(no_secret()),
            Credential::Verifier => Err(verifier_only()),
            _ => Err(WireError::Credential(
                "the server asks for the password itself",
            )),
        }
    }

    fn send_md5(&self, salt: [u8; 4], out: &mut BytesMut) -> Result<Progress, WireError> {
        let answer = match self.credential {
            Credential::Password(password) => {
                md5::answer(&md5::stored(self.user, password.as_bytes()), salt)
            }
            Credential::Md5(stored) => md5::answer(stored, salt),
            Credential::None => return Err(no_secret()),
            Credential::Verifier => return Err(verifier_only()),
            Credential::Keys(_) => {
                return Err(WireError::Credential(
                    "the server asks for md5, and the secret is SCRAM",
                ));
            }
        };
        frontend::write_password_text(out, answer.as_bytes());
        Ok(Progress::Answered)
    }

    fn begin_scram(
        &mut self,
        mut r: Reader<'_>,
        out: &mut BytesMut,
    ) -> Result<Progress, WireError> {
        match self.credential {
            Credential::Password(_) | Credential::Keys(_) => {}
            Credential::None => return Err(no_secret()),
            Credential::Verifier => return Err(verifier_only()),
            Credential::Md5(_) => {
                return Err(WireError::Credential(
                    "the server asks for SCRAM, and the secret is md5",
                ));
            }
        }
        let (mut plain, mut plus) = (false, false);
        loop {
            match r.str()? {
                "" => break,
                scram::MECHANISM => plain = true,
                scram::MECHANISM_PLUS => plus = true,
                _ => {}
            }
        }
        let (mechanism, channel) = match self.end_point.as_deref() {
            Some(end_point) if plus => (scram::MECHANISM_PLUS, Channel::EndPoint(end_point)),
            Some(_) if plain => (scram::MECHANISM, Channel::NotOffered),
            None if plain => (scram::MECHANISM, Channel::None),
            _ => {
                return Err(WireError::Authentication(
                    "SASL without SCRAM-SHA-256".into(),
                ));
            }
        };
        let (awaits, first) = AwaitChallenge::begin(self.nonce.clone(), channel);
        frontend::write_sasl_initial(out, mechanism, first.as_bytes());
        self.awaits = Awaits::Challenge(awaits);
        Ok(Progress::Answered)
    }

    fn handle_challenge(
        &mut self,
        challenge: &[u8],
        out: &mut BytesMut,
    ) -> Result<Progress, WireError> {
        let Awaits::Challenge(awaits) = std::mem::replace(&mut self.awaits, Awaits::Request) else {
            return Err(out_of_order());
        };
        let awaits = awaits.challenged(challenge)?;
        let stretch = awaits.stretch().clone();
        self.awaits = Awaits::Keys(awaits);
        match self.credential {
            Credential::Keys(keys) => self.give(keys, out).map(|()| Progress::Answered),
            _ => Ok(Progress::WantsKeys(stretch)),
        }
    }
}

fn no_secret() -> WireError {
    WireError::Authentication("a password, but none is configured for this server".into())
}

fn verifier_only() -> WireError {
    WireError::Credential(
        "the stored secret of the user is a SCRAM secret, which cannot log in to a server; store the password there or write it into the URL",
    )
}

fn out_of_order() -> WireError {
    WireError::Authentication("SASL out of order".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Frames;
    use crate::backend;
    use crate::scram::server::{AwaitProof, mechanisms};

    fn login(credential: Credential<'_>) -> Login<'_> {
        Login::new("u", credential, [1; scram::NONCE_LEN])
    }

    fn body(message: &BytesMut) -> Vec<u8> {
        Frames::new(message).next().unwrap().body().to_vec()
    }

    #[test]
    fn md5_answers_with_the_salted_hash() {
        let stored = md5::stored("u", b"p");
        let mut answers = Vec::new();
        for credential in [Credential::Password("p"), Credential::Md5(&stored)] {
            let mut out = BytesMut::new();
            let done = login(credential).handle(&[0, 0, 0, 5, 1, 2, 3, 4], &mut out);
            assert_eq!(done, Ok(Progress::Answered));
            answers.push(body(&out));
        }
        let expected = md5::answer(&stored, [1, 2, 3, 4]);
        assert_eq!(answers[0], [expected.as_bytes(), b"\0"].concat());
        assert_eq!(answers[0], answers[1]);
    }

    #[test]
    fn a_secret_of_another_kind_is_an_error() {
        let stretch = Stretch {
            salt: vec![1],
            iterations: scram::ITERATIONS,
        };
        let keys = Keys::derive(b"p", &stretch);
        let (cleartext, md5) = ([0, 0, 0, 3], [0, 0, 0, 5, 1, 2, 3, 4]);
        let sasl = b"\0\0\0\x0aSCRAM-SHA-256\0\0";
        for (credential, request) in [
            (Credential::Md5("md5"), &cleartext[..]),
            (Credential::Md5("md5"), sasl),
            (Credential::Keys(&keys), &cleartext),
            (Credential::Keys(&keys), &md5),
        ] {
            let done = login(credential).handle(request, &mut BytesMut::new());
            assert!(
                matches!(done, Err(WireError::Credential(_))),
                "{credential:?}"
            );
        }
        for request in [&cleartext[..], &md5, sasl] {
            let done = login(Credential::None).handle(request, &mut BytesMut::new());
            assert!(matches!(done, Err(WireError::Authentication(_))));
        }
    }

    /// With the password and with its keys, with channel binding and without.
    #[test]
    fn a_scram_exchange_completes() {
        let stretch = Stretch {
            salt: vec![1],
            iterations: scram::ITERATIONS,
        };
        let keys = Keys::derive(b"p", &stretch);
        for end_point in [None, Some(&b"certificate"[..])] {
            for credential in [Credential::Password("p"), Credential::Keys(&keys)] {
                let mut login = login(credential).bound_to(end_point.map(<[u8]>::to_vec));
                let (mut asked, mut out) = (BytesMut::new(), BytesMut::new());
                backend::write_sasl_request(&mut asked, mechanisms(end_point.is_some()));
                login.handle(&body(&asked), &mut out).unwrap();
                let first = body(&out);
                let (mechanism, first) = frontend::read_sasl_initial(&first).unwrap();
                let verifier = keys.verifier(stretch.clone());
                let (awaits, challenge) =
                    AwaitProof::challenge(mechanism, first, verifier, "theirs", end_point).unwrap();
                let (mut asked, mut out) = (BytesMut::new(), BytesMut::new());
                backend::write_sasl_continue(&mut asked, challenge.as_bytes());
                if let Progress::WantsKeys(wanted) = login.handle(&body(&asked), &mut out).unwrap()
                {
                    assert_eq!(wanted, stretch);
                    login.give(&keys, &mut out).unwrap();
                }
                let (_, signature) = awaits.verify(&body(&out)).unwrap();
                let mut asked = BytesMut::new();
                backend::write_sasl_final(&mut asked, signature.as_bytes());
                let done = login.handle(&body(&asked), &mut out);
                assert_eq!(done, Ok(Progress::Nothing));
            }
        }
    }

    /// A server that does not know the password could skip its own proof and send `AuthenticationOk`.
    #[test]
    fn authentication_ok_before_the_servers_proof_is_an_error() {
        let mut login = login(Credential::Password("p"));
        assert_eq!(
            login.handle(&[0; 4], &mut BytesMut::new()),
            Ok(Progress::Accepted)
        );
        let request = b"\0\0\0\x0aSCRAM-SHA-256\0\0";
        login.handle(request, &mut BytesMut::new()).unwrap();
        let done = login.handle(&[0; 4], &mut BytesMut::new());
        assert!(matches!(done, Err(WireError::Authentication(_))));
    }

    /// The first SCRAM message if the server offers these mechanisms.
    fn first_message(binding: Option<&[u8]>, offered: &[u8]) -> Vec<u8> {
        let mut login = login(Credential::Password("p")).bound_to(binding.map(<[u8]>::to_vec));
        let mut out = BytesMut::new();
        let body = [&[0, 0, 0, 10], offered].concat();
        assert_eq!(login.handle(&body, &mut out), Ok(Progress::Answered));
        out[crate::frame::HEADER_LEN..].to_vec()
    }

    #[test]
    fn a_login_uses_channel_binding_if_both_sides_support_it() {
        let (both, plain) = (
            b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0".as_slice(),
            b"SCRAM-SHA-256\0\0".as_slice(),
        );
        for (binding, offered, mechanism, header) in [
            (
                Some(b"hash".as_slice()),
                both,
                "SCRAM-SHA-256-PLUS",
                "p=tls-server-end-point,,n=",
            ),
            (Some(b"hash".as_slice()), plain, "SCRAM-SHA-256", "y,,n="),
            (None, both, "SCRAM-SHA-256", "n,,n="),
        ] {
            let message = first_message(binding, offered);
            let (name, rest) = message.split_at(mechanism.len());
            assert_eq!((name, rest[0]), (mechanism.as_bytes(), 0));
            // After the length.
            assert!(rest[5..].starts_with(header.as_bytes()), "{header}");
        }
    }

    #[test]
    fn sasl_out_of_order_is_an_error() {
        for request in [[0, 0, 0, 11, b'r'], [0, 0, 0, 12, b'v']] {
            let done = login(Credential::Password("p")).handle(&request, &mut BytesMut::new());
            assert!(matches!(done, Err(WireError::Authentication(_))));
        }
    }
}
