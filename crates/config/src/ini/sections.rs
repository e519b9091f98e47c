//! The sections with names of the operator's own: `[databases]`, `[users]` and `[peers]`.

use super::diagnostics::Diagnostics;
use super::mapping::{Mapping, Sort};
use super::pairs;
use super::parameters::{ADDRESS, OF_DATABASES, OF_PEERS, OF_USERS, Parameter};
use super::server::Server;
use super::settings::{Main, Section};
use super::source_line::SourceLine;
use super::toml_writer::{TomlWriter, toml_text};
use crate::config::ANY_DATABASE;
use crate::error::IniError;

/// Names under which clients find the admin console.
const RESERVED: [&str; 2] = ["pgbouncer", "paceline"];

/// What is written in a connection string, the last of several values counts.
type Pairs = Vec<(String, String)>;

/// Writes `[databases.NAME]` for every database.
pub(super) fn databases(
    section: &Section,
    main: &Main,
    writer: &mut TomlWriter,
    diagnostics: &mut Diagnostics,
) {
    for (name, (text, place)) in section {
        if RESERVED.contains(&name.as_str()) {
            let name = name.clone();
            diagnostics.wrong(place, IniError::Reserved { name });
            continue;
        }
        let Some(pairs) = read(text, place, diagnostics) else {
            continue;
        };
        writer.table(&["databases", name], place);
        if let Some(server) = server(name, &pairs, place, main, diagnostics) {
            writer.primary(server, place);
        }
        let others: Pairs = pairs
            .into_iter()
            .filter(|(key, _)| !ADDRESS.contains(&key.as_str()))
            .collect();
        parameters(
            &others,
            OF_DATABASES,
            "databases",
            place,
            writer,
            diagnostics,
        );
    }
}

/// Writes `[users.NAME]` for every user.
pub(super) fn users(section: &Section, writer: &mut TomlWriter, diagnostics: &mut Diagnostics) {
    for (name, (text, place)) in section {
        let Some(pairs) = read(text, place, diagnostics) else {
            continue;
        };
        writer.table(&["users", name], place);
        parameters(&pairs, OF_USERS, "users", place, writer, diagnostics);
    }
}

/// Writes `[peers.ID]` for every peer.
pub(super) fn peers(
    section: &Section,
    main: &Main,
    writer: &mut TomlWriter,
    diagnostics: &mut Diagnostics,
) {
    for (id, (text, place)) in section {
        let Some(pairs) = read(text, place, diagnostics) else {
            continue;
        };
        writer.table(&["peers", id], place);
        if value(&pairs, "host").is_none() {
            let (folder, _) = main.value("unix_socket_dir");
            writer.key("host", &toml_text(folder), "", place);
        }
        parameters(&pairs, OF_PEERS, "peers", place, writer, diagnostics);
    }
}

fn read(text: &str, place: &SourceLine, diagnostics: &mut Diagnostics) -> Option<Pairs> {
    let pairs = pairs::read(text);
    if pairs.is_none() {
        diagnostics.wrong(place, IniError::ConnectionString);
    }
    pairs
}

/// The value of `key`: of several the last.
fn value<'a>(pairs: &'a Pairs, key: &str) -> Option<&'a str> {
    let found = pairs.iter().rfind(|(name, _)| name == key);
    found.map(|(_, value)| value.as_str())
}

/// The first of the hosts that commas separate.
fn first_host<'a>(hosts: &'a str, place: &SourceLine, diagnostics: &mut Diagnostics) -> &'a str {
    let Some((first, _)) = hosts.split_once(',') else {
        return hosts;
    };
    let first = first.trim();
    if !first.is_empty() {
        let text = "host names several hosts, which PgBouncer uses in turn: Paceline uses the first one only";
        diagnostics.remark(place, text);
    }
    first
}

/// Where a database is. `None` if the reason why it is unknown is noted as a problem.
fn server(
    name: &str,
    pairs: &Pairs,
    place: &SourceLine,
    main: &Main,
    diagnostics: &mut Diagnostics,
) -> Option<Server> {
    let (folder, _) = main.value("unix_socket_dir");
    let said_host = value(pairs, "host");
    let host = said_host.map_or(folder, |hosts| first_host(hosts, place, diagnostics));
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
        diagnostics.refuse(place, key, why);
        return None;
    }
    let port = value(pairs, "port").unwrap_or("5432");
    let Some(port) = port.parse().ok().filter(|port| *port > 0) else {
        diagnostics.refuse(place, "port", "it is not a number from 1 to 65535");
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
    place: &SourceLine,
    writer: &mut TomlWriter,
    diagnostics: &mut Diagnostics,
) {
    for (key, _) in pairs {
        if !known.iter().any(|parameter| parameter.name == key) {
            let names = known.iter().map(|parameter| parameter.name);
            let address: &[&str] = if section == "databases" {
                &ADDRESS
            } else {
                &[]
            };
            diagnostics.unknown_key(place, key, section, names.chain(address.iter().copied()));
        }
    }
    let mut written: Vec<&str> = Vec::new();
    for parameter in known {
        let said = value(pairs, parameter.name);
        let Some(value) = said.filter(|value| !parameter.unset.contains(value)) else {
            continue;
        };
        let Mapping::Key(name) = parameter.mapping else {
            if let Some(comment) =
                diagnostics.without(place, parameter.name, value, parameter.mapping)
            {
                writer.comment(&comment, place);
            }
            continue;
        };
        // An alias beside the name itself.
        if written.contains(&name) {
            diagnostics.refuse(
                place,
                parameter.name,
                format!("it is another name of {name}; keep one of the two"),
            );
        } else if let Some(shown) = in_toml(parameter, value, place, diagnostics) {
            writer.key(name, &shown, "", place);
            written.push(name);
        }
    }
}

/// `value` as TOML; whether it fits is seen when that is read.
fn in_toml(
    parameter: &Parameter,
    value: &str,
    place: &SourceLine,
    diagnostics: &mut Diagnostics,
) -> Option<String> {
    let plain = diagnostics.plain(place, parameter.name, value, parameter.sort)?;
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
