//! HBA rules: which method a client must use, in the format of `pg_hba.conf` (PostgreSQL documentation, chapter "The pg_hba.conf
//! File"). The first matching rule decides; without one, the login is rejected. A rule that Paceline does not support is an error
//! and never skipped: the next rule might accept a client that this one rejects.

mod network;
#[cfg(test)]
mod tests;

use super::fields::{FieldWord, fields};
use super::ident::{Map, Maps};
use super::peer::LoginPeer;
use super::target::LoginTarget;
use network::Network;
use paceline_net::Peer;
use paceline_pool::replication::Replication;
use std::io;

/// Maximum depth of included files, as in PostgreSQL (`CONF_FILE_MAX_DEPTH`).
const DEPTH_MAX: usize = 10;

/// An authentication method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Method {
    /// No proof is needed.
    Trust,
    /// The login is rejected.
    Reject,
    /// By md5; by SCRAM if that is how the secret is stored.
    Md5,
    /// By SCRAM.
    Scram,
    /// By the password in clear text.
    Plain,
    /// By a certificate for the user's name, or for a name that the map allows.
    Cert(Option<Map>),
    /// By the system user of the same name, or of a name that the map allows.
    Peer(Option<Map>),
}

/// The maps and files to which rules refer.
pub(super) struct HbaReferences<'a> {
    /// Maps for `map=`.
    pub(super) maps: &'a Maps,
    /// Reads a file for `@`. Its path is relative to the folder of the rules.
    pub(super) file: &'a dyn Fn(&str) -> io::Result<String>,
}

/// Rules in their order.
#[derive(Debug, Default)]
pub(super) struct Hba {
    rules: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    connection_type: ConnectionType,
    databases: Vec<FieldWord>,
    users: Vec<FieldWord>,
    /// Addresses, for TCP connections.
    network: Network,
    method: Method,
}

/// The kind of connection that a rule matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectionType {
    Local,
    Host,
    HostSsl,
    HostNoSsl,
}

impl Hba {
    /// Reads the text of the file. An error has the number of its line.
    pub(super) fn read(
        text: &str,
        references: &HbaReferences<'_>,
    ) -> Result<Self, (usize, String)> {
        let mut rules = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let read = fields(line).and_then(|fields| match fields.is_empty() {
                true => Ok(None),
                false => read_rule(fields, references).map(Some),
            });
            rules.extend(read.map_err(|why| (number, why))?);
        }
        Ok(Self { rules })
    }

    /// Whether a rule asks for a certificate.
    pub(super) fn asks_for_certificates(&self) -> bool {
        let mut methods = self.rules.iter().map(|rule| &rule.method);
        methods.any(|method| matches!(method, Method::Cert(_)))
    }

    /// The method for this client, database and user; `None` if no rule matches.
    pub(super) fn method(
        &self,
        peer: &LoginPeer,
        target: LoginTarget<'_>,
        user: &str,
    ) -> Option<&Method> {
        let fits = |rule: &&Rule| {
            rule.is_for(peer)
                && rule.databases.iter().any(|name| is_for(name, target, user))
                && rule.users.iter().any(|name| is_user(name, user))
        };
        self.rules.iter().find(fits).map(|rule| &rule.method)
    }
}

impl Rule {
    fn is_for(&self, peer: &LoginPeer) -> bool {
        match (self.connection_type, &peer.peer) {
            (_, Peer::Disconnected) => false,
            (ConnectionType::Local, Peer::Unix { .. }) => true,
            (ConnectionType::Local, _) | (_, Peer::Unix { .. }) => false,
            (ConnectionType::HostSsl, _) if !peer.is_encrypted() => false,
            (ConnectionType::HostNoSsl, _) if peer.is_encrypted() => false,
            (_, peer @ (Peer::V4(_) | Peer::V6(_))) => peer
                .address()
                .is_some_and(|address| self.network.holds(address)),
        }
    }
}

/// As PostgreSQL's `check_db`: `replication` matches physical replication connections, which no other word matches.
fn is_for(name: &FieldWord, target: LoginTarget<'_>, user: &str) -> bool {
    let is_physical = target.replication == Some(Replication::Physical);
    match name.keyword() {
        Some("replication") => is_physical,
        _ if is_physical => false,
        Some("all") => true,
        Some("sameuser") => target.database == user,
        _ => name.text == target.database,
    }
}

fn is_user(name: &FieldWord, user: &str) -> bool {
    name.keyword() == Some("all") || name.text == user
}

