//! One probe of a host: the questions, and how their answers are read.

use crate::address::Address;
use crate::server::{ResultRows, ServerConn, ServerError};
use crate::shared::Shared;
use paceline_cluster::{
    HostReport, Lsn, Observation, ProbeError, SystemId, Timeline, TimelineHistory, WalPosition,
};
use paceline_net::Peer;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Maximum time of a probe. A server that does not answer for so long is lost.
pub(super) const PROBE_LIMIT: Duration = Duration::from_secs(2);

/// Maximum size of a history file, in bytes.
const HISTORY_MAX: usize = 1 << 20;

/// The state of a server. `CASE` keeps a function from being called where it would be an error: some exist only on a primary.
pub(super) const QUESTION: &str = "SELECT r.in_recovery,
 pg_catalog.current_setting('default_transaction_read_only'),
 CASE WHEN r.in_recovery
  THEN COALESCE((SELECT w.received_tli FROM pg_catalog.pg_stat_get_wal_receiver() w), (SELECT c.timeline_id FROM pg_catalog.pg_control_checkpoint() c))::text
  ELSE pg_catalog.substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn()), 1, 8) END,
 CASE WHEN NOT r.in_recovery THEN pg_catalog.pg_current_wal_lsn() END,
 CASE WHEN NOT r.in_recovery THEN pg_catalog.pg_current_wal_flush_lsn() END,
 pg_catalog.pg_last_wal_receive_lsn(),
 pg_catalog.pg_last_wal_replay_lsn(),
 EXTRACT(epoch FROM pg_catalog.clock_timestamp() - pg_catalog.pg_last_xact_replay_timestamp()),
 (SELECT pg_catalog.string_agg(s.name OPERATOR(pg_catalog.||) '=' OPERATOR(pg_catalog.||) pg_catalog.current_setting(s.name), ' ' ORDER BY s.name)
  FROM pg_catalog.unnest('{array_nulls,bytea_output,client_encoding,DateStyle,default_text_search_config,default_transaction_isolation,extra_float_digits,IntervalStyle,lc_messages,lc_monetary,lc_numeric,lc_time,quote_all_identifiers,search_path,standard_conforming_strings,TimeZone,timezone_abbreviations,transform_null_equals,xmlbinary,xmloption}'::text[]) s(name)),
 CASE WHEN NOT r.in_recovery THEN pg_catalog.pg_current_wal_insert_lsn() END
FROM (SELECT pg_catalog.pg_is_in_recovery() AS in_recovery OFFSET 0) r";

/// The position of a primary; NULL if the server is none.
const END_OF_LOG: &str =
    "SELECT CASE WHEN NOT r.in_recovery THEN pg_catalog.pg_current_wal_insert_lsn() END,
 CASE WHEN NOT r.in_recovery THEN pg_catalog.pg_current_wal_flush_lsn() END
FROM (SELECT pg_catalog.pg_is_in_recovery() AS in_recovery OFFSET 0) r";

/// A connection that is kept for the next probe.
pub(super) struct MonitorConn {
    conn: Box<ServerConn>,
    system: Option<SystemId>,
}

impl MonitorConn {
    /// The address of the server; `None` for a Unix socket.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        match self.conn.stream.peer() {
            Peer::V4([peer, _]) => Some(SocketAddr::V4(peer)),
            Peer::V6(ends) => {
                let [peer, _] = *ends;
                Some(SocketAddr::V6(peer))
            }
            Peer::Unix { .. } | Peer::Disconnected => None,
        }
    }
}

/// The result of a probe.
pub(super) struct Probed {
    pub(super) seen: Observation,
    /// The history that was missing, if the monitor may read it.
    pub(super) history: Option<TimelineHistory>,
}

/// Asks a server for its state, on a connection that is kept for the next probe. If the history of the timeline `missing` is
/// wanted, asks for that, too. If the connection is lost, opens another one to the same server, at `location`; without a connection,
/// opens one to where the name leads, at `address`.
pub(super) async fn probe(
    conn: &mut Option<MonitorConn>,
    address: &Arc<Address>,
    location: &Arc<Address>,
    connect_timeout: Duration,
    missing: Option<Timeline>,
    shared: &Shared,
) -> Probed {
    let was_open = conn.is_some();
    let mut asked = ask(conn, address, connect_timeout, missing, shared).await;
    if was_open && matches!(asked, Err(ServerError::Io(_) | ServerError::Refused(_))) {
        // The old connection may have been ended alone: by an administrator, or by a restart that is over.
        *conn = None;
        asked = ask(conn, location, connect_timeout, missing, shared).await;
    }
    match asked {
        Ok((report, history)) => Probed {
            seen: Observation::Answered(report),
            history,
        },
        Err(error) => {
            *conn = None;
            Probed {
                seen: Observation::Failed(probe_error(&error)),
                history: None,
            }
        }
    }
}

async fn ask(
    conn: &mut Option<MonitorConn>,
    address: &Arc<Address>,
    connect_timeout: Duration,
    missing: Option<Timeline>,
    shared: &Shared,
) -> Result<(HostReport, Option<TimelineHistory>), ServerError> {
    let mut open = match conn.take() {
        Some(open) => open,
        None => connect(address, connect_timeout, shared).await?,
    };
    let asking = async {
        let answer = open.conn.query(QUESTION).await?;
        let report = read(&answer, open.system).ok_or_else(unreadable)?;
        let history = match missing.filter(|_| !report.in_recovery) {
            Some(timeline) => history(&mut open.conn, timeline).await?,
            None => None,
        };
        Ok((report, history))
    };
    let asked = tokio::time::timeout(PROBE_LIMIT, asking).await;
    let asked = asked.unwrap_or(Err(ServerError::QueryTimeout));
    if asked.is_ok() {
        *conn = Some(open);
    }
    asked
}

