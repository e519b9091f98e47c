//! The addresses of the shards and the logins of roles there: from the options of foreign servers and user mappings, and from the
//! configuration.

use super::coordinator::{CoordinatorAnswer, ForeignServer, Options, UserMapping, option};
use paceline_config::{Host, PasswordSource, Secret, ShardServer, SslMode, Upstream, UpstreamTls};
use paceline_shards::ServerProblem;
use std::collections::BTreeMap;
use std::net::IpAddr;

#[cfg(test)]
mod tests;

/// The port that libpq uses if an option names none.
const PORT: u16 = 5432;

/// Options that change neither where the server is nor what a statement means: those of `postgres_fdw` itself, and those of libpq for the
/// coordinator's own connections. Files for TLS are the coordinator's; Paceline has its own (`server_tls_…`).
const WITHOUT_EFFECT: [&str; 30] = [
    "analyze_sampling",
    "application_name",
    "async_capable",
    "batch_size",
    "connect_timeout",
    "extensions",
    "fallback_application_name",
    "fdw_startup_cost",
    "fdw_tuple_cost",
    "fetch_size",
    "gssencmode",
    "keep_connections",
    "keepalives",
    "keepalives_count",
    "keepalives_idle",
    "keepalives_interval",
    "parallel_abort",
    "parallel_commit",
    "sslcert",
    "sslcompression",
    "sslcrl",
    "sslcrldir",
    "sslkey",
    "sslrootcert",
    "sslsni",
    "tcp_user_timeout",
    "truncatable",
    "updatable",
    "use_remote_estimate",
    "use_scram_passthrough",
];

/// A foreign server, as Paceline reaches it.
#[derive(Debug)]
pub(super) struct Reached {
    pub(super) name: String,
    /// For operators: `HOST:PORT/DATABASE`, or `HOST:PORT,HOST:PORT/DATABASE`.
    pub(super) address: String,
    /// Its hosts, without logins; one of them is the primary. There is at least one.
    places: Result<Vec<Upstream>, ServerProblem>,
    /// The logins of roles; that of `None` holds for every other role. A role whose own mapping gives no login has none.
    logins: BTreeMap<Option<String>, Option<Login>>,
}

/// A user on a shard.
#[derive(Debug, Clone, PartialEq)]
struct Login {
    user: String,
    password: Option<PasswordSource>,
}

/// The servers of an answer.
pub(super) fn reached(
    answer: &CoordinatorAnswer,
    configured: &[ShardServer],
    coordinator: &Host,
) -> Vec<Reached> {
    let servers = answer.servers.iter();
    let reached = servers.map(|server| {
        let mut configured = configured.iter();
        let own = configured.find(|own| own.server == server.name);
        let mappings = answer.mappings.iter();
        let mappings = mappings.filter(|mapping| mapping.server == server.name);
        Reached {
            name: server.name.clone(),
            address: shown(server, own),
            places: places(server, own, coordinator),
            logins: mappings
                .map(|mapping| (mapping.role.clone(), login(mapping, own)))
                .collect(),
        }
    });
    reached.collect()
}

impl Reached {
    /// The destination of connections for a role, on its first host; `None` if the role has no login.
    pub(super) fn upstream(&self, role: &str) -> Option<Upstream> {
        let own = self.logins.get(&Some(role.to_owned()));
        let login = own.or_else(|| self.logins.get(&None))?;
        self.with(login.as_ref()?).ok()?.into_iter().next()
    }

    /// The destinations of connections that read the definitions, on each of its hosts: any login is sufficient, as every user may read the
    /// catalog.
    pub(super) fn monitored(&self) -> Result<Vec<Upstream>, ServerProblem> {
        // The mapping for PUBLIC is the first.
        let login = self.logins.values().flatten().next();
        match &self.places {
            Ok(_) => self.with(login.ok_or(ServerProblem::NoLogin)?),
            Err(problem) => Err(problem.clone()),
        }
    }

    fn with(&self, login: &Login) -> Result<Vec<Upstream>, ServerProblem> {
        let places = self.places.as_ref().map_err(Clone::clone)?;
        let with_login = |place: &Upstream| Upstream {
            user: Some(login.user.clone()),
            password: login.password.clone(),
            ..place.clone()
        };
        Ok(places.iter().map(with_login).collect())
    }
}

fn shown(server: &ForeignServer, configured: Option<&ShardServer>) -> String {
    let own = |hosts: &Vec<Host>| -> Vec<String> { hosts.iter().map(name_of).collect() };
    let hosts = configured.and_then(|own| own.hosts.as_ref()).map(own);
    let hosts = hosts.unwrap_or_else(|| listed(option(&server.options, "host").unwrap_or("?")));
    let own = |ports: &Vec<u16>| -> Vec<String> { ports.iter().map(u16::to_string).collect() };
    let ports = configured.and_then(|own| own.ports.as_ref()).map(own);
    let ports = ports.unwrap_or_else(|| listed(option(&server.options, "port").unwrap_or("5432")));
    let dbname = configured.and_then(|own| own.dbname.clone());
    let dbname = dbname.or_else(|| option(&server.options, "dbname").map(str::to_owned));
    let addresses = hosts.iter().enumerate().map(|(place, host)| {
        let port = ports.get(place).or(ports.last());
        let port = port.filter(|port| !port.is_empty());
        format!("{host}:{}", port.map_or("5432", String::as_str))
    });
    let addresses: Vec<String> = addresses.collect();
    let dbname = dbname.unwrap_or_else(|| "?".to_owned());
    format!("{}/{dbname}", addresses.join(","))
}

