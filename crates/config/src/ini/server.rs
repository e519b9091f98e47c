//! The server of a database in a `pgbouncer.ini`, and its URL.

use std::fmt::Write as _;

/// The server of a database.
pub(super) struct Server {
    /// The name of the database for clients.
    pub(super) database: String,
    /// At least one.
    pub(super) hosts: Vec<Address>,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    /// `None`: the name that the client requests.
    pub(super) dbname: Option<String>,
}

/// The address of one host.
pub(super) struct Address {
    /// A name, an address, or the folder of a Unix socket.
    pub(super) host: String,
    pub(super) port: u16,
}

impl Server {
    /// The URL, without the password.
    pub(super) fn url(&self) -> String {
        self.url_with(None)
    }

    /// The URL with the password, if there is one. Only the reader gets it; Paceline never shows it.
    pub(super) fn url_with_password(&self) -> String {
        self.url_with(self.password.as_deref())
    }

    fn url_with(&self, password: Option<&str>) -> String {
        let mut url = "postgres://".to_owned();
        if self.user.is_some() || password.is_some() {
            url.push_str(&encoded(self.user.as_deref().unwrap_or_default()));
            if let Some(password) = password {
                url.push(':');
                url.push_str(&encoded(password));
            }
            url.push('@');
        }
        let hosts: Vec<String> = self.hosts.iter().map(Address::in_url).collect();
        url.push_str(&hosts.join(","));
        if let Some(dbname) = &self.dbname {
            url.push('/');
            url.push_str(&encoded(dbname));
        }
        url
    }
}

impl Address {
    fn in_url(&self) -> String {
        let host = match self.host.contains(':') {
            // An IPv6 address may name its zone (fe80::1%eth0).
            true => format!("[{}]", self.host.replace('%', "%25")),
            false => encoded(&self.host),
        };
        format!("{host}:{}", self.port)
    }
}

/// Percent-encodes every character that may have a meaning in a URL.
fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'-' | b'.' | b'_' | b'~' => encoded.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => encoded.push(char::from(byte)),
            // Writing to a String does not fail.
            _ => drop(write!(encoded, "%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::{Address, Server};
    use crate::hosts::Host;
    use crate::upstream::Upstream;
    use proptest::prelude::*;

    fn server(host: &str) -> Server {
        Server {
            database: "app".to_owned(),
            hosts: vec![Address {
                host: host.to_owned(),
                port: 5432,
            }],
            user: None,
            password: None,
            dbname: None,
        }
    }

    #[test]
    fn hosts_are_names_addresses_and_folders() {
        for (host, url) in [
            ("db.example", "postgres://db.example:5432"),
            ("10.0.0.5", "postgres://10.0.0.5:5432"),
            ("::1", "postgres://[::1]:5432"),
            ("fe80::1%eth0", "postgres://[fe80::1%25eth0]:5432"),
            ("/run/postgresql", "postgres://%2Frun%2Fpostgresql:5432"),
        ] {
            assert_eq!(server(host).url(), url);
            let expected = match host.starts_with('/') {
                true => Host::Unix(host.into()),
                false => Host::Tcp(host.to_owned()),
            };
            assert_eq!(Upstream::from_url(url).unwrap().host, expected);
        }
    }

    #[test]
    fn several_hosts_share_a_url() {
        let mut several = server("pg1");
        several.hosts.extend(server("::1").hosts);
        let url = "postgres://pg1:5432,[::1]:5432";
        assert_eq!(several.url(), url);
        let (_, hosts) = Upstream::with_hosts(url).unwrap();
        assert_eq!(hosts.others.len(), 1);
    }

    proptest! {
        #![proptest_config(paceline_testing::cases(256))]

        #[test]
        fn every_part_is_read_back(user in "[^\0]{1,9}", password in "[^\0]{1,9}", dbname in "[^\0]{1,9}") {
            let server = Server {
                user: Some(user.clone()),
                password: Some(password.clone()),
                dbname: Some(dbname.clone()),
                ..server("db")
            };
            let read = Upstream::from_url(&server.url_with_password()).unwrap();
            prop_assert_eq!(read.user, Some(user.clone()));
            let source = crate::PasswordSource::Written(crate::Secret::new(password));
            prop_assert_eq!(read.password, Some(source));
            prop_assert_eq!(read.dbname, Some(dbname));
            let read = Upstream::from_url(&server.url()).unwrap();
            prop_assert_eq!((read.user, read.password), (Some(user), None));
        }
    }
}
