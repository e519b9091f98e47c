//! Mock secrets for users that do not exist, so that a login does not show which users exist. As in PostgreSQL's mock
//! authentication, a name gets the same salt at every attempt.

use paceline_pool::credentials::ProcessKey;
use paceline_wire::scram::{ITERATIONS, Stretch, Verifier};
use std::io;

/// Length of a salt, as in PostgreSQL.
const SALT_LEN: usize = 16;

/// Makes mock salts and secrets.
#[derive(Default)]
pub(super) struct Mock {
    key: ProcessKey,
}

impl Mock {
    /// The salt and iterations for a user without a SCRAM verifier.
    ///
    /// # Errors
    /// The operating system gives no random numbers.
    pub(super) fn stretch(&self, user: &str) -> io::Result<Stretch> {
        let salt = self.key.hash(&[b"salt", user.as_bytes()])?;
        Ok(Stretch {
            salt: salt.into_iter().take(SALT_LEN).collect(),
            iterations: ITERATIONS,
        })
    }

    /// A SCRAM verifier that no password matches.
    ///
    /// # Errors
    /// As [`Mock::stretch`].
    pub(super) fn verifier(&self, user: &str) -> io::Result<Verifier> {
        let key = |whose: &[u8]| self.key.hash(&[whose, user.as_bytes()]);
        let stretch = self.stretch(user)?;
        Ok(Verifier::new(stretch, key(b"client")?, key(b"server")?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_gets_the_same_mock_secret_each_time() {
        let (mock, other) = (Mock::default(), Mock::default());
        let stretch = |mock: &Mock, user| mock.stretch(user).unwrap();
        assert_eq!(mock.verifier("a").unwrap(), mock.verifier("a").unwrap());
        assert_ne!(stretch(&mock, "a"), stretch(&mock, "b"));
        assert_ne!(stretch(&mock, "a"), stretch(&other, "a"));
        assert_eq!(stretch(&mock, "a").salt.len(), SALT_LEN);
    }
}
