//! The exchange of authentication messages with a client. The caller passes the stored secret.

use super::mock::Mock;
use super::peer::LoginPeer;
use crate::login_refusal::LoginRefusal;
use bytes::{Bytes, BytesMut};
use paceline_config::Secret as Password;
use paceline_net::Stream;
use paceline_pool::credentials::{Credential, Deriver, StoredSecret, random};
use paceline_wire::frame::{self, HEADER_LEN, Header};
use paceline_wire::scram::server::{AwaitProof, mechanisms};
use paceline_wire::scram::{self, Verifier};
use paceline_wire::{ErrorResponse, WireError, backend, frontend, md5};
use subtle::ConstantTimeEq;

/// Maximum size of a password or SASL message, with its type byte, which PostgreSQL does not count (`PG_MAX_AUTH_TOKEN_LENGTH`).
const PROOF_BYTES_MAX: usize = 1 + 65_535;

/// The exchange with one client.
pub(super) struct AuthExchange<'a> {
    pub(super) stream: &'a Stream,
    /// Bytes that the client has sent and that have not been read.
    pub(super) input: &'a mut BytesMut,
    pub(super) peer: &'a LoginPeer,
    /// The user name that the client claims.
    pub(super) user: &'a str,
    pub(super) mock: &'a Mock,
    pub(super) deriver: &'a Deriver,
}

/// The form in which most secrets of users are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PrevailingSecret {
    /// Compared with a password directly.
    ForComparison,
    /// SCRAM verifiers: a password must be stretched first.
    ForScram,
}

/// The proof of a successful SCRAM exchange.
enum AuthGoal {
    /// The keys in the client's proof are those of its password on the server.
    Keys,
    /// The password, which is stored.
    Password(Password),
    /// Nothing: the login fails whatever the client proves.
    Reject,
}

impl AuthExchange<'_> {
    /// Authenticates by md5.
    pub(super) async fn md5(
        &mut self,
        secret: Option<&StoredSecret>,
    ) -> Result<Credential, LoginRefusal> {
        let salt = random::<4>()?;
        let mut request = BytesMut::new();
        backend::write_md5_request(&mut request, salt);
        let body = self.ask(&mut request).await?;
        let given = password_in(&body)?;
        let stored = match secret {
            Some(StoredSecret::Plain(password)) => {
                md5::stored(self.user, password.reveal().as_bytes())
            }
            Some(StoredSecret::Md5(stored)) => stored.reveal().to_owned(),
            // Takes the same time as for a known user.
            _ => md5::stored(self.user, &salt),
        };
        let credential = secret.map(Credential::of).unwrap_or_default();
        let right = same(md5::answer(&stored, salt).as_bytes(), given);
        match right && credential != Credential::None {
            true => Ok(credential),
            false => Err(self.wrong_password()),
        }
    }

    /// Authenticates by a password in clear text. A client that cannot log in takes as long as one of `prevailing`.
    pub(super) async fn plain(
        &mut self,
        secret: Option<&StoredSecret>,
        prevailing: PrevailingSecret,
    ) -> Result<Credential, LoginRefusal> {
        check_channel(self.peer)?;
        let mut request = BytesMut::new();
        backend::write_cleartext_request(&mut request);
        let body = self.ask(&mut request).await?;
        let given = password_in(&body)?;
        let comparison = PasswordComparison {
            user: self.user,
            mock: self.mock,
            deriver: self.deriver,
        };
        comparison.compare(secret, given, prevailing).await
    }

    /// Authenticates by SCRAM, which also proves to the client that Paceline knows its password.
    pub(super) async fn scram(
        &mut self,
        secret: Option<&StoredSecret>,
    ) -> Result<Credential, LoginRefusal> {
        let (verifier, goal) = self.goal(secret).await?;
        let end_point = self.peer.end_point.as_deref();
        let mut request = BytesMut::new();
        backend::write_sasl_request(&mut request, mechanisms(end_point.is_some()));
        let body = self.ask(&mut request).await?;
        let (mechanism, first) =
            frontend::read_sasl_initial(&body).map_err(|error| broken(&error))?;
        let nonce = scram::nonce(random()?);
        let begun = AwaitProof::challenge(mechanism, first, verifier, &nonce, end_point);
        let (awaits, challenge) = begun.map_err(|error| broken(&error))?;
        backend::write_sasl_continue(&mut request, challenge.as_bytes());
        let body = self.ask(&mut request).await?;
        let (keys, signature) = match awaits.verify(&body) {
            Ok(proved) => proved,
            Err(WireError::Proof) => return Err(self.wrong_password()),
            Err(error) => return Err(broken(&error)),
        };
        let credential = match goal {
            AuthGoal::Keys => Credential::Keys(keys),
            AuthGoal::Password(password) => Credential::Password(password),
            AuthGoal::Reject => return Err(self.wrong_password()),
        };
        backend::write_sasl_final(&mut request, signature.as_bytes());
        self.stream.write_all(&mut request).await?;
        Ok(credential)
    }

    async fn goal(
        &self,
        secret: Option<&StoredSecret>,
    ) -> Result<(Verifier, AuthGoal), LoginRefusal> {
        Ok(match secret {
            Some(StoredSecret::Scram(verifier)) => (verifier.clone(), AuthGoal::Keys),
            Some(StoredSecret::Plain(password)) => {
                let stretch = self.mock.stretch(self.user)?;
                let keys = self
                    .deriver
                    .keys(password.reveal().as_bytes(), &stretch)
                    .await?;
                (keys.verifier(stretch), AuthGoal::Password(password.clone()))
            }
            Some(StoredSecret::Md5(_) | StoredSecret::None) | None => {
                (self.mock.verifier(self.user)?, AuthGoal::Reject)
            }
        })
    }

    /// Sends a request and returns the body of the client's answer.
    async fn ask(&mut self, request: &mut BytesMut) -> Result<Bytes, LoginRefusal> {
        self.stream.write_all(request).await?;
        loop {
            if let Some(header) = Header::read(self.input).map_err(|error| broken(&error))? {
                check(header)?;
            }
            if let Ok(Some((_, message))) = frame::split_message(self.input) {
                return Ok(message.slice(HEADER_LEN..));
            }
            self.stream.read_some(self.input).await?;
        }
    }

    fn wrong_password(&self) -> LoginRefusal {
        wrong_password(self.user)
    }
}

