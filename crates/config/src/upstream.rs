//! The URL of a PostgreSQL server, as libpq reads it: `postgres://user:password@host:port/dbname?key=value`.
//!
//! Only what Paceline can honour is accepted; anything else is an error rather than silently ignored. No message repeats a
//! user's secret: the password is never part of an error.

use std::fmt;
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::secret::{self, Secret, SecretError};
use super::ssl_mode::SslMode;
use super::suggest;
use super::words::Words;

const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];
const PARAMETERS: [&str; 10] = [
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
];
const PORT: u16 = 5432;

/// Where a server is and as whom to log in.
#[derive(Debug, Clone, PartialEq)]
pub struct Upstream {
    /// The machine, or the folder of its Unix socket.
    pub host: Host,
    /// The TCP port; for a Unix socket the number at the end of its name.
    pub port: u16,
    /// Logs in every client of the database as this user; `None` passes on each client's own user name.
    pub user: Option<String>,
    /// Answers the server's password request.
    pub password: Option<Secret>,
    /// The database's name on the server; `None` for the name that the client gives.
    pub dbname: Option<String>,
    /// What is different from TLS towards other servers.
    pub tls: UpstreamTls,
}

/// What a URL says of TLS; where it says nothing, `server_tls_…` holds.
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

/// How to reach a server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Host {
    /// A host name or IP address (IPv6 without brackets).
    Tcp(String),
    /// The absolute folder that holds `.s.PGSQL.PORT`.
    Unix(PathBuf),
}

/// The address without user and password, fit for logs: `host:5432/app`, `[::1]:5432`, `/run/postgresql:5432/app`.
impl fmt::Display for Upstream {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Tcp(host) if host.contains(':') => write!(out, "[{host}]")?,
            Host::Tcp(host) => out.write_str(host)?,
            Host::Unix(folder) => write!(out, "{}", folder.display())?,
        }
        write!(out, ":{}", self.port)?;
        match &self.dbname {
            Some(dbname) => write!(out, "/{dbname}"),
            None => Ok(()),
        }
    }
}

/// Why a text is not the URL of a server that Paceline can use.
#[derive(Debug, Error, PartialEq)]
pub(super) enum UpstreamError {
    /// Not a PostgreSQL URL at all.
    #[error("not a PostgreSQL URL; write postgres://USER:PASSWORD@HOST:PORT/DATABASE")]
    Scheme,
    /// `%` without two hexadecimal digits, or an encoded byte that no name can hold.
    #[error(
        "the {part} of the URL is not percent-encoded correctly; write % as %25, @ as %40, : as %3A and / as %2F"
    )]
    Encoding {
        /// Which part.
        part: &'static str,
    },
    /// No machine and no socket.
    #[error(
        "the URL names no host; write postgres://HOST:PORT/DATABASE, or ?host=/run/postgresql for a Unix socket"
    )]
    NoHost,
    /// `host1,host2`, which libpq would try in turn.
    #[error("the URL names several hosts; write the one that takes writes")]
    SeveralHosts,
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
    #[error("{key} of the URL is not an absolute path; write one that starts with /")]
    File {
        /// Which one.
        key: &'static str,
    },
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
    #[error("unknown key \"{key}\" in the URL; {}", advice(.key))]
    Parameter {
        /// The key as it was written.
        key: String,
    },
}

fn advice(key: &str) -> String {
    let instead = match key {
        "connect_timeout" => "set server_connect_timeout in [paceline] instead",
        "application_name" | "fallback_application_name" | "options" | "client_encoding" => {
            "remove it: each client sends its own and Paceline passes it on"
        }
        "hostaddr" => "write the address as the host",
        "target_session_attrs" | "load_balance_hosts" => {
            "remove it: the URL names the one server that takes writes"
        }
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
    /// Reads a `postgres://` or `postgresql://` URL. A key after `?` replaces the part before it, as in libpq.
    pub(super) fn from_url(url: &str) -> Result<Upstream, UpstreamError> {
        Parts::from_url(url)?.into_upstream()
    }

    /// The file that `url` names for the password.
    pub(super) fn password_file(url: &str) -> Option<PathBuf> {
        let parts = Parts::from_url(url).ok()?;
        (!parts.password_file.is_empty()).then(|| PathBuf::from(parts.password_file))
    }
}

impl Parts {
    fn from_url(url: &str) -> Result<Parts, UpstreamError> {
        let rest = SCHEMES
            .iter()
            .find_map(|scheme| url.strip_prefix(scheme))
            .ok_or(UpstreamError::Scheme)?;
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, Some(query)),
            None => (rest, None),
        };
        let (authority, dbname) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, address) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let (host, port) = split_address(address)?;
        let mut parts = Parts {
            host: decode(host, "host")?,
            port: decode(port, "port")?,
            user: decode(user, "user")?,
            password: decode(password, "password")?,
            password_file: String::new(),
            dbname: decode(dbname, "database")?,
            tls: UpstreamTls::default(),
        };
        for parameter in query
            .unwrap_or_default()
            .split('&')
            .filter(|parameter| !parameter.is_empty())
        {
            parts.set(parameter)?;
        }
        Ok(parts)
    }
}

