//! Users who are not there, as if they were: whoever guesses names must not be told which of them exist. Like PostgreSQL's mock
//! authentication: the salt of a name is the same at every attempt, and nobody can tell that it was made up.

use paceline_pool::credentials::ProcessKey;
use paceline_wire::scram::{ITERATIONS, Stretch, Verifier};
use std::io;

/// As many as PostgreSQL's salts have.
const SALT_LEN: usize = 16;

/// Makes salts and secrets up.
#[derive(Default)]
pub(super) struct Mock {
    key: ProcessKey,
}

impl Mock {
    /// How the password of a user is stretched of which nothing says how: one that is not there, and one that is stored as it is.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub(super) fn stretch(&self, user: &str) -> io::Result<Stretch> {
        let salt = self.key.hash(&[b"salt", user.as_bytes()])?;
        Ok(Stretch {
            salt: salt.into_iter().take(SALT_LEN).collect(),
            iterations: ITERATIONS,
        })
    }

    /// What nobody has the password of.
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
    fn a_name_is_met_in_the_same_way_each_time() {
        let (mock, other) = (Mock::default(), Mock::default());
        let stretch = |mock: &Mock, user| mock.stretch(user).unwrap();
        assert_eq!(mock.verifier("a").unwrap(), mock.verifier("a").unwrap());
        assert_ne!(stretch(&mock, "a"), stretch(&mock, "b"));
        assert_ne!(stretch(&mock, "a"), stretch(&other, "a"));
        assert_eq!(stretch(&mock, "a").salt.len(), SALT_LEN);
    }
}
