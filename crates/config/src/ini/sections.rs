//! The sections whose keys the operator names: `[databases]`, `[users]` and `[peers]`.

use super::conversion::Conversion;
use super::diagnostics::Diagnostics;
use super::known::{
    ADDRESS, Known, Mapping, OF_DATABASES, OF_PEERS, OF_USERS, TARGET_SESSION_ATTRS,
};
use super::pairs;
use super::server::{Address, Server};
use super::settings::{Main, Section};
use super::source_line::SourceLine;
use super::toml_writer::toml_text;
use crate::config::ANY_DATABASE;
use crate::error::IniError;
use crate::hosts::FOR_THE_PRIMARY;
use crate::settings::form::Syntax;

/// Names under which clients find the admin console.
const RESERVED: [&str; 2] = ["pgbouncer", "paceline"];

/// The pairs of a connection string. If a key occurs more than once, the last value counts.
type Pairs = Vec<(String, String)>;

/// Writes `[databases.NAME]` for every database.
pub(super) fn databases(section: &Section, main: &Main, conversion: &mut Conversion) {
    for (name, (text, place)) in section {
        if RESERVED.contains(&name.as_str()) {
            let name = name.clone();
            conversion
                .diagnostics
                .wrong(place, IniError::Reserved(name));
            continue;
        }
        let Some(mut pairs) = table(&["databases", name], text, place, conversion) else {
            continue;
        };
        if let Some(server) = server(name, &pairs, place, main, &mut conversion.diagnostics) {
            let target = value(&pairs, TARGET_SESSION_ATTRS);
            // Of several hosts, clients get the primary anyway.
            if server.hosts.len() > 1 && target.is_some_and(|word| FOR_THE_PRIMARY.contains(&word))
            {
                pairs.retain(|(key, _)| key != TARGET_SESSION_ATTRS);
            }
            conversion.toml.primary(server, place);
        }
        pairs.retain(|(key, _)| !ADDRESS.contains(&key.as_str()));
        parameters(&pairs, &OF_DATABASES, "databases", place, conversion);
    }
}

/// Writes `[users.NAME]` for every user.
pub(super) fn users(section: &Section, conversion: &mut Conversion) {
    for (name, (text, place)) in section {
        if let Some(pairs) = table(&["users", name], text, place, conversion) {
            parameters(&pairs, &OF_USERS, "users", place, conversion);
        }
    }
}

/// Writes `[peers.ID]` for every peer.
pub(super) fn peers(section: &Section, main: &Main, conversion: &mut Conversion) {
    for (id, (text, place)) in section {
        let Some(pairs) = table(&["peers", id], text, place, conversion) else {
            continue;
        };
        if value(&pairs, "host").is_none() {
            let (folder, _) = main.value("unix_socket_dir");
            conversion.toml.key("host", &toml_text(folder), "", place);
        }
        parameters(&pairs, &OF_PEERS, "peers", place, conversion);
    }
}

/// Begins the table called `path` and returns its pairs. If `text` is not a connection string, notes that and returns `None`.
fn table(
    path: &[&str],
    text: &str,
    place: &SourceLine,
    conversion: &mut Conversion,
) -> Option<Pairs> {
    let pairs = pairs::read(text);
    match pairs {
        Some(_) => conversion.toml.table(path, place),
        None => conversion
            .diagnostics
            .wrong(place, IniError::ConnectionString),
    }
    pairs
}

/// The last value of `key`.
fn value<'a>(pairs: &'a Pairs, key: &str) -> Option<&'a str> {
    let found = pairs.iter().rfind(|(name, _)| name == key);
    found.map(|(_, value)| value.as_str())
}

