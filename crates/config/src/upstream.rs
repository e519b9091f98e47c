//! The URL of a PostgreSQL server, as libpq reads it: `postgres://user:password@host:port/dbname?key=value`.
//!
//! Only what Paceline can honour is accepted; anything else is an error rather than silently ignored. No message repeats a
//! user's secret: the password is never part of an error.

use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv6Addr;
use std::path::PathBuf;

use thiserror::Error;

use super::hosts::{self, FOR_REPLICAS, FOR_THE_PRIMARY, Host, HostList, ServerHost};
use super::password::PasswordSource;
use super::secret::{Secret, SecretError};
use super::ssl_mode::SslMode;
use super::suggest;
use super::words::Words as _;

const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];
const PARAMETERS: [&str; 11] = [
    "host",
    "port",
    "dbname",
    "user",
    "password",
    "password_file",
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    TARGET_SESSION_ATTRS,
];
/// Only a URL with several hosts has it.
const TARGET_SESSION_ATTRS: &str = "target_session_attrs";
/// Maximum number of hosts of one database.
const HOSTS_MAX: usize = 32;
pub(crate) const PORT: u16 = 5432;

/// The address of a server and the login there.
#[derive(Debug, Clone, PartialEq)]
pub struct Upstream {
    /// The machine, or the folder of its Unix socket.
    pub host: Host,
    /// The TCP port; for a Unix socket the number at the end of its name.
    pub port: u16,
    /// Logs in every client of the database as this user; `None` passes on each client's own user name.
    pub user: Option<String>,
    /// Answers the server's password request.
    pub password: Option<PasswordSource>,
    /// The database's name on the server; `None` for the name that the client gives.
    pub dbname: Option<String>,
    /// The TLS settings that differ from those for other servers.
    pub tls: UpstreamTls,
}

impl Upstream {
    /// Another host, with the login and the database of this one.
    #[must_use]
    pub fn on_host(&self, other: &Self) -> Self {
        Self {
            host: other.host.clone(),
            port: other.port,
            tls: other.tls.clone(),
            ..self.clone()
        }
    }
}

/// The TLS settings in a URL; `server_tls_…` applies to those that it does not contain.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UpstreamTls {
    /// `sslmode`.
    pub sslmode: Option<SslMode>,
    /// `sslrootcert`.
    pub ca_file: Option<PathBuf>,
    /// `sslcert`.
    pub cert_file: Option<PathBuf>,
    /// `sslkey`.
    pub key_file: Option<PathBuf>,
}

/// The address without user and password, fit for logs: `host:5432/app`, `[::1]:5432`, `/run/postgresql:5432/app`.
impl fmt::Display for Upstream {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        hosts::write_address(out, &self.host, self.port)?;
        match &self.dbname {
            Some(dbname) => write!(out, "/{dbname}"),
            None => Ok(()),
        }
    }
}

