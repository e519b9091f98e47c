//! The server that executes a statement of a database with shards: as its text alone permits, or by the map.

use crate::cli::Explain;
use crate::host_check::shard_map;
use paceline_batch::analysis::TemplateAnalysis;
use paceline_batch::strategy::PlannedRequest;
use paceline_config::{Shards, Upstream};
use paceline_pool::address::Address;
use paceline_pool::routing::{RouteRefusal, Routes};
use paceline_relay::request::Request;
use paceline_relay::settings::SettingsInterner;
use paceline_relay::template::{Simple, Template, Templates};
use paceline_sql::keyed::KeyedStatement;
use std::fmt;
use std::sync::Arc;

/// The server that executes a statement.
#[derive(Debug)]
pub(super) enum Place {
    /// On this shard.
    Shard(String),
    /// On the shard of the row that the parameters fix.
    ByParameters,
    /// On the coordinator, for this reason.
    Coordinator(String),
}

impl Place {
    pub(super) fn is_shard(&self) -> bool {
        !matches!(self, Self::Coordinator(_))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shard(server) => write!(out, "the shard {server} executes it"),
            Self::ByParameters => out.write_str(
                "the shard of the row that the parameters fix executes it, if their types are known",
            ),
            Self::Coordinator(why) => write!(out, "the coordinator executes it: {why}"),
        }
    }
}

/// The server that the text alone permits; `None` if shards are off.
pub(super) fn of_text(template: &Template, shards: Shards) -> Option<String> {
    if shards == Shards::Off {
        return None;
    }
    Some(match KeyedStatement::read(&template.text) {
        Err(why) => Place::Coordinator(why.to_string()).to_string(),
        Ok(statement) => format!(
            "if {} is a sharded table whose key is among {}: the shard of the row executes it",
            statement.relation,
            statement.fixed_columns().join(", "),
        ),
    })
}

/// The server that executes the statement by the present map of the shards.
pub(super) async fn place(
    arguments: &Explain,
    address: &Address,
    simple: &Simple,
    analysis: &TemplateAnalysis,
    templates: &Templates,
) -> Place {
    let upstream = with_monitor_login(arguments, &address.upstream);
    let database = address.database.clone();
    let map = match shard_map(upstream, database, arguments, &address.user).await {
        Ok(map) => map,
        Err(why) => {
            return Place::Coordinator(format!("the map of the shards cannot be read: {why:#}"));
        }
    };
    let routes = Routes::new(map, address.user.clone(), None);
    let settings = SettingsInterner::default();
    let (template, literals) = (Arc::clone(&simple.template), simple.literals.clone());
    let request = Request::of_query(&arguments.sql, template, literals, settings.none());
    let request = PlannedRequest::from(Box::new(request));
    match routes.route(&request, analysis, templates, &settings) {
        Ok(routed) => {
            let server = routes.map().server(routed.server);
            Place::Shard(server.map_or_else(String::new, |server| server.name.clone()))
        }
        Err(RouteRefusal::Parameter) => Place::ByParameters,
        Err(why) => Place::Coordinator(why.to_string()),
    }
}

/// The login that reads the catalog.
fn with_monitor_login(arguments: &Explain, upstream: &Upstream) -> Upstream {
    let servers = &arguments.settings.servers;
    if servers.monitor_user.is_empty() {
        return upstream.clone();
    }
    Upstream {
        user: Some(servers.monitor_user.clone()),
        password: servers.monitor_password_source(),
        ..upstream.clone()
    }
}