fn read_rule(fields: Vec<Vec<FieldWord>>, references: &HbaReferences<'_>) -> Result<Rule, String> {
    let mut fields = fields.into_iter();
    let connection_type = match single(fields.next(), "kind of connection")?.text.as_str() {
        "local" => ConnectionType::Local,
        "host" => ConnectionType::Host,
        "hostssl" => ConnectionType::HostSsl,
        "hostnossl" => ConnectionType::HostNoSsl,
        other => {
            return Err(format!(
                "{other} is no kind of connection here; write local, host, hostssl or hostnossl"
            ));
        }
    };
    let databases = names(fields.next(), "database", references)?;
    let users = names(fields.next(), "user", references)?;
    let network = match connection_type {
        ConnectionType::Local => Network::All,
        _ => read_network(&mut fields)?,
    };
    let method = single(fields.next(), "method")?;
    let map = read_options(fields, references.maps)?;
    let method = read_method(&method.text, map)?;
    Ok(Rule {
        connection_type,
        databases,
        users,
        network,
        method,
    })
}

/// The only word of a field.
fn single(field: Option<Vec<FieldWord>>, what: &str) -> Result<FieldWord, String> {
    let mut words = field.unwrap_or_default().into_iter();
    match (words.next(), words.next()) {
        (Some(word), None) => Ok(word),
        (Some(_), Some(_)) => Err(format!("more than one {what}")),
        (None, _) => Err(format!("there is no {what}")),
    }
}

/// Names of databases or users. Names that only the server could resolve are not supported.
fn names(
    field: Option<Vec<FieldWord>>,
    what: &str,
    references: &HbaReferences<'_>,
) -> Result<Vec<FieldWord>, String> {
    let mut names = Vec::new();
    for name in field.ok_or_else(|| format!("there is no {what}"))? {
        references.expand(name, DEPTH_MAX, &mut names)?;
    }
    let is_foreign =
        |word: &&str| word.starts_with(['+', '/']) || matches!(*word, "samerole" | "samegroup");
    match names.iter().filter_map(FieldWord::keyword).find(is_foreign) {
        Some(word) => Err(format!("{what} {word} is not supported; write names")),
        None => Ok(names),
    }
}

impl HbaReferences<'_> {
    /// Adds a name, or the names in the file that it includes.
    fn expand(
        &self,
        name: FieldWord,
        depth: usize,
        names: &mut Vec<FieldWord>,
    ) -> Result<(), String> {
        let Some(file) = name.keyword().and_then(|word| word.strip_prefix('@')) else {
            names.push(name);
            return Ok(());
        };
        let depth = depth.checked_sub(1);
        let depth = depth.ok_or_else(|| format!("@{file} is nested too deep"))?;
        let text = (self.file)(file).map_err(|error| format!("cannot read @{file}: {error}"))?;
        for line in text.lines() {
            for name in fields(line)?.into_iter().flatten() {
                self.expand(name, depth, names)?;
            }
        }
        Ok(())
    }
}

fn read_network(fields: &mut impl Iterator<Item = Vec<FieldWord>>) -> Result<Network, String> {
    let address = single(fields.next(), "address")?;
    if address.keyword() == Some("all") {
        return Ok(Network::All);
    }
    match address.text.contains('/') {
        true => Network::with_prefix(&address.text),
        false => Network::with_mask(&address.text, &single(fields.next(), "mask")?.text),
    }
}

fn read_options(
    fields: impl Iterator<Item = Vec<FieldWord>>,
    maps: &Maps,
) -> Result<Option<Map>, String> {
    let mut map = None;
    for field in fields {
        let option = single(Some(field), "option")?.text;
        let name = option.strip_prefix("map=");
        let name = name.ok_or_else(|| format!("option {option} is not supported"))?;
        let known = maps.get(name).cloned();
        map = Some(known.ok_or_else(|| format!("there is no map {name} in auth_ident_file"))?);
    }
    Ok(map)
}

fn read_method(name: &str, map: Option<Map>) -> Result<Method, String> {
    let method = match (name, map) {
        ("cert", map) => Method::Cert(map),
        ("peer", map) => Method::Peer(map),
        (name, Some(_)) => return Err(format!("method {name} takes no map")),
        ("trust", None) => Method::Trust,
        ("reject", None) => Method::Reject,
        ("md5", None) => Method::Md5,
        ("scram-sha-256", None) => Method::Scram,
        ("password", None) => Method::Plain,
        (other, None) => {
            return Err(format!(
                "method {other} is not supported; write trust, reject, scram-sha-256, md5, password, cert or peer"
            ));
        }
    };
    Ok(method)
}