/// The parts of an option with one value for each host.
fn listed(option: &str) -> Vec<String> {
    option
        .split(',')
        .map(|part| part.trim().to_owned())
        .collect()
}

fn name_of(host: &Host) -> String {
    match host {
        Host::Tcp(host) => host.clone(),
        Host::Unix(folder) => folder.display().to_string(),
    }
}

/// The hosts of a server, in the order of libpq's `host` and `port`.
fn places(
    server: &ForeignServer,
    configured: Option<&ShardServer>,
    coordinator: &Host,
) -> Result<Vec<Upstream>, ServerProblem> {
    let options = &server.options;
    let hosts = match configured.and_then(|own| own.hosts.clone()) {
        Some(hosts) => hosts,
        None => hosts_of(options, coordinator)?,
    };
    let ports = match configured.and_then(|own| own.ports.clone()) {
        Some(ports) => ports,
        None => ports_of(options)?,
    };
    let dbname = configured.and_then(|own| own.dbname.clone());
    let dbname = dbname.or_else(|| option(options, "dbname").map(str::to_owned));
    // libpq would take the name of the user, or read more from it.
    let is_name = |name: &String| !name.contains(['=', '/']);
    let dbname = dbname
        .filter(is_name)
        .ok_or(ServerProblem::NoOption("dbname"))?;
    if let Some(name) = options.iter().find(|(name, value)| !is_known(name, value)) {
        return Err(ServerProblem::UnknownOption(name.0.to_owned()));
    }
    let sslmode = match option(options, "sslmode").map(SslMode::of_name) {
        Some(None) => return Err(ServerProblem::UnknownOption("sslmode".to_owned())),
        Some(mode) => mode,
        None => None,
    };
    let port = |place: usize| match ports.as_slice() {
        [port] => Some(*port),
        ports if ports.len() == hosts.len() => ports.get(place).copied(),
        _ => None,
    };
    let places = hosts.iter().enumerate().map(|(place, host)| {
        Ok(Upstream {
            host: host.clone(),
            port: port(place).ok_or(ServerProblem::NoOption("port for each host"))?,
            user: None,
            password: None,
            dbname: Some(dbname.clone()),
            tls: UpstreamTls {
                sslmode,
                ..UpstreamTls::default()
            },
        })
    });
    places.collect()
}

/// Whether Paceline obeys an option, or need not.
fn is_known(name: &str, value: &str) -> bool {
    match name {
        "host" | "port" | "dbname" | "sslmode" => true,
        // Paceline uses the primary; other values say that the coordinator's own sessions must not.
        "target_session_attrs" => ["any", "read-write", "primary"].contains(&value),
        name => WITHOUT_EFFECT.contains(&name),
    }
}

fn ports_of(options: &Options) -> Result<Vec<u16>, ServerProblem> {
    let Some(ports) = option(options, "port") else {
        return Ok(vec![PORT]);
    };
    // As in libpq, an empty part means the default.
    let ports = listed(ports).into_iter().map(|port| match port.as_str() {
        "" => Some(PORT),
        port => port.parse().ok(),
    });
    let ports: Option<Vec<u16>> = ports.collect();
    ports.ok_or(ServerProblem::NoOption("port that is a number"))
}

/// The hosts that the foreign server names, if they are the same for Paceline as for the coordinator.
fn hosts_of(options: &Options, coordinator: &Host) -> Result<Vec<Host>, ServerProblem> {
    let hosts = option(options, "host").ok_or(ServerProblem::NoOption("host"))?;
    let hosts = listed(hosts).into_iter().map(|host| {
        let host = match host.as_str() {
            "" => return Err(ServerProblem::NoOption("host that is a name")),
            folder if folder.starts_with('/') => Host::Unix(folder.into()),
            _ => Host::Tcp(host),
        };
        match is_own_machine(&host) && !is_own_machine(coordinator) {
            true => Err(ServerProblem::Loopback(name_of(&host))),
            false => Ok(host),
        }
    });
    hosts.collect()
}

/// Whether a host means the machine of the process that connects to it.
fn is_own_machine(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            let address = name.parse::<IpAddr>();
            name.eq_ignore_ascii_case("localhost")
                || address.is_ok_and(|address| address.to_canonical().is_loopback())
        }
    }
}

/// The login that a user mapping gives; `None` if its options are hidden or incomplete. The configuration only replaces it: a role without
/// a mapping has none.
fn login(mapping: &UserMapping, configured: Option<&ShardServer>) -> Option<Login> {
    if let Some(own) = configured
        && let Some(user) = &own.user
    {
        return Some(Login {
            user: user.clone(),
            password: own.password.clone(),
        });
    }
    let options = mapping.options.as_ref()?;
    let password = option(options, "password");
    // postgres_fdw lets only superusers do without.
    if password.is_none() && option(options, "password_required") != Some("false") {
        return None;
    }
    Some(Login {
        user: option(options, "user")?.to_owned(),
        password: password
            .map(|password| PasswordSource::Written(Secret::new(password.to_owned()))),
    })
}
