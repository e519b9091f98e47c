//! PostgreSQL versions as the server prints them. Comparisons use the major and minor number only.

use std::cmp::Ordering;
use std::fmt;

/// The version of a server, ordered by major and then by minor number. A beta or a development build counts as minor 0.
#[derive(Debug, Clone)]
pub struct Version {
    /// `18` in `18.1`; must match the data folder.
    pub major: u32,
    /// `1` in `18.1`; 0 for betas and development builds.
    pub minor: u32,
    /// The complete text, such as `postgres (PostgreSQL) 18.1`.
    pub text: String,
}

impl Version {
    /// Parses the output of `postgres --version`, such as `postgres (PostgreSQL) 15.13 (Debian 15.13-0+deb12u1)`.
    /// Returns `None` if it contains no version.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let number = text
            .split_whitespace()
            .find(|word| word.starts_with(|first: char| first.is_ascii_digit()))?;
        let mut numbers = number.split('.').map(leading_number);
        Some(Self {
            major: numbers.next()??,
            minor: numbers.next().flatten().unwrap_or(0),
            text: text.to_owned(),
        })
    }

    /// Parses the contents of `PG_VERSION`, such as `18`; for `9.6` it returns 9.
    pub(crate) fn parse_cluster(contents: &str) -> Option<u32> {
        leading_number(contents.trim())
    }
}

fn leading_number(text: &str) -> Option<u32> {
    let mut parts = text.split(|c: char| !c.is_ascii_digit());
    parts.next()?.parse().ok()
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Version {}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.major, self.minor).cmp(&(other.major, other.minor))
    }
}

#[cfg(test)]
mod tests {
    use super::Version;

    fn numbers(text: &str) -> Option<(u32, u32)> {
        Version::parse(text).map(|version| (version.major, version.minor))
    }

    #[test]
    fn parses_the_output_of_servers() {
        assert_eq!(
            numbers("postgres (PostgreSQL) 15.13 (Debian 15.13-0+deb12u1)\n"),
            Some((15, 13))
        );
        assert_eq!(numbers("postgres (PostgreSQL) 18.1"), Some((18, 1)));
        assert_eq!(numbers("postgres (PostgreSQL) 19beta2"), Some((19, 0)));
        assert_eq!(numbers("postgres (PostgreSQL) 19devel"), Some((19, 0)));
        assert_eq!(numbers("postgres (PostgreSQL) 9.6.24"), Some((9, 6)));
        assert_eq!(numbers("bash: postgres: not found"), None);
        assert_eq!(numbers("postgres 99999999999999"), None);
        assert_eq!(numbers(""), None);
    }

    #[test]
    fn keeps_the_complete_text() {
        let version = Version::parse(" postgres (PostgreSQL) 18.1\n").unwrap();
        assert_eq!(version.to_string(), "postgres (PostgreSQL) 18.1");
    }

    #[test]
    fn orders_by_number_not_by_text() {
        let parse = |text| Version::parse(text).unwrap();
        assert!(parse("9.6.24") < parse("15.2"));
        assert!(parse("15.2") < parse("15.13"));
        assert!(parse("15.13") < parse("18.0"));
    }

    #[test]
    fn parses_the_version_of_a_cluster() {
        assert_eq!(Version::parse_cluster("18\n"), Some(18));
        assert_eq!(Version::parse_cluster("9.6\n"), Some(9));
        assert_eq!(Version::parse_cluster("\n"), None);
        assert_eq!(Version::parse_cluster("garbage"), None);
    }
}
