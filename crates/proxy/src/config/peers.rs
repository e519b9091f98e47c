//! `[peers.ID]`: other processes to which cancel requests are passed on, by their `peer_id`.

use super::error::Wrong;
use super::file::Reader;
use super::settings::{PEER_ID_MAX, POOL_SIZE};
use super::value::{self, ValueError, Written};
use super::{Config, Host};
use std::collections::BTreeMap;
use toml::Spanned;
use toml::de::DeValue;

/// The keys of such a table.
pub(super) const PEER_KEYS: [&str; 3] = ["host", "port", "pool_size"];

/// That of clients, in PgBouncer and here.
const PORT: u16 = 6432;

/// Another process.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Peer {
    /// Where it listens, and nobody else.
    pub(crate) host: Host,
    /// The port there.
    pub(crate) port: u16,
    pool_size: Option<usize>,
}

impl Peer {
    /// Most cancel requests that are on their way to it.
    pub(crate) fn pool_size(&self, config: &Config) -> usize {
        let default = config.paceline.pooling.default_pool_size;
        self.pool_size.unwrap_or(default)
    }
}

impl Reader {
    /// All tables of `[peers]`.
    pub(super) fn peers(&mut self, content: &Spanned<DeValue<'_>>) -> BTreeMap<u16, Peer> {
        let mut peers = BTreeMap::new();
        for (name, content) in self.entries("peers", content) {
            let id: Option<u16> = name.get_ref().parse().ok();
            let id = id.filter(|id| (1..=PEER_ID_MAX).contains(&usize::from(*id)));
            let Some(id) = id else {
                let name = name.get_ref().to_string();
                self.note(content.span().start, Wrong::PeerId { name });
                continue;
            };
            let peer = self.peer(&format!("peers.{id}"), content);
            peers.extend(peer.map(|peer| (id, peer)));
        }
        peers
    }

    fn peer(&mut self, table: &str, content: &Spanned<DeValue<'_>>) -> Option<Peer> {
        let before = self.problems.len();
        let (mut address, mut port, mut pool_size) = (None, PORT, None);
        for (key, written) in self.entries(table, content) {
            match key.get_ref().as_ref() {
                "host" => address = self.value("host", written, host),
                "port" => port = self.value("port", written, port_number).unwrap_or(PORT),
                "pool_size" => {
                    let size = |written: Written<'_>| value::count(written, &POOL_SIZE);
                    pool_size = self.value("pool_size", written, size);
                }
                _ => self.unknown_key(key, table, &PEER_KEYS),
            }
        }
        if address.is_none() && self.problems.len() == before {
            let table = table.to_owned();
            self.note(content.span().start, Wrong::NoHost { table });
        }
        Some(Peer {
            host: address?,
            port,
            pool_size,
        })
    }
}

/// A host name, an IP address, or the absolute folder of a Unix socket.
fn host(written: Written<'_>) -> Result<Host, ValueError> {
    let text = value::text(written)?;
    let odd = |c: char| c == ',' || c == '@' || c.is_whitespace();
    match text.as_str() {
        folder if folder.starts_with('/') => Ok(Host::Unix(folder.into())),
        name if name.is_empty() || name.contains(odd) => Err(ValueError::Kind {
            got: format!("\"{name}\""),
            wanted: "a host",
            example: "one name or address, or the absolute folder of a Unix socket, without the port",
        }),
        name => Ok(Host::Tcp(
            name.trim_start_matches('[')
                .trim_end_matches(']')
                .to_owned(),
        )),
    }
}

fn port_number(written: Written<'_>) -> Result<u16, ValueError> {
    let port = value::count(written, &(1..=usize::from(u16::MAX)))?;
    Ok(u16::try_from(port).unwrap_or(PORT))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peers(text: &str) -> Result<BTreeMap<u16, Peer>, String> {
        let config = Config::from_toml(text, "p.toml").map_err(|error| error.to_string())?;
        Ok(config.peers)
    }

    #[test]
    fn peers_are_read_with_pgbouncers_defaults() {
        let text = "[peers.1]\nhost = \"/run/paceline-1\"\n[peers.16383]\nhost = \"::1\"\nport = 7000\npool_size = 3";
        let found = peers(text).expect("peers");
        let config = Config::default();
        let one = &found[&1];
        assert_eq!(one.host, Host::Unix("/run/paceline-1".into()));
        assert_eq!((one.port, one.pool_size(&config)), (6432, 20));
        let other = &found[&16_383];
        assert_eq!(other.host, Host::Tcp("::1".to_owned()));
        assert_eq!((other.port, other.pool_size(&config)), (7000, 3));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (text, message) in [
            (
                "[peers.0]\nhost = \"a\"",
                "p.toml:1: \"0\" is no peer id; write [peers.ID] with a number from 1 to 16383",
            ),
            (
                "[peers.16384]\nhost = \"a\"",
                "p.toml:1: \"16384\" is no peer id; write [peers.ID] with a number from 1 to 16383",
            ),
            (
                "[peers.one]\nhost = \"a\"",
                "p.toml:1: \"one\" is no peer id; write [peers.ID] with a number from 1 to 16383",
            ),
            (
                "[peers.1]\nport = 1",
                "p.toml:1: [peers.1] does not say where the peer is; add host = \"HOST\"",
            ),
            (
                "[peers.1]\nhost = \"a,b\"",
                "p.toml:2: host: \"a,b\" is not a host; write one name or address, or the absolute folder of a Unix socket, without the port",
            ),
            (
                "[peers.1]\nhost = \"a\"\nport = 0",
                "p.toml:3: port: 0 is outside its limits; write a value from 1 to 65535",
            ),
            (
                "[peers.1]\nhost = \"a\"\nuser = \"b\"",
                "p.toml:3: unknown key \"user\" in [peers.1]; remove it, or see docs/configuration.md for the keys there are",
            ),
            (
                "[paceline]\npeer_id = 16384",
                "p.toml:2: peer_id: 16384 is outside its limits; write a value from 0 to 16383",
            ),
        ] {
            let told = peers(text).expect_err(text);
            assert!(told.contains(message), "{text}: {told}");
        }
    }
}