/// Compares a password that has arrived in clear text with a stored secret.
pub(super) struct PasswordComparison<'a> {
    /// The user name that the client claims.
    pub(super) user: &'a str,
    pub(super) mock: &'a Mock,
    pub(super) deriver: &'a Deriver,
}

impl PasswordComparison<'_> {
    /// A client that cannot log in takes as long as one of `prevailing`.
    pub(super) async fn compare(
        &self,
        secret: Option<&StoredSecret>,
        given: &[u8],
        prevailing: PrevailingSecret,
    ) -> Result<Credential, LoginRefusal> {
        let right = match secret {
            Some(StoredSecret::Plain(password)) => same(password.reveal().as_bytes(), given),
            Some(StoredSecret::Md5(stored)) => same(
                stored.reveal().as_bytes(),
                md5::stored(self.user, given).as_bytes(),
            ),
            Some(StoredSecret::Scram(verifier)) => {
                return self.compare_keys(verifier, given).await;
            }
            Some(StoredSecret::None) | None => {
                if prevailing == PrevailingSecret::ForScram {
                    let verifier = self.mock.verifier(self.user)?;
                    self.compare_keys(&verifier, given).await?;
                }
                false
            }
        };
        match right {
            true => Ok(secret.map(Credential::of).unwrap_or_default()),
            false => Err(wrong_password(self.user)),
        }
    }

    /// Compares a password with a SCRAM verifier. The resulting keys are also valid for logins to the server.
    async fn compare_keys(
        &self,
        verifier: &Verifier,
        given: &[u8],
    ) -> Result<Credential, LoginRefusal> {
        let keys = self
            .deriver
            .keys_of_guess(given, verifier.stretch())
            .await?;
        if !verifier.is_of(&keys) {
            return Err(wrong_password(self.user));
        }
        self.deriver.cache(given, verifier.stretch(), &keys)?;
        Ok(Credential::Keys(keys))
    }
}

/// Rejects a password in clear text from another machine without encryption.
///
/// # Errors
/// The connection is neither encrypted nor local.
pub(super) fn check_channel(peer: &LoginPeer) -> Result<(), LoginRefusal> {
    if peer.is_encrypted() || peer.peer.is_local() {
        return Ok(());
    }
    let message = "a password is not taken over an unencrypted connection";
    let hint = "Connect with TLS, or let auth_type be scram-sha-256.";
    Err(ErrorResponse::fatal("28000", message)
        .with_hint(hint)
        .into())
}

/// The error for a wrong password and for an unknown user.
fn wrong_password(user: &str) -> LoginRefusal {
    let message = format!("password authentication failed for user \"{user}\"");
    ErrorResponse::fatal("28P01", message).into()
}

fn check(header: Header) -> Result<(), LoginRefusal> {
    if header.tag != frontend::tag::PASSWORD {
        let message = format!(
            "expected password response, got message type {}",
            header.tag
        );
        return Err(ErrorResponse::fatal("08P01", message).into());
    }
    if header.len > PROOF_BYTES_MAX {
        return Err(ErrorResponse::fatal("08P01", "password too long").into());
    }
    Ok(())
}

fn password_in(body: &[u8]) -> Result<&[u8], LoginRefusal> {
    match frontend::read_password_text(body) {
        Ok([]) => Err(ErrorResponse::fatal("28P01", "empty password returned by client").into()),
        Ok(password) => Ok(password),
        Err(error) => Err(broken(&error)),
    }
}

fn broken(error: &WireError) -> LoginRefusal {
    ErrorResponse::fatal("08P01", error.to_string()).into()
}

/// Compares in constant time.
fn same(one: &[u8], other: &[u8]) -> bool {
    one.ct_eq(other).into()
}