/// The addresses of the hosts of a database. If the section does not name hosts that Paceline can use, notes why and returns `None`.
fn addresses(
    pairs: &Pairs,
    place: &SourceLine,
    main: &Main,
    diagnostics: &mut Diagnostics,
) -> Option<Vec<Address>> {
    let (folder, _) = main.value("unix_socket_dir");
    let said = value(pairs, "host");
    let names: Vec<&str> = said.unwrap_or(folder).split(',').map(str::trim).collect();
    if let Some(refusal) = wrong_names(&names, said.is_some()) {
        diagnostics.refuse(place, "host", refusal);
        return None;
    }
    if names.len() > 1 {
        let text = "host names several hosts, which PgBouncer uses in turn: Paceline finds out which one is the primary";
        diagnostics.remark(place, text);
    }
    let ports: Vec<&str> = value(pairs, "port").unwrap_or("5432").split(',').collect();
    let ports = match ports.as_slice() {
        [port] => vec![*port; names.len()],
        _ => ports,
    };
    if ports.len() != names.len() {
        let why = "there are neither one nor as many ports as hosts; write one port, or one for each host";
        diagnostics.refuse(place, "port", why);
        return None;
    }
    let address = |(host, port): (&&str, &&str)| {
        let port = port.trim().parse().ok().filter(|port| *port > 0)?;
        let host = (*host).to_owned();
        Some(Address { host, port })
    };
    let addresses: Option<Vec<_>> = names.iter().zip(&ports).map(address).collect();
    if addresses.is_none() {
        diagnostics.refuse(place, "port", "it is not a number from 1 to 65535");
    }
    addresses
}

/// The reason why Paceline cannot use these hosts. Unless the section `said` them, they are the folder of `unix_socket_dir`.
fn wrong_names(names: &[&str], said: bool) -> Option<&'static str> {
    match names {
        [""] if !said => Some("there is none, and unix_socket_dir is empty; add host="),
        ["", ..] => Some("the list begins with an empty name; write the name of the server first"),
        names if names.contains(&"") => Some("the list has an empty name; remove the comma"),
        names if names.iter().any(|name| name.starts_with('@')) => {
            Some("abstract Unix sockets are not there; name the folder of the socket")
        }
        _ => None,
    }
}

/// The server of a database. If the section does not name one that Paceline can use, notes why and returns `None`.
fn server(
    name: &str,
    pairs: &Pairs,
    place: &SourceLine,
    main: &Main,
    diagnostics: &mut Diagnostics,
) -> Option<Server> {
    let hosts = addresses(pairs, place, main, diagnostics)?;
    let dbname = value(pairs, "dbname");
    if name == ANY_DATABASE && dbname.is_some() {
        let why = "for * PgBouncer leads every other name to this one database, Paceline passes each name on; name the databases that are meant, and remove dbname";
        diagnostics.refuse(place, "dbname", why);
        return None;
    }
    let said = |key| value(pairs, key).map(str::to_owned);
    Some(Server {
        database: name.to_owned(),
        user: said("user"),
        password: said("password"),
        dbname: said("dbname"),
        hosts,
    })
}

/// Writes the keys of a connection string other than [`ADDRESS`].
fn parameters(
    pairs: &Pairs,
    known: &[Known],
    section: &'static str,
    place: &SourceLine,
    conversion: &mut Conversion,
) {
    for (key, _) in pairs {
        if !known.iter().any(|known| known.name == key) {
            let address = ADDRESS.iter().filter(|_| section == "databases");
            let names = known.iter().map(|known| known.name).chain(address.copied());
            conversion
                .diagnostics
                .unknown_key(place, key, section, names);
        }
    }
    let mut written: Vec<&str> = Vec::new();
    for known in known {
        let said = value(pairs, known.name);
        let Some(value) = said.filter(|value| *value != known.default) else {
            continue;
        };
        let Mapping::Key(name) = known.mapping else {
            conversion.note_unsupported(place, known, value, true);
            continue;
        };
        if written.contains(&name) {
            let why = format!("it is another name of {name}; keep one of the two");
            conversion.diagnostics.refuse(place, known.name, why);
        } else if let Some(plain) = conversion.plain(place, known, value) {
            conversion
                .toml
                .key(name, &toml_value(known.syntax, &plain), "", place);
            written.push(name);
        }
    }
}

/// `plain` as TOML; the reader of the TOML checks the value.
fn toml_value(syntax: Syntax, plain: &str) -> String {
    // TOML has no larger integers, and none with leading zeros.
    let number = plain
        .parse::<u64>()
        .ok()
        .filter(|_| plain.len() < 19 && !plain.starts_with('+'));
    match (syntax, number) {
        (Syntax::Seconds, Some(number)) => number.to_string(),
        (Syntax::Number | Syntax::Switch, _) if plain.len() < 19 => plain.to_owned(),
        _ => toml_text(plain),
    }
}
