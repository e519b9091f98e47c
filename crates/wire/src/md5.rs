//! PostgreSQL's md5 passwords: what a server keeps of one, and what a client answers with. As weak as they are old; who can
//! choose takes SCRAM.

use md5::{Digest, Md5};

/// What every stored and every sent md5 password begins with.
pub const PREFIX: &str = "md5";

/// Characters of a stored or sent md5 password.
pub const LEN: usize = PREFIX.len() + 32;

/// What a server keeps of a password: `md5` and the hash of password and user.
pub fn stored(user: &str, password: &[u8]) -> String {
    hash(password, user.as_bytes())
}

/// Whether a text is what a server keeps of a password.
pub fn is_stored(text: &str) -> bool {
    let hash = text.strip_prefix(PREFIX).unwrap_or_default();
    text.len() == LEN && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// What a client answers to a server that keeps `stored` and has sent `salt`.
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
    fn a_stored_password_is_postgresqls() {
        let kept = stored("admin", b"1234");
        assert_eq!(kept, "md545f2603610af569b6155c45067268c6b");
        assert!(is_stored(&kept));
        assert!(!is_stored("md5 is not a hash, though it is as long"));
        assert!(!is_stored("md545f2603610af569b6155c45067268c6"));
    }

    #[test]
    fn an_answer_depends_on_the_salt() {
        let kept = stored("u", b"p");
        assert_eq!(answer(&kept, [1, 2, 3, 4]).len(), LEN);
        assert_ne!(answer(&kept, [1, 2, 3, 4]), answer(&kept, [1, 2, 3, 5]));
    }
}
