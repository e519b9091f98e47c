//! `client_tls_protocols` and `server_tls_protocols`: versions of TLS in PgBouncer's words, which are those of libtls.
//!
//! rustls has TLS 1.2 and 1.3 only. A list that names older versions is valid, as in PgBouncer; Paceline speaks those of the
//! list that it has, or both if the list names none of them.

use std::fmt;

/// A list of versions, as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Protocols {
    written: String,
    versions: u8,
}

const V1_0: u8 = 1;
const V1_1: u8 = 2;
const V1_2: u8 = 4;
const V1_3: u8 = 8;
const OLD: u8 = V1_0 | V1_1;
const SECURE: u8 = V1_2 | V1_3;
const ALL: u8 = OLD | SECURE;

/// The words, in lower case.
const WORDS: [(&str, u8); 9] = [
    ("secure", SECURE),
    ("default", SECURE),
    ("all", ALL),
    ("legacy", ALL),
    ("tlsv1", ALL),
    ("tlsv1.0", V1_0),
    ("tlsv1.1", V1_1),
    ("tlsv1.2", V1_2),
    ("tlsv1.3", V1_3),
];

/// The possible words of a list, for the documentation and for messages.
pub(super) const MEANING: &str = "list of secure, default, all, legacy, tlsv1.0 to tlsv1.3";

impl Protocols {
    /// Reads words that commas or colons separate. `!` takes the versions of a word away, from all of them if it is the first.
    pub fn parse(text: &str) -> Option<Self> {
        let words = text.split([',', ':']).filter(|word| !word.is_empty());
        let mut versions = 0;
        for word in words {
            let word = word.trim().to_ascii_lowercase();
            let (word, taken_away) = match word.strip_prefix('!') {
                Some(word) => (word, true),
                None => (word.as_str(), false),
            };
            let (_, named) = WORDS.iter().find(|(known, _)| *known == word)?;
            versions = match (taken_away, versions) {
                (false, before) => before | named,
                (true, 0) => ALL & !named,
                (true, before) => before & !named,
            };
        }
        (versions != 0).then(|| Self {
            written: text.to_owned(),
            versions,
        })
    }

    /// TLS 1.2 is spoken.
    pub fn has_1_2(&self) -> bool {
        self.spoken() & V1_2 != 0
    }

    /// TLS 1.3 is spoken.
    pub fn has_1_3(&self) -> bool {
        self.spoken() & V1_3 != 0
    }

    fn spoken(&self) -> u8 {
        match self.versions & SECURE {
            0 => SECURE,
            spoken => spoken,
        }
    }

    /// A remark for the operator, if the list needs one.
    pub fn remark(&self) -> Option<&'static str> {
        match (self.versions & OLD, self.versions & SECURE) {
            (0, _) => None,
            (_, 0) => Some("TLS 1.0 and 1.1 are not available; TLS 1.2 and 1.3 are used instead"),
            _ => Some("TLS 1.0 and 1.1 are not available; the newer versions are used"),
        }
    }
}

impl Default for Protocols {
    fn default() -> Self {
        Self {
            written: "secure".to_owned(),
            versions: SECURE,
        }
    }
}

impl fmt::Display for Protocols {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_pgbouncer_reads_them() {
        for (text, has_1_2, has_1_3, is_remarked) in [
            ("secure", true, true, false),
            ("default", true, true, false),
            ("ALL", true, true, true),
            ("legacy", true, true, true),
            ("tlsv1", true, true, true),
            ("tlsv1.2", true, false, false),
            ("tlsv1.3, tlsv1.2", true, true, false),
            ("tlsv1.1:tlsv1.2", true, false, true),
            ("all,!tlsv1.3", true, false, true),
            ("secure,!tlsv1.2", false, true, false),
            ("!tlsv1.3", true, false, true),
            ("tlsv1.0,tlsv1.1", true, true, true),
        ] {
            let list = Protocols::parse(text).expect(text);
            let found = (list.has_1_2(), list.has_1_3(), list.remark().is_some());
            assert_eq!(found, (has_1_2, has_1_3, is_remarked), "{text}");
            assert_eq!(list.to_string(), text);
        }
        for text in ["", "ssl3", "tlsv1.4", "secure tlsv1.2", "secure,!all", "!"] {
            assert_eq!(Protocols::parse(text), None, "{text}");
        }
    }
}