/// The reason why a text is not the URL of a server that Paceline can use.
#[derive(Debug, Error, PartialEq)]
pub(super) enum UpstreamError {
    /// Not a PostgreSQL URL at all.
    #[error("not a PostgreSQL URL; write postgres://USER:PASSWORD@HOST:PORT/DATABASE")]
    Scheme,
    /// `%` without two hexadecimal digits, or an encoded byte that no name can hold.
    #[error(
        "the {0} of the URL is not percent-encoded correctly; write % as %25, @ as %40, : as %3A and / as %2F"
    )]
    Encoding(&'static str),
    /// No machine and no socket.
    #[error(
        "the URL names no host; write postgres://HOST:PORT/DATABASE, or ?host=/run/postgresql for a Unix socket"
    )]
    NoHost,
    /// `host1,host2` where one server is meant.
    #[error("the URL names several hosts; write the one that takes writes")]
    SeveralHosts,
    /// A comma without a host.
    #[error("the list of hosts in the URL has an empty name; remove the comma, or write the name")]
    EmptyHost,
    /// Too many hosts.
    #[error("the URL names more than {HOSTS_MAX} hosts")]
    TooManyHosts,
    /// A server that would be monitored twice.
    #[error("the URL names a host twice, with the same port; remove one of the two")]
    HostTwice,
    /// Neither one port nor one for each host.
    #[error("the URL has {ports} ports for {hosts} hosts; write one for all, or one for each")]
    Uneven {
        /// Ports.
        ports: usize,
        /// Hosts.
        hosts: usize,
    },
    /// A word of libpq that Paceline cannot follow.
    #[error(
        "target_session_attrs={0} asks for replicas, and Paceline sends no requests to replicas; write primary, or remove it"
    )]
    ForReplicas(String),
    /// A word that does not exist.
    #[error("target_session_attrs={0} does not exist; write {words}", words = FOR_THE_PRIMARY.join(", "))]
    NoTarget(String),
    /// A bracket without an IPv6 address.
    #[error(
        "the host of the URL is not valid; write a name, an IPv4 address, or an IPv6 address in brackets such as [::1]"
    )]
    Host,
    /// Not a port number. The text is not repeated: with a stray `:` or `/` in it, it is part of a password.
    #[error(
        "the port of the URL is not a number from 1 to 65535; if a password holds : / @ or ?, percent-encode it (%3A %2F %40 %3F)"
    )]
    Port,
    /// A mode that does not exist.
    #[error(
        "sslmode={0} does not exist; write disable, allow, prefer, require, verify-ca or verify-full"
    )]
    SslMode(String),
    /// A certificate or key whose place would depend on where paceline was started.
    #[error("{0} of the URL is not an absolute path; write one that starts with /")]
    File(&'static str),
    /// A file for the password that cannot be used.
    #[error("password_file of the URL: {0}")]
    PasswordFile(#[from] SecretError),
    /// A password in two places.
    #[error("the URL has a password and a password_file; keep one of the two")]
    TwoPasswords,
    /// Something after `?` that is not `key=value`.
    #[error(
        "after ? the URL wants key=value, joined by &; for example ?host=/run/postgresql&port=5433"
    )]
    NotAssigned,
    /// A key after `?` that Paceline does not have.
    #[error("unknown key \"{0}\" in the URL; {advice}", advice = advice(.0))]
    Parameter(String),
}

fn advice(key: &str) -> String {
    let instead = match key {
        "connect_timeout" => "set server_connect_timeout in [paceline] instead",
        "application_name" | "fallback_application_name" | "options" | "client_encoding" => {
            "remove it: each client sends its own and Paceline passes it on"
        }
        "hostaddr" => "write the address as the host",
        TARGET_SESSION_ATTRS => "remove it: the URL names the one server that takes writes",
        "load_balance_hosts" => "remove it: clients get the primary",
        "password_command" => "write it beside primary in the configuration file",
        "passfile" => {
            "write password_file=/PATH, with the password alone in the file, or write it in the URL"
        }
        "service" | "servicefile" => "write user and password in the URL",
        "channel_binding" => "remove it: it is used wherever the server offers it",
        "sslnegotiation" => "remove it: the server is asked whether it speaks TLS",
        "ssl_min_protocol_version" | "ssl_max_protocol_version" => {
            "set server_tls_protocols in [paceline] instead"
        }
        "gssencmode" | "requirepeer" | "sslcrl" | "sslcrldir" | "sslpassword" => {
            "remove it: it is not available"
        }
        _ => return suggestion(key),
    };
    instead.to_owned()
}

fn suggestion(key: &str) -> String {
    match suggest::nearest(key, PARAMETERS) {
        Some(nearest) => format!("did you mean \"{nearest}\"?"),
        None => format!("remove it; there are {}", PARAMETERS.join(", ")),
    }
}

impl Upstream {
    /// Reads a `postgres://` or `postgresql://` URL of one host. A key after `?` replaces the part before it, as in libpq.
    pub(super) fn from_url(url: &str) -> Result<Upstream, UpstreamError> {
        let (upstream, hosts) = Upstream::with_hosts(url)?;
        match hosts.others.is_empty() {
            true => Ok(upstream),
            false => Err(UpstreamError::SeveralHosts),
        }
    }

    /// Reads such a URL of one or several hosts, as libpq does. The server is the first one.
    pub(super) fn with_hosts(url: &str) -> Result<(Upstream, HostList), UpstreamError> {
        Parts::from_url(url)?.into_upstream()
    }

    /// The file that `url` names for the password.
    pub(super) fn password_file(url: &str) -> Option<PathBuf> {
        Parts::from_url(url)
            .ok()?
            .take("password_file")
            .map(PathBuf::from)
    }
}

