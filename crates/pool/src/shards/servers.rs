//! Where the shards are, and as whom roles log in there: from the options of foreign servers and user mappings, and from the
//! configuration.

use super::coordinator::{CoordinatorAnswer, ForeignServer, Options, UserMapping, option};
use paceline_config::{Host, Secret, ShardServer, SslMode, Upstream, UpstreamTls};
use paceline_shards::ServerProblem;
use std::collections::BTreeMap;
use std::net::IpAddr;

#[cfg(test)]
mod tests;

/// The port that libpq uses if an option names none.
const PORT: u16 = 5432;

/// Options that change neither where the server is nor what a statement means: those of `postgres_fdw` itself, and those of libpq for the
/// coordinator's own connections. Files for TLS are the coordinator's; Paceline has its own (`server_tls_…`).
const WITHOUT_EFFECT: [&str; 31] = [
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
    "target_session_attrs",
];

/// A foreign server, as Paceline reaches it.
#[derive(Debug)]
pub(super) struct Reached {
    pub(super) name: String,
    /// For operators: `HOST:PORT/DATABASE`.
    pub(super) address: String,
    /// Where it is, without a login.
    place: Result<Upstream, ServerProblem>,
    /// The logins of roles; those of `None` hold for every other role.
    logins: BTreeMap<Option<String>, Login>,
}

/// A user on a shard.
#[derive(Debug, Clone, PartialEq)]
struct Login {
    user: String,
    password: Option<Secret>,
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
            place: place(server, own, coordinator),
            logins: mappings.filter_map(|mapping| login(mapping, own)).collect(),
        }
    });
    reached.collect()
}

impl Reached {
    /// Where connections for a role lead; `None` if it has no login.
    pub(super) fn upstream(&self, role: &str) -> Option<Upstream> {
        let own = self.logins.get(&Some(role.to_owned()));
        let login = own.or_else(|| self.logins.get(&None))?;
        self.with(login).ok()
    }

    /// Where the connection leads that asks for the definitions: any login will do, as every user may read the catalog.
    pub(super) fn monitored(&self) -> Result<Upstream, ServerProblem> {
        let of_public = self.logins.get(&None);
        let login = of_public.or_else(|| self.logins.values().next());
        match &self.place {
            Ok(_) => self.with(login.ok_or(ServerProblem::NoLogin)?),
            Err(problem) => Err(problem.clone()),
        }
    }

    fn with(&self, login: &Login) -> Result<Upstream, ServerProblem> {
        let place = self.place.as_ref().map_err(Clone::clone)?;
        Ok(Upstream {
            user: Some(login.user.clone()),
            password: login.password.clone(),
            ..place.clone()
        })
    }
}

fn shown(server: &ForeignServer, configured: Option<&ShardServer>) -> String {
    let host = configured.and_then(|own| own.host.as_ref());
    let host = host.map(|host| match host {
        Host::Tcp(host) => host.clone(),
        Host::Unix(folder) => folder.display().to_string(),
    });
    let said = |name: &str| option(&server.options, name).unwrap_or("?").to_owned();
    let port = configured.and_then(|own| own.port);
    let port = port.map(|port| port.to_string());
    let dbname = configured.and_then(|own| own.dbname.clone());
    format!(
        "{}:{}/{}",
        host.unwrap_or_else(|| said("host")),
        port.unwrap_or_else(|| option(&server.options, "port").unwrap_or("5432").to_owned()),
        dbname.unwrap_or_else(|| said("dbname")),
    )
}

fn place(
    server: &ForeignServer,
    configured: Option<&ShardServer>,
    coordinator: &Host,
) -> Result<Upstream, ServerProblem> {
    let options = &server.options;
    let host = match configured.and_then(|own| own.host.clone()) {
        Some(host) => host,
        None => host_of(options, coordinator)?,
    };
    let port = match configured.and_then(|own| own.port) {
        Some(port) => port,
        None => match option(options, "port").map(str::parse) {
            Some(Ok(port)) => port,
            Some(Err(_)) => return Err(ServerProblem::NoOption("port that is a number")),
            None => PORT,
        },
    };
    let dbname = configured.and_then(|own| own.dbname.clone());
    let dbname = dbname.or_else(|| option(options, "dbname").map(str::to_owned));
    // libpq would take the name of the user, or read more from it.
    let is_name = |name: &String| !name.contains(['=', '/']);
    let dbname = dbname
        .filter(is_name)
        .ok_or(ServerProblem::NoOption("dbname"))?;
    let mut unknown = options.iter().map(|(name, _)| name.as_str());
    let is_unknown = |name: &&str| {
        !WITHOUT_EFFECT.contains(name) && !["host", "port", "dbname", "sslmode"].contains(name)
    };
    if let Some(name) = unknown.find(is_unknown) {
        return Err(ServerProblem::UnknownOption(name.to_owned()));
    }
    let sslmode = match option(options, "sslmode").map(SslMode::of_name) {
        Some(None) => return Err(ServerProblem::UnknownOption("sslmode".to_owned())),
        Some(mode) => mode,
        None => None,
    };
    Ok(Upstream {
        host,
        port,
        user: None,
        password: None,
        dbname: Some(dbname),
        tls: UpstreamTls {
            sslmode,
            ..UpstreamTls::default()
        },
    })
}

/// The host that the foreign server names, if it is the same for Paceline as for the coordinator.
fn host_of(options: &Options, coordinator: &Host) -> Result<Host, ServerProblem> {
    let host = option(options, "host").ok_or(ServerProblem::NoOption("host"))?;
    if host.is_empty() || host.contains(',') {
        return Err(ServerProblem::NoOption("host that is one name"));
    }
    let host = match host.starts_with('/') {
        true => Host::Unix(host.into()),
        false => Host::Tcp(host.to_owned()),
    };
    match is_own_machine(&host) && !is_own_machine(coordinator) {
        true => Err(ServerProblem::Loopback(match host {
            Host::Tcp(host) => host,
            Host::Unix(folder) => folder.display().to_string(),
        })),
        false => Ok(host),
    }
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

/// The login that a user mapping gives to a role, or to all others. The configuration only replaces it: a role without a mapping has none.
fn login(
    mapping: &UserMapping,
    configured: Option<&ShardServer>,
) -> Option<(Option<String>, Login)> {
    if let Some(own) = configured
        && let Some(user) = &own.user
    {
        let login = Login {
            user: user.clone(),
            password: own.password.clone(),
        };
        return Some((mapping.role.clone(), login));
    }
    let options = mapping.options.as_ref()?;
    let password = option(options, "password");
    // postgres_fdw lets only superusers do without.
    if password.is_none() && option(options, "password_required") != Some("false") {
        return None;
    }
    let login = Login {
        user: option(options, "user")?.to_owned(),
        password: password.map(|password| Secret::new(password.to_owned())),
    };
    Some((mapping.role.clone(), login))
}