/// Splits `host:port` or `[v6]:port`. An empty port is the default one.
fn split_address(address: &str) -> Result<(&str, &str), UpstreamError> {
    let Some(bracketed) = address.strip_prefix('[') else {
        // Two colons without brackets: where the address ends is anybody's guess.
        return match address.split_once(':') {
            Some((_, port)) if port.contains(':') => Err(UpstreamError::Host),
            Some(parts) => Ok(parts),
            None => Ok((address, "")),
        };
    };
    let (host, rest) = bracketed.split_once(']').ok_or(UpstreamError::Host)?;
    // A zone (fe80::1%eth0) is for the resolver to judge.
    let literal = host.split_once('%').map_or(host, |(literal, _)| literal);
    if literal.parse::<Ipv6Addr>().is_err() {
        return Err(UpstreamError::Host);
    }
    match rest.strip_prefix(':') {
        Some(port) => Ok((host, port)),
        None if rest.is_empty() => Ok((host, "")),
        None => Err(UpstreamError::Host),
    }
}

/// The parts of a URL, decoded; empty if the URL does not have them.
struct Parts {
    host: String,
    port: String,
    user: String,
    password: String,
    password_file: String,
    dbname: String,
    tls: UpstreamTls,
}

impl Parts {
    /// Carries out one `key=value` after the `?`.
    fn set(&mut self, parameter: &str) -> Result<(), UpstreamError> {
        let (key, value) = parameter
            .split_once('=')
            .ok_or(UpstreamError::NotAssigned)?;
        let key = decode(key, "query")?;
        let value = decode(value, "query")?;
        match key.as_str() {
            "host" => self.host = value,
            "port" => self.port = value,
            "user" => self.user = value,
            "password" => self.password = value,
            "password_file" => self.password_file = value,
            "dbname" => self.dbname = value,
            "sslmode" => match SslMode::of_word(&value) {
                Some(mode) => self.tls.sslmode = Some(mode),
                None => return Err(UpstreamError::SslMode(value)),
            },
            "sslrootcert" => self.tls.ca_file = file(value, "sslrootcert")?,
            "sslcert" => self.tls.cert_file = file(value, "sslcert")?,
            "sslkey" => self.tls.key_file = file(value, "sslkey")?,
            // The end of a password with a bare `?` in it: not to be repeated.
            _ if value.contains('@') => return Err(UpstreamError::Encoding { part: "password" }),
            _ => return Err(UpstreamError::Parameter { key }),
        }
        Ok(())
    }

    fn into_upstream(self) -> Result<Upstream, UpstreamError> {
        let host = match self.host {
            host if host.is_empty() => return Err(UpstreamError::NoHost),
            host if host.starts_with('/') => Host::Unix(PathBuf::from(host)),
            host if host.contains(',') => return Err(UpstreamError::SeveralHosts),
            host if host.contains([' ', '/', '[', ']']) => return Err(UpstreamError::Host),
            host if host.contains(':') && !is_ipv6(&host) => return Err(UpstreamError::Host),
            host => Host::Tcp(host),
        };
        let port = match self.port.as_str() {
            "" => PORT,
            text => text
                .parse()
                .ok()
                .filter(|port| *port > 0)
                .ok_or(UpstreamError::Port)?,
        };
        let said = |text: String| if text.is_empty() { None } else { Some(text) };
        let password = match (said(self.password), said(self.password_file)) {
            (Some(_), Some(_)) => return Err(UpstreamError::TwoPasswords),
            (None, Some(file)) => Some(secret::read(Path::new(&file))?),
            (password, None) => password.map(Secret::new),
        };
        Ok(Upstream {
            host,
            port,
            user: said(self.user),
            password,
            dbname: said(self.dbname),
            tls: self.tls,
        })
    }
}

/// An absolute path; empty is none.
fn file(text: String, key: &'static str) -> Result<Option<PathBuf>, UpstreamError> {
    match PathBuf::from(&text) {
        _ if text.is_empty() => Ok(None),
        path if path.is_absolute() => Ok(Some(path)),
        _ => Err(UpstreamError::File { key }),
    }
}

fn is_ipv6(host: &str) -> bool {
    let literal = host.split_once('%').map_or(host, |(literal, _)| literal);
    literal.parse::<Ipv6Addr>().is_ok()
}

/// Takes the percent-encoding out of `text`. A zero byte is refused, as it ends strings in the protocol.
fn decode(text: &str, part: &'static str) -> Result<String, UpstreamError> {
    let wrong = || UpstreamError::Encoding { part };
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let high = bytes.next().and_then(hex_digit).ok_or_else(wrong)?;
                let low = bytes.next().and_then(hex_digit).ok_or_else(wrong)?;
                high << 4 | low
            }
            byte => byte,
        });
    }
    if decoded.contains(&0) {
        return Err(wrong());
    }
    String::from_utf8(decoded).map_err(|_| wrong())
}

fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
