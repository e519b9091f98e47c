//! Executes commands of the console.

use super::command::ConsoleCommand;
use super::error::console_error;
use super::table::{AnyTable, ColumnType, ConsoleRow, ConsoleValue, Heading};
use crate::admin::Admin;
use crate::commands::AdminCommand;
use crate::snapshot::SnapshotReader;
use bytes::BytesMut;
use paceline_config::{Mapping, keys, pgbouncer_mapping};
use paceline_proxy::cancel::ConsoleAccess;
use paceline_proxy::proxy::Proxy;
use paceline_wire::ErrorResponse;
use paceline_wire::backend;
use std::sync::{Arc, Mutex, PoisonError};

const USAGE: &str = "
\tSHOW HELP|CONFIG|DATABASES|POOLS|CLIENTS|SERVERS|USERS|VERSION
\tSHOW PEERS|PEER_POOLS
\tSHOW SOCKETS|ACTIVE_SOCKETS|LISTS|MEM|STATE
\tSHOW DNS_HOSTS|DNS_ZONES
\tSHOW STATS|STATS_TOTALS|STATS_AVERAGES|TOTALS
\tSHOW GROUPS|GROUPING|HOSTS|FAILOVERS|SNAPSHOT
\tSET key = arg
\tRELOAD
\tPAUSE [<db>]
\tRESUME [<db>]
\tDISABLE <db>
\tENABLE <db>
\tRECONNECT [<db>]
\tKILL [<db>]
\tKILL_CLIENT <client_id>
\tALLOW|DENY|RESET GROUPING <db> <schema>.<table>|TEMPLATE <id>
\tSUSPEND
\tSHUTDOWN
\tSHUTDOWN WAIT_FOR_SERVERS|WAIT_FOR_CLIENTS
\tWAIT_CLOSE [<db>]";

/// The answer to a command.
#[derive(Debug, Default)]
pub(super) struct ConsoleAnswer {
    /// A `NoticeResponse`, or nothing.
    pub(super) notice: BytesMut,
    /// Headings and rows.
    pub(super) table: Option<(Vec<Heading>, Vec<ConsoleRow>)>,
    /// The command tag; empty if the command is empty.
    pub(super) tag: String,
}

impl ConsoleAnswer {
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

impl ConsoleCommand {
    /// The headings of the table that the command returns, if it returns one.
    pub(super) fn headings(&self) -> Option<Vec<Heading>> {
        match self {
            Self::Show(table) => Some(table.headings()),
            Self::Parameter(parameter) => Some(text_column(parameter.name)),
            Self::Snapshot => Some(text_column("snapshot")),
            _ => None,
        }
    }

    /// Does the command only wait for clients or servers? A cancel request or a disconnect undoes such a command.
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

fn text_column(name: &'static str) -> Vec<Heading> {
    vec![Heading {
        name,
        column_type: ColumnType::Text,
    }]
}

/// The session that runs a command.
#[derive(Clone)]
pub(super) struct CommandCaller {
    pub(super) access: ConsoleAccess,
    /// The last snapshot of the session, for the rates in the next one.
    pub(super) snapshots: Arc<Mutex<SnapshotReader>>,
}

/// Executes a command.
pub(super) async fn execute(
    admin: &Arc<Admin>,
    caller: CommandCaller,
    command: ConsoleCommand,
) -> Result<ConsoleAnswer, ErrorResponse> {
    if command.needs_admin() && caller.access != ConsoleAccess::Admin {
        return Err(console_error("admin access needed"));
    }
    let headings = command.headings().unwrap_or_default();
    Ok(match command {
        ConsoleCommand::Empty => ConsoleAnswer::default(),
        ConsoleCommand::Help => {
            ConsoleAnswer::tag("SHOW").with_notice("Console usage", Some(USAGE))
        }
        ConsoleCommand::Show(table) => ConsoleAnswer {
            table: Some((headings, rows(&admin.proxy, table).await?)),
            ..ConsoleAnswer::tag("SHOW")
        },
        ConsoleCommand::Snapshot => ConsoleAnswer {
            table: Some((headings, vec![vec![snapshot(&admin.proxy, caller).await?]])),
            ..ConsoleAnswer::tag("SHOW")
        },
        ConsoleCommand::Parameter(parameter) => ConsoleAnswer {
            table: Some((headings, vec![vec![parameter.value.into()]])),
            ..ConsoleAnswer::tag("SHOW")
        },
        ConsoleCommand::SetParameter => ConsoleAnswer::tag("SET").with_notice("SET ignored", None),
        ConsoleCommand::Transaction(tag) => ConsoleAnswer::tag(tag),
        ConsoleCommand::Set { key, value } => {
            let notice = set(admin, &key, &value).await?;
            let answer = ConsoleAnswer::tag(format!("SET {key}={}", shown(&key, &value)));
            match notice {
                Some(notice) => answer.with_notice(&notice, None),
                None => answer,
            }
        }
        ConsoleCommand::AdminCommand(command, tag) => {
            tracing::info!(?command, "command from the console");
            admin.execute(command).await?;
            ConsoleAnswer::tag(tag)
        }
        ConsoleCommand::KillClient(id) => match admin.proxy.cancel_keys.kill(id) {
            true => ConsoleAnswer::tag("KILL_CLIENT"),
            false => return Err(console_error("client not found")),
        },
    })
}

/// Takes a snapshot on a thread that serves no clients, as text of JSON.
async fn snapshot(
    proxy: &Arc<Proxy>,
    caller: CommandCaller,
) -> Result<ConsoleValue, ErrorResponse> {
    let proxy = Arc::clone(proxy);
    let taken = tokio::task::spawn_blocking(move || {
        let reader = caller.snapshots.lock();
        let snapshot = reader.unwrap_or_else(PoisonError::into_inner).read(&proxy);
        serde_json::to_string(&match caller.access {
            ConsoleAccess::Admin => snapshot,
            _ => snapshot.without_values(),
        })
    });
    match taken.await {
        Ok(Ok(text)) => Ok(text.into()),
        _ => Err(console_error("the snapshot could not be taken")),
    }
}

/// Collects the rows on a thread that serves no clients, because there may be many.
async fn rows(
    proxy: &Arc<Proxy>,
    table: &'static dyn AnyTable,
) -> Result<Vec<ConsoleRow>, ErrorResponse> {
    let proxy = Arc::clone(proxy);
    let rows = tokio::task::spawn_blocking(move || table.rows(&proxy)).await;
    rows.map_err(|_| console_error("the table could not be collected"))
}

/// Sets a key. Returns a notice for the operator, if there is one.
async fn set(admin: &Arc<Admin>, key: &str, value: &str) -> Result<Option<String>, ErrorResponse> {
    let key = key.to_ascii_lowercase();
    let failed = |detail: String| console_error("SET failed").with_detail(detail);
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
    tracing::info!(key, value = shown(&key, value), "key set from the console");
    Ok(notice)
}

/// `value` as the operator and the log see it; a password is hidden.
fn shown<'a>(key: &str, value: &'a str) -> &'a str {
    let known = keys().find(|known| known.name.eq_ignore_ascii_case(key));
    known.map_or(value, |known| known.shown(value))
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn set_does_not_show_a_password() {
        assert_eq!(shown("Monitor_Password", "s3cret"), "***");
        assert_eq!(shown("monitor_user", "mon"), "mon");
        assert_eq!(shown("unknown", "value"), "value");
    }
}