async fn connect(
    address: &Arc<Address>,
    connect_timeout: Duration,
    shared: &Shared,
) -> Result<MonitorConn, ServerError> {
    let mut conn = open_monitor(address, connect_timeout, shared).await?;
    let asked = tokio::time::timeout(PROBE_LIMIT, conn.system()).await;
    let system = asked.unwrap_or(Err(ServerError::QueryTimeout))?;
    Ok(MonitorConn { conn, system })
}

/// Opens a connection as the monitor.
pub(crate) async fn open_monitor(
    address: &Arc<Address>,
    connect_timeout: Duration,
    shared: &Shared,
) -> Result<Box<ServerConn>, ServerError> {
    /// The connection prepares no statements.
    const PREPARED_MAX: usize = 1;
    let limit = match connect_timeout {
        Duration::ZERO => PROBE_LIMIT,
        limit => limit.min(PROBE_LIMIT),
    };
    let credentials = &shared.credentials;
    let credentials = credentials.of_password(address.upstream.password.as_ref());
    let none = shared.settings_interner.none();
    let conn = ServerConn::open_within(limit, address, &credentials, none, PREPARED_MAX).await?;
    Ok(Box::new(conn))
}

/// Asks a primary for its position between two probes, on their connection. `None`: a probe should find out more.
///
/// # Errors
/// The server does not answer in time. Then a probe would not get an answer, either.
pub(super) async fn end_of_log(
    conn: &mut Option<MonitorConn>,
) -> Result<Option<WalPosition>, ProbeError> {
    // Unless it is put back, the connection is closed.
    let Some(mut open) = conn.take() else {
        return Ok(None);
    };
    let answer = match ask_within(&mut open.conn, END_OF_LOG).await {
        Ok(answer) => answer,
        Err(ServerError::QueryTimeout) => return Err(ProbeError::TimedOut),
        Err(_) => return Ok(None),
    };
    let row = answer.first().and_then(|rows| rows.first());
    let lsn = |column: usize| row?.get(column)?.as_deref()?.parse().ok();
    let position = lsn(0).zip(lsn(1));
    *conn = position.is_some().then_some(open);
    Ok(position.map(|(inserted, flushed)| WalPosition { inserted, flushed }))
}

/// Runs a question of the monitor.
pub(super) async fn ask_within(
    conn: &mut ServerConn,
    question: &str,
) -> Result<Vec<ResultRows>, ServerError> {
    let asked = tokio::time::timeout(PROBE_LIMIT, conn.query(question)).await;
    asked.unwrap_or(Err(ServerError::QueryTimeout))
}

/// The history file of a timeline; `None` if the monitor may not read it, or the server has removed it. The rights are asked for
/// first: the server would log each attempt as an error.
async fn history(
    conn: &mut ServerConn,
    timeline: Timeline,
) -> Result<Option<TimelineHistory>, ServerError> {
    const MAY_READ: &str = "SELECT pg_catalog.has_function_privilege('pg_catalog.pg_read_file(text, bigint, bigint, boolean)', 'EXECUTE')";
    if conn.value(MAY_READ).await?.as_deref() != Some("t") {
        return Ok(None);
    }
    let question = format!(
        "SELECT pg_catalog.pg_read_file('pg_wal/{:08X}.history', 0, {HISTORY_MAX}, true)",
        timeline.0
    );
    let text = conn.value(&question).await?;
    Ok(text.and_then(|text| TimelineHistory::parse(timeline, &text).ok()))
}

pub(super) fn unreadable() -> ServerError {
    let why = "the server's answer to the monitor cannot be read";
    ServerError::Io(io::Error::new(io::ErrorKind::InvalidData, why))
}

/// Reads the answer to [`QUESTION`], the first one.
pub(super) fn read(answer: &[ResultRows], system: Option<SystemId>) -> Option<HostReport> {
    let row = answer.first()?.first()?;
    let value = |column: usize| row.get(column).and_then(Option::as_deref);
    let lsn = |column| value(column).and_then(|text| text.parse::<Lsn>().ok());
    let in_recovery = value(0)? == "t";
    // A primary shows its timeline as the hexadecimal beginning of a file name, a replica as a number.
    let radix = if in_recovery { 10 } else { 16 };
    let timeline = value(2).and_then(|text| u32::from_str_radix(text, radix).ok());
    Some(HostReport {
        in_recovery,
        read_only: !in_recovery && value(1)? == "on",
        system,
        timeline: timeline.map(Timeline),
        written: lsn(3),
        flushed: lsn(4),
        received: lsn(5),
        replayed: lsn(6),
        replay_age: value(7).and_then(|text| {
            let seconds = text.parse::<f64>().ok()?;
            Duration::try_from_secs_f64(seconds.max(0.0)).ok()
        }),
        answer_settings: value(8).map(str::to_owned),
        inserted: lsn(9),
    })
}

pub(super) fn probe_error(error: &ServerError) -> ProbeError {
    match error {
        ServerError::Refused(_) => {
            ProbeError::from_sqlstate(error.sqlstate().unwrap_or_default(), &error.to_string())
        }
        ServerError::Timeout(_) | ServerError::QueryTimeout => ProbeError::TimedOut,
        ServerError::Io(error) if error.kind() == io::ErrorKind::TimedOut => ProbeError::TimedOut,
        ServerError::Io(error) if error.kind() == io::ErrorKind::InvalidData => {
            ProbeError::Other(error.to_string())
        }
        ServerError::Io(_) => ProbeError::Refused,
        ServerError::Wire(_)
        | ServerError::Password(_)
        | ServerError::Standby
        | ServerError::OtherSystem
        | ServerError::Replaced => ProbeError::Other(error.to_string()),
    }
}
