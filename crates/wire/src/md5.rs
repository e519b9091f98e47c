//! md5 passwords (PostgreSQL documentation, sections "Password Authentication" and "Message Flow"): the stored form,
//! and the client's response. md5 is weak; prefer SCRAM.

use md5::{Digest, Md5};

/// Prefix of stored passwords and responses.
pub const PREFIX: &str = "md5";

/// Number of characters of a stored password or response.
pub const LEN: usize = PREFIX.len() + 32;

/// The form in which PostgreSQL stores a password: `md5` and the md5 hash of password and user.
pub fn stored(user: &str, password: &[u8]) -> String {
    hash(password, user.as_bytes())
}

/// Whether a text has the form of a stored md5 password.
pub fn is_stored(text: &str) -> bool {
    let hash = text.strip_prefix(PREFIX).unwrap_or_default();
    text.len() == LEN && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The client's response for a `stored` password and the server's `salt`.
pub fn answer(stored: &str, salt: [u8; 4]) -> String {
    let hash_of_both = stored.strip_prefix(PREFIX).unwrap_or(stored);
    hash(hash_of_both.as_bytes(), &salt)
}

fn hash(first: &[u8], second: &[u8]) -> String {
    let digest = Md5::new()
        .chain_update(first)
        .chain_update(second)
        .finalize();
    let mut text = PREFIX.to_owned();
    for byte in digest.iter() {
        for nibble in [byte >> 4, byte & 0xf] {
            text.extend(char::from_digit(nibble.into(), 16));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of PgBouncer's documentation of `auth_file`.
    #[test]
    fn a_stored_password_has_postgresqls_form() {
        let kept = stored("admin", b"1234");
        assert_eq!(kept, "md545f2603610af569b6155c45067268c6b");
        assert!(is_stored(&kept));
        assert!(!is_stored("md5 is not a hash, but the length fits"));
        assert!(!is_stored("md545f2603610af569b6155c45067268c6"));
    }

    #[test]
    fn a_response_depends_on_the_salt() {
        let kept = stored("u", b"p");
        assert_eq!(answer(&kept, [1, 2, 3, 4]).len(), LEN);
        assert_ne!(answer(&kept, [1, 2, 3, 4]), answer(&kept, [1, 2, 3, 5]));
    }
}