impl Parts {
    fn from_url(url: &str) -> Result<Parts, UpstreamError> {
        let rest = SCHEMES
            .iter()
            .find_map(|scheme| url.strip_prefix(scheme))
            .ok_or(UpstreamError::Scheme)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, dbname) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, address) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let (host, port) = split_addresses(address)?;
        let mut parts = Parts::default();
        for (key, text, part) in [
            ("host", host.as_str(), "host"),
            ("port", &port, "port"),
            ("user", user, "user"),
            ("password", password, "password"),
            ("dbname", dbname, "database"),
        ] {
            parts.0.insert(key, decode(text, part)?);
        }
        let parameters = query.split('&');
        for parameter in parameters.filter(|parameter| !parameter.is_empty()) {
            parts.set(parameter)?;
        }
        Ok(parts)
    }
}

/// Splits `host:port,host:port` into hosts and ports, each with commas between them. If no host has a port, there are none.
fn split_addresses(addresses: &str) -> Result<(String, String), UpstreamError> {
    let split = addresses.split(',').map(split_address);
    let (hosts, ports): (Vec<_>, Vec<_>) =
        split.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
    let ports = match ports.iter().all(|port| port.is_empty()) {
        true => String::new(),
        false => ports.join(","),
    };
    Ok((hosts.join(","), ports))
}

/// Splits `host:port` or `[v6]:port`. An empty port is the default one.
fn split_address(address: &str) -> Result<(&str, &str), UpstreamError> {
    let Some(bracketed) = address.strip_prefix('[') else {
        // With two colons and no brackets, the end of the address is ambiguous.
        return match address.split_once(':') {
            Some((_, port)) if port.contains(':') => Err(UpstreamError::Host),
            Some(parts) => Ok(parts),
            None => Ok((address, "")),
        };
    };
    let (host, rest) = bracketed.split_once(']').ok_or(UpstreamError::Host)?;
    if !is_ipv6(host) {
        return Err(UpstreamError::Host);
    }
    match rest.strip_prefix(':') {
        Some(port) => Ok((host, port)),
        None if rest.is_empty() => Ok((host, "")),
        None => Err(UpstreamError::Host),
    }
}

