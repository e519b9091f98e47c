//! The credential of a login, and the second attempt after it was refused: the password may have changed meanwhile.

use super::ServerError;
use crate::credentials::{LoginCredential, ServerCredentials};
use std::time::Duration;

/// Reads the credential and opens a connection with it. If the server refuses it, and the source has another one now, tries once more.
/// Waits at most `limit` for each reading; zero means no limit.
pub(super) async fn with_credential<T, Opening>(
    credentials: &ServerCredentials,
    limit: Duration,
    open: impl Fn(LoginCredential) -> Opening,
) -> Result<T, ServerError>
where
    Opening: Future<Output = Result<T, ServerError>>,
{
    let credential = credentials.read(limit).await?;
    match open(credential.clone()).await {
        Err(refusal) if refusal.is_of_credential() => {
            match credentials.read_again(&credential, limit).await? {
                Some(other) => open(other).await,
                None => Err(refusal),
            }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;
    use paceline_config::PasswordSource;
    use paceline_wire::ErrorResponse;
    use paceline_wire::auth::Credential;
    use std::sync::Mutex;

    const LIMIT: Duration = Duration::from_secs(30);

    /// Opens with a password in a file that changes to `later` during the first attempt; the server accepts `accepted`, or refuses with
    /// this SQLSTATE. Returns the passwords that were shown.
    async fn shown(sqlstate: &'static str, accepted: &str, later: &str) -> (bool, Vec<String>) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "before").unwrap();
        let source = PasswordSource::File(file.path().to_owned());
        let credentials = ServerCredentials::by_password(Some(&source));
        let shown = Mutex::new(Vec::new());
        let open = async |credential: LoginCredential| {
            let Credential::Password(password) = credential.as_shown() else {
                panic!("a password is shown");
            };
            shown.lock().unwrap().push(password.to_owned());
            std::fs::write(file.path(), later).unwrap();
            if password == accepted {
                return Ok(());
            }
            let mut refusal = BytesMut::new();
            ErrorResponse::fatal(sqlstate, "no").write(&mut refusal);
            Err(ServerError::Refused(refusal.freeze()))
        };
        let opened = with_credential(&credentials, LIMIT, open).await;
        (opened.is_ok(), shown.into_inner().unwrap())
    }

    #[tokio::test]
    async fn a_refused_password_is_read_once_more() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        for sqlstate in ["28P01", "28000"] {
            let both: Vec<String> = words(&["before", "after"]);
            assert_eq!(
                shown(sqlstate, "after", "after").await,
                (true, both.clone())
            );
            assert_eq!(shown(sqlstate, "other", "after").await, (false, both));
            let one = words(&["before"]);
            assert_eq!(shown(sqlstate, "after", "before").await, (false, one));
        }
        let one = words(&["before"]);
        assert_eq!(shown("53300", "after", "after").await, (false, one));
        let one = words(&["before"]);
        assert_eq!(shown("28P01", "before", "after").await, (true, one));
    }
}
