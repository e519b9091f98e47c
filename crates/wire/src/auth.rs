//! Login towards a server: trust, cleartext, md5 and SCRAM-SHA-256 (chapter "SASL Authentication", RFC 5802
//! and 7677; the primitives are those of `postgres-protocol`).

use crate::reader::Reader;
use crate::{WireError, frame};
use bytes::{BufMut, BytesMut};
use postgres_protocol::authentication::{md5_hash, sasl};
use std::fmt;

/// What the server's `Authentication…` message leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// A message to the server was appended; it will answer.
    Answered,
    /// The server expects nothing (a SASL exchange has ended well).
    Nothing,
    /// The server let us in.
    Accepted,
}

enum State {
    /// Nothing was exchanged.
    AwaitRequest,
    /// SCRAM: our first message is out.
    AwaitScram(Box<sasl::ScramSha256>),
}

/// One login.
pub struct Login<'a> {
    user: &'a str,
    password: Option<&'a str>,
    /// `tls-server-end-point` of the connection.
    binding: Option<Vec<u8>>,
    state: State,
}

impl fmt::Debug for Login<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

impl<'a> Login<'a> {
    /// A login of `user`; without a password only `trust` and the like succeed.
    pub fn new(user: &'a str, password: Option<&'a str>) -> Self {
        Self {
            user,
            password,
            binding: None,
            state: State::AwaitRequest,
        }
    }

    /// Binds the login to an encrypted connection, where the server can (SCRAM-SHA-256-PLUS): by the hash of the server's
    /// certificate, `tls-server-end-point` (RFC 5929).
    pub fn bound_to(self, binding: Option<Vec<u8>>) -> Self {
        Self { binding, ..self }
    }

    /// Carries out what the body of an `Authentication…` message asks for.
    pub fn handle(&mut self, body: &[u8], out: &mut BytesMut) -> Result<Progress, WireError> {
        let mut r = Reader::new(body);
        match r.u32()? {
            0 => Ok(Progress::Accepted),
            3 => {
                let password = self.password()?;
                write_password(out, password.as_bytes());
                Ok(Progress::Answered)
            }
            5 => {
                let salt = r.bytes(4)?.try_into().map_err(|_| WireError::Truncated)?;
                let hash = md5_hash(self.user.as_bytes(), self.password()?.as_bytes(), salt);
                write_password(out, hash.as_bytes());
                Ok(Progress::Answered)
            }
            10 => self.start_scram(r, out),
            11 => {
                let scram = self.scram()?;
                scram.update(r.rest()).map_err(|e| failed(&e))?;
                frame::write(out, b'p', |out| out.put_slice(scram.message()));
                Ok(Progress::Answered)
            }
            12 => {
                self.scram()?.finish(r.rest()).map_err(|e| failed(&e))?;
                Ok(Progress::Nothing)
            }
            other => Err(WireError::Authentication(format!("code {other}").into())),
        }
    }

    fn start_scram(
        &mut self,
        mut r: Reader<'_>,
        out: &mut BytesMut,
    ) -> Result<Progress, WireError> {
        let (mut plain, mut plus) = (false, false);
        loop {
            match r.str()? {
                "" => break,
                name => {
                    plain |= name == sasl::SCRAM_SHA_256;
                    plus |= name == sasl::SCRAM_SHA_256_PLUS;
                }
            }
        }
        let (mechanism, channel) = match (self.binding.take(), plus) {
            (Some(binding), true) => (
                sasl::SCRAM_SHA_256_PLUS,
                sasl::ChannelBinding::tls_server_end_point(binding),
            ),
            // Whoever has taken the offer away is found out: the server knows that it made it.
            (Some(_), false) => (sasl::SCRAM_SHA_256, sasl::ChannelBinding::unrequested()),
            (None, _) => (sasl::SCRAM_SHA_256, sasl::ChannelBinding::unsupported()),
        };
        if mechanism == sasl::SCRAM_SHA_256 && !plain {
            return Err(WireError::Authentication(
                "SASL without SCRAM-SHA-256".into(),
            ));
        }
        let scram = sasl::ScramSha256::new(self.password()?.as_bytes(), channel);
        frame::write(out, b'p', |out| {
            out.put_slice(mechanism.as_bytes());
            out.put_u8(0);
            crate::frontend::put_value(out, Some(scram.message()));
        });
        self.state = State::AwaitScram(Box::new(scram));
        Ok(Progress::Answered)
    }

    fn scram(&mut self) -> Result<&mut sasl::ScramSha256, WireError> {
        match &mut self.state {
            State::AwaitScram(scram) => Ok(scram),
            State::AwaitRequest => Err(WireError::Authentication("SASL out of order".into())),
        }
    }

    fn password(&self) -> Result<&'a str, WireError> {
        self.password.ok_or(WireError::Authentication(
            "a password, but none is configured for this server".into(),
        ))
    }
}

fn failed(error: &std::io::Error) -> WireError {
    WireError::Authentication(format!("SCRAM-SHA-256: {error}").into())
}

fn write_password(out: &mut BytesMut, password: &[u8]) {
    frame::write(out, b'p', |out| {
        out.put_slice(password);
        out.put_u8(0);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn md5_answers_with_the_salted_hash() {
        let mut out = BytesMut::new();
        let mut login = Login::new("u", Some("p"));
        let done = login.handle(&[0, 0, 0, 5, 1, 2, 3, 4], &mut out);
        assert_eq!(done, Ok(Progress::Answered));
        assert_eq!(out.len(), 5 + "md5".len() + 32 + 1);
    }

    #[test]
    fn a_password_that_is_not_there_is_an_error() {
        let mut login = Login::new("u", None);
        let done = login.handle(&[0, 0, 0, 3], &mut BytesMut::new());
        assert!(matches!(done, Err(WireError::Authentication(_))));
    }

    /// The first message of SCRAM when the server offers these mechanisms.
    fn first_message(binding: Option<&[u8]>, offered: &[u8]) -> Vec<u8> {
        let mut login = Login::new("u", Some("p")).bound_to(binding.map(<[u8]>::to_vec));
        let mut out = BytesMut::new();
        let body = [&[0, 0, 0, 10], offered].concat();
        assert_eq!(login.handle(&body, &mut out), Ok(Progress::Answered));
        out[frame::HEADER_LEN..].to_vec()
    }

    #[test]
    fn a_login_is_bound_to_its_connection_where_both_sides_can() {
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
            // Behind the length.
            assert!(rest[5..].starts_with(header.as_bytes()), "{header}");
        }
    }

    #[test]
    fn sasl_out_of_order_is_an_error() {
        let mut login = Login::new("u", Some("p"));
        let done = login.handle(&[0, 0, 0, 11, b'r'], &mut BytesMut::new());
        assert!(matches!(done, Err(WireError::Authentication(_))));
    }
}