/// The parts of a URL, decoded, by their names in [`PARAMETERS`]. An empty part counts as none.
#[derive(Default)]
struct Parts(BTreeMap<&'static str, String>);

impl Parts {
    /// Carries out one `key=value` after the `?`.
    fn set(&mut self, parameter: &str) -> Result<(), UpstreamError> {
        let (key, value) = parameter
            .split_once('=')
            .ok_or(UpstreamError::NotAssigned)?;
        let key = decode(key, "query")?;
        let value = decode(value, "query")?;
        match PARAMETERS.iter().find(|known| **known == key) {
            Some(known) => drop(self.0.insert(known, value)),
            // The end of a password with a bare `?` in it: not to be repeated.
            None if value.contains('@') => return Err(UpstreamError::Encoding("password")),
            None => return Err(UpstreamError::Parameter(key)),
        }
        Ok(())
    }

    fn take(&mut self, key: &str) -> Option<String> {
        self.0.remove(key).filter(|value| !value.is_empty())
    }

    /// The absolute path that `key` names.
    fn take_file(&mut self, key: &'static str) -> Result<Option<PathBuf>, UpstreamError> {
        match self.take(key).map(PathBuf::from) {
            Some(path) if !path.is_absolute() => Err(UpstreamError::File(key)),
            path => Ok(path),
        }
    }

    fn take_tls(&mut self) -> Result<UpstreamTls, UpstreamError> {
        let sslmode = self
            .0
            .remove("sslmode")
            .map(|word| SslMode::of_word(&word).ok_or(UpstreamError::SslMode(word)));
        Ok(UpstreamTls {
            sslmode: sslmode.transpose()?,
            ca_file: self.take_file("sslrootcert")?,
            cert_file: self.take_file("sslcert")?,
            key_file: self.take_file("sslkey")?,
        })
    }

    /// The hosts in the order of the URL, at least one.
    fn take_hosts(&mut self) -> Result<(ServerHost, Vec<ServerHost>), UpstreamError> {
        let text = self.take("host").ok_or(UpstreamError::NoHost)?;
        let names: Vec<&str> = text.split(',').collect();
        if names.len() > HOSTS_MAX {
            return Err(UpstreamError::TooManyHosts);
        }
        let ports = self.take_ports(names.len())?;
        let mut hosts: Vec<ServerHost> = Vec::new();
        for (name, port) in names.iter().zip(ports) {
            let host = ServerHost {
                host: read_host(name)?,
                port: read_port(&port)?,
            };
            if hosts.contains(&host) {
                return Err(UpstreamError::HostTwice);
            }
            hosts.push(host);
        }
        let mut hosts = hosts.into_iter();
        let first = hosts.next().ok_or(UpstreamError::NoHost)?;
        Ok((first, hosts.collect()))
    }

    /// The ports, one for each host. A single one holds for all; an empty one is the default.
    fn take_ports(&mut self, hosts: usize) -> Result<Vec<String>, UpstreamError> {
        let text = self.take("port").unwrap_or_default();
        // With one host, a comma is no separator: the value is wrong.
        if hosts == 1 || !text.contains(',') {
            return Ok(vec![text; hosts]);
        }
        let ports: Vec<String> = text.split(',').map(str::to_owned).collect();
        match ports.len() == hosts {
            true => Ok(ports),
            false => Err(UpstreamError::Uneven {
                ports: ports.len(),
                hosts,
            }),
        }
    }

    /// Checks `target_session_attrs`: clients get the primary.
    fn check_target(&mut self, several: bool) -> Result<(), UpstreamError> {
        let Some(target) = self.0.remove(TARGET_SESSION_ATTRS) else {
            return Ok(());
        };
        match target.as_str() {
            _ if !several => Err(UpstreamError::Parameter(TARGET_SESSION_ATTRS.to_owned())),
            word if word.is_empty() || FOR_THE_PRIMARY.contains(&word) => Ok(()),
            word if FOR_REPLICAS.contains(&word) => Err(UpstreamError::ForReplicas(target)),
            _ => Err(UpstreamError::NoTarget(target)),
        }
    }

    fn into_upstream(mut self) -> Result<(Upstream, HostList), UpstreamError> {
        let tls = self.take_tls()?;
        let (first, others) = self.take_hosts()?;
        self.check_target(!others.is_empty())?;
        let hosts = HostList { others };
        let password = match (self.take("password"), self.take("password_file")) {
            (Some(_), Some(_)) => return Err(UpstreamError::TwoPasswords),
            (None, Some(file)) => Some(PasswordSource::checked_file(file.into())?),
            (password, None) => password.map(Secret::new).map(PasswordSource::Written),
        };
        let upstream = Upstream {
            host: first.host,
            port: first.port,
            user: self.take("user"),
            password,
            dbname: self.take("dbname"),
            tls,
        };
        Ok((upstream, hosts))
    }
}

fn read_host(name: &str) -> Result<Host, UpstreamError> {
    match name {
        "" => Err(UpstreamError::EmptyHost),
        name if name.starts_with('/') => Ok(Host::Unix(PathBuf::from(name))),
        name if name.contains([' ', '/', '[', ']']) => Err(UpstreamError::Host),
        name if name.contains(':') && !is_ipv6(name) => Err(UpstreamError::Host),
        name => Ok(Host::Tcp(name.to_owned())),
    }
}

/// Reads a port; empty is the default one.
fn read_port(text: &str) -> Result<u16, UpstreamError> {
    match text.parse() {
        _ if text.is_empty() => Ok(PORT),
        Ok(port) if port > 0 => Ok(port),
        _ => Err(UpstreamError::Port),
    }
}

/// Whether `host` is an IPv6 address. The resolver checks its zone (`fe80::1%eth0`).
fn is_ipv6(host: &str) -> bool {
    let literal = host.split_once('%').map_or(host, |(literal, _)| literal);
    literal.parse::<Ipv6Addr>().is_ok()
}

/// Takes the percent-encoding out of `text`. A zero byte is refused, as it ends strings in the protocol.
fn decode(text: &str, part: &'static str) -> Result<String, UpstreamError> {
    decode_bytes(text)
        .filter(|bytes| !bytes.contains(&0))
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .ok_or(UpstreamError::Encoding(part))
}

fn decode_bytes(text: &str) -> Option<Vec<u8>> {
    let mut parts = text.split('%');
    let mut decoded = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        let digits = Some(digits).filter(|digits| !digits.starts_with('+'))?;
        decoded.push(u8::from_str_radix(digits, 16).ok()?);
        decoded.extend(rest.bytes());
    }
    Some(decoded)
}

#[cfg(test)]
mod tests;
