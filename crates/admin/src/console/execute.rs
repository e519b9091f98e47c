//! What a command does, and what is answered.

use super::command::Command;
use super::refusal::refusal;
use super::show::Show;
use super::table::{Column, Kind, Row, Value};
use crate::admin::Admin;
use crate::commands::AdminCommand;
use bytes::BytesMut;
use paceline_config::{Mapping, keys, pgbouncer_mapping};
use paceline_proxy::cancel::ConsoleAccess;
use paceline_proxy::proxy::Proxy;
use paceline_wire::ErrorResponse;
use paceline_wire::backend;
use std::sync::Arc;

const USAGE: &str = "
\tSHOW HELP|CONFIG|DATABASES|POOLS|CLIENTS|SERVERS|USERS|VERSION
\tSHOW PEERS|PEER_POOLS
\tSHOW SOCKETS|ACTIVE_SOCKETS|LISTS|MEM|STATE
\tSHOW DNS_HOSTS|DNS_ZONES
\tSHOW STATS|STATS_TOTALS|STATS_AVERAGES|TOTALS
\tSHOW GROUPS
\tSET key = arg
\tRELOAD
\tPAUSE [<db>]
\tRESUME [<db>]
\tDISABLE <db>
\tENABLE <db>
\tRECONNECT [<db>]
\tKILL [<db>]
\tKILL_CLIENT <client_id>
\tSUSPEND
\tSHUTDOWN
\tSHUTDOWN WAIT_FOR_SERVERS|WAIT_FOR_CLIENTS
\tWAIT_CLOSE [<db>]";

/// What is answered.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// A whole message, or nothing.
    pub(super) notice: BytesMut,
    /// Columns and rows.
    pub(super) table: Option<(Vec<Column>, Vec<Row>)>,
    /// Of `CommandComplete`; empty for an empty command.
    pub(super) tag: String,
}

impl Answer {
    fn tag(tag: impl Into<String>) -> Self {
        Self {
            tag: tag.into(),
            ..Self::default()
        }
    }

    fn with_notice(mut self, message: &str, detail: Option<&str>) -> Self {
        backend::write_notice(&mut self.notice, message, detail);
        self
    }
}

impl Command {
    /// The columns of its answer, if it has any.
    pub(super) fn columns(&self) -> Option<Vec<Column>> {
        match self {
            Self::Show(show) => Some(show.columns()),
            Self::Parameter(parameter) => Some(vec![Column {
                name: parameter.name,
                kind: Kind::Text,
            }]),
            _ => None,
        }
    }

    /// It waits for what others do: given up, it is taken back.
    pub(super) fn only_waits(&self) -> bool {
        matches!(
            self,
            Self::AdminCommand(
                AdminCommand::Pause(_) | AdminCommand::Suspend | AdminCommand::WaitClose(_),
                _
            )
        )
    }

    fn needs_admin(&self) -> bool {
        matches!(
            self,
            Self::Set { .. } | Self::AdminCommand(..) | Self::KillClient(_)
        )
    }
}

/// Carries a command out.
pub(super) async fn execute(
    admin: &Arc<Admin>,
    access: ConsoleAccess,
    command: Command,
) -> Result<Answer, ErrorResponse> {
    if command.needs_admin() && access != ConsoleAccess::Admin {
        return Err(refusal("admin access needed"));
    }
    let columns = command.columns().unwrap_or_default();
    Ok(match command {
        Command::Empty => Answer::default(),
        Command::Help => Answer::tag("SHOW").with_notice("Console usage", Some(USAGE)),
        Command::Show(show) => Answer {
            table: Some((columns, rows(&admin.proxy, show).await?)),
            ..Answer::tag("SHOW")
        },
        Command::Parameter(parameter) => Answer {
            table: Some((columns, vec![vec![Value::from(parameter.value)]])),
            ..Answer::tag("SHOW")
        },
        Command::SetParameter => Answer::tag("SET").with_notice("SET ignored", None),
        Command::Transaction(tag) => Answer::tag(tag),
        Command::Set { key, value } => {
            let notice = set(admin, &key, &value).await?;
            let answer = Answer::tag(format!("SET {key}={value}"));
            match notice {
                Some(notice) => answer.with_notice(&notice, None),
                None => answer,
            }
        }
        Command::AdminCommand(order, tag) => {
            tracing::info!(?order, "an operator orders");
            admin.execute(order).await?;
            Answer::tag(tag)
        }
        Command::KillClient(id) => match admin.proxy.cancel_keys.kill(id) {
            true => Answer::tag("KILL_CLIENT"),
            false => return Err(refusal("client not found")),
        },
    })
}

/// There may be many: they are collected on a thread that serves no clients.
async fn rows(proxy: &Arc<Proxy>, show: Show) -> Result<Vec<Row>, ErrorResponse> {
    let proxy = Arc::clone(proxy);
    let rows = tokio::task::spawn_blocking(move || show.rows(&proxy)).await;
    rows.map_err(|_| refusal("the table could not be collected"))
}

/// Sets a key; returns what the operator should know.
async fn set(admin: &Arc<Admin>, key: &str, value: &str) -> Result<Option<String>, ErrorResponse> {
    let key = key.to_ascii_lowercase();
    let failed = |detail: String| refusal("SET failed").with_detail(detail);
    match pgbouncer_mapping(&key) {
        Some(Mapping::Ignored(why)) => return Ok(Some(format!("{key} is ignored: {why}"))),
        Some(Mapping::Refused { unless, .. }) if unless.contains(&value) => return Ok(None),
        Some(Mapping::Refused { why, .. }) => return Err(failed(why.to_owned())),
        Some(Mapping::PartOf(whole)) => {
            return Err(failed(format!("{key} is part of {whole} here.")));
        }
        Some(Mapping::Key(_)) | None => {}
    }
    if keys().any(|known| known.name == key && known.needs_restart) {
        let detail = format!("{key} cannot be changed while Paceline runs.");
        let hint = "Change it in the configuration and restart Paceline.";
        return Err(failed(detail).with_hint(hint));
    }
    let set = admin.set(&format!("{key}={value}")).await;
    let notice = set.map_err(|error| failed(error.to_string()))?;
    tracing::info!(key, value, "an operator has set a key");
    Ok(notice)
}
