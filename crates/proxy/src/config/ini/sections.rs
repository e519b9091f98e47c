//! The sections with names of the operator's own: `[databases]`, `[users]` and `[peers]`.

use super::draft::{Draft, toml_text};
use super::error::IniError;
use super::known::{ADDRESS, Fate, OF_DATABASES, OF_PEERS, OF_USERS, Parameter, Sort};
use super::lines::Place;
use super::notes::Notes;
use super::pairs;
use super::server::Server;
use super::settings::{Main, Section};
use crate::config::ANY_DATABASE;

/// Names under which clients find the admin console.
const RESERVED: [&str; 2] = ["pgbouncer", "paceline"];

/// What is written in a connection string, the last of several values counts.
type Pairs = Vec<(String, String)>;

/// Writes `[databases.NAME]` for every database.
pub(super) fn databases(section: &Section, main: &Main, draft: &mut Draft, notes: &mut Notes) {
    for (name, (text, place)) in section {
        if RESERVED.contains(&name.as_str()) {
            let name = name.clone();
            notes.wrong(place, IniError::Reserved { name });
            continue;
        }
        let Some(pairs) = read(text, place, notes) else {
            continue;
        };
        draft.table(&["databases", name], place);
        if let Some(server) = server(name, &pairs, place, main, notes) {
            draft.primary(server, place);
        }
        let others: Pairs = pairs
            .into_iter()
            .filter(|(key, _)| !ADDRESS.contains(&key.as_str()))
            .collect();
        parameters(&others, OF_DATABASES, "databases", place, draft, notes);
    }
}

/// Writes `[users.NAME]` for every user.
pub(super) fn users(section: &Section, draft: &mut Draft, notes: &mut Notes) {
    for (name, (text, place)) in section {
        let Some(pairs) = read(text, place, notes) else {
            continue;
        };
        draft.table(&["users", name], place);
        parameters(&pairs, OF_USERS, "users", place, draft, notes);
    }
}

/// Writes `[peers.ID]` for every peer.
pub(super) fn peers(section: &Section, main: &Main, draft: &mut Draft, notes: &mut Notes) {
    for (id, (text, place)) in section {
        let Some(pairs) = read(text, place, notes) else {
            continue;
        };
        draft.table(&["peers", id], place);
        if value(&pairs, "host").is_none() {
            let (folder, _) = main.value("unix_socket_dir");
            draft.key("host", &toml_text(folder), "", place);
        }
        parameters(&pairs, OF_PEERS, "peers", place, draft, notes);
    }
}

fn read(text: &str, place: &Place, notes: &mut Notes) -> Option<Pairs> {
    let pairs = pairs::read(text);
    if pairs.is_none() {
        notes.wrong(place, IniError::ConnectionString);
    }
    pairs
}

/// The value of `key`: of several the last.
fn value<'a>(pairs: &'a Pairs, key: &str) -> Option<&'a str> {
    let found = pairs.iter().rfind(|(name, _)| name == key);
    found.map(|(_, value)| value.as_str())
}

/// The first of the hosts that commas separate.
fn first_host<'a>(hosts: &'a str, place: &Place, notes: &mut Notes) -> &'a str {
    let Some((first, _)) = hosts.split_once(',') else {
        return hosts;
    };
    let first = first.trim();
    if !first.is_empty() {
        let text = "host names several hosts, which PgBouncer uses in turn: Paceline uses the first one only";
        notes.remark(place, text);
    }
    first
}

/// Where a database is. `None`: it cannot be said, and why not has been noted.
fn server(
    name: &str,
    pairs: &Pairs,
    place: &Place,
    main: &Main,
    notes: &mut Notes,
) -> Option<Server> {
    let (folder, _) = main.value("unix_socket_dir");
    let said_host = value(pairs, "host");
    let host = said_host.map_or(folder, |hosts| first_host(hosts, place, notes));
    let dbname = value(pairs, "dbname");
    let refusal = match host {
        "" if said_host.is_some() => Some((
            "host",
            "the list begins with an empty name; write the name of the server first",
        )),
        "" => Some((
            "host",
            "there is none, and unix_socket_dir is empty; add host=",
        )),
        host if host.starts_with('@') => Some((
            "host",
            "abstract Unix sockets are not there; name the folder of the socket",
        )),
        _ if name == ANY_DATABASE && dbname.is_some() => Some((
            "dbname",
            "for * PgBouncer leads every other name to this one database, Paceline passes each name on; name the databases that are meant, and remove dbname",
        )),
        _ => None,
    };
    if let Some((key, why)) = refusal {
        notes.refuse(place, key, why);
        return None;
    }
    let port = value(pairs, "port").unwrap_or("5432");
    let Some(port) = port.parse().ok().filter(|port| *port > 0) else {
        notes.refuse(place, "port", "it is not a number from 1 to 65535");
        return None;
    };
    let said = |key| value(pairs, key).map(str::to_owned);
    Some(Server {
        database: name.to_owned(),
        host: host.to_owned(),
        port,
        user: said("user"),
        password: said("password"),
        dbname: said("dbname"),
    })
}

/// Writes what a connection string says beside the address.
fn parameters(
    pairs: &Pairs,
    known: &[Parameter],
    section: &'static str,
    place: &Place,
    draft: &mut Draft,
    notes: &mut Notes,
) {
    for (key, _) in pairs {
        if !known.iter().any(|parameter| parameter.name == key) {
            let names = known.iter().map(|parameter| parameter.name);
            let address: &[&str] = if section == "databases" {
                &ADDRESS
            } else {
                &[]
            };
            notes.unknown_key(place, key, section, names.chain(address.iter().copied()));
        }
    }
    let mut written: Vec<&str> = Vec::new();
    for parameter in known {
        let said = value(pairs, parameter.name);
        let Some(value) = said.filter(|value| !parameter.unset.contains(value)) else {
            continue;
        };
        let Fate::Key(name) = parameter.fate else {
            if let Some(comment) = notes.without(place, parameter.name, value, parameter.fate) {
                draft.comment(&comment, place);
            }
            continue;
        };
        // An alias beside the name itself.
        if written.contains(&name) {
            notes.refuse(
                place,
                parameter.name,
                format!("it is another name of {name}; keep one of the two"),
            );
        } else if let Some(shown) = in_toml(parameter, value, place, notes) {
            draft.key(name, &shown, "", place);
            written.push(name);
        }
    }
}

/// `value` as TOML; whether it fits is seen when that is read.
fn in_toml(parameter: &Parameter, value: &str, place: &Place, notes: &mut Notes) -> Option<String> {
    let plain = notes.plain(place, parameter.name, value, parameter.sort)?;
    let is_number = !plain.is_empty() && plain.bytes().all(|byte| byte.is_ascii_digit());
    match parameter.sort {
        // More digits than TOML takes are for the reader of the text to refuse.
        Sort::Number | Sort::Switch if plain.len() < 19 => Some(plain),
        Sort::Seconds if is_number && plain.len() < 19 => {
            Some(plain.parse::<u64>().ok()?.to_string())
        }
        _ => Some(toml_text(&plain)),
    }
}
