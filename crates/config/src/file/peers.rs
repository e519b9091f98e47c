//! `[peers.ID]`: other processes to which Paceline forwards cancel requests, by their `peer_id`.

use super::reader::Reader;
use crate::error::ConfigProblem;
use crate::hosts::Host;
use crate::peer::Peer;
use crate::settings::{PEER_ID_MAX, POOL_SIZE};
use crate::value::{self, ValueError, Written};
use std::collections::BTreeMap;
use toml::Spanned;
use toml::de::DeValue;

/// The keys of such a table.
pub(crate) const PEER_KEYS: [&str; 3] = ["host", "port", "pool_size"];

/// The default port, as in PgBouncer.
const PORT: u16 = 6432;

/// All tables of `[peers]`.
pub(super) fn read(reader: &mut Reader, content: &Spanned<DeValue<'_>>) -> BTreeMap<u16, Peer> {
    let mut peers = BTreeMap::new();
    for (name, content) in reader.entries("peers", content) {
        let id: Option<u16> = name.get_ref().parse().ok();
        let id = id.filter(|id| (1..=PEER_ID_MAX).contains(&usize::from(*id)));
        let Some(id) = id else {
            let name = name.get_ref().to_string();
            reader.note(content.span().start, ConfigProblem::PeerId(name));
            continue;
        };
        let peer = peer(reader, &format!("peers.{id}"), content);
        peers.extend(peer.map(|peer| (id, peer)));
    }
    peers
}

fn peer(reader: &mut Reader, table: &str, content: &Spanned<DeValue<'_>>) -> Option<Peer> {
    let before = reader.problems.len();
    let (mut address, mut port, mut pool_size) = (None, PORT, None);
    for (key, written) in reader.entries(table, content) {
        match key.get_ref().as_ref() {
            "host" => address = reader.value("host", written, host),
            "port" => port = reader.value("port", written, port_number).unwrap_or(PORT),
            "pool_size" => {
                let size = |written: Written<'_>| value::count(written, &POOL_SIZE);
                pool_size = reader.value("pool_size", written, size);
            }
            _ => reader.unknown_key(key, table, &PEER_KEYS),
        }
    }
    if address.is_none() && reader.problems.len() == before {
        let table = table.to_owned();
        reader.note(content.span().start, ConfigProblem::NoHost(table));
    }
    Some(Peer {
        host: address?,
        port,
        pool_size,
    })
}

/// A host name, an IP address, or the absolute folder of a Unix socket.
pub(super) fn host(written: Written<'_>) -> Result<Host, ValueError> {
    let text = value::text(written)?;
    let odd = |c: char| c == ',' || c == '@' || c.is_whitespace();
    match text.as_str() {
        folder if folder.starts_with('/') => Ok(Host::Unix(folder.into())),
        name if name.is_empty() || name.contains(odd) => {
            let example =
                "one name or address, or the absolute folder of a Unix socket, without the port";
            Err(ValueError::kind(format!("\"{name}\""), "a host", example))
        }
        name => {
            let name = name.trim_start_matches('[').trim_end_matches(']');
            Ok(Host::Tcp(name.to_owned()))
        }
    }
}

pub(super) fn port_number(written: Written<'_>) -> Result<u16, ValueError> {
    let port = value::count(written, &(1..=usize::from(u16::MAX)))?;
    Ok(u16::try_from(port).unwrap_or(PORT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

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
        assert_eq!((one.port, one.pool_size(&config.paceline)), (6432, 20));
        let other = &found[&16_383];
        assert_eq!(other.host, Host::Tcp("::1".to_owned()));
        assert_eq!((other.port, other.pool_size(&config.paceline)), (7000, 3));
    }

    #[test]
    fn errors_are_reported_with_their_line() {
        for (text, message) in [
            (
                "[peers.0]\nhost = \"a\"",
                "p.toml:1: \"0\" is not a peer id; write [peers.ID] with a number from 1 to 16383",
            ),
            (
                "[peers.16384]\nhost = \"a\"",
                "p.toml:1: \"16384\" is not a peer id; write [peers.ID] with a number from 1 to 16383",
            ),
            (
                "[peers.one]\nhost = \"a\"",
                "p.toml:1: \"one\" is not a peer id; write [peers.ID] with a number from 1 to 16383",
            ),
            (
                "[peers.1]\nport = 1",
                "p.toml:1: [peers.1] names no host; add host = \"HOST\"",
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
            let error = peers(text).expect_err(text);
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
