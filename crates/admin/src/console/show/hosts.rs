//! `SHOW HOSTS`: the hosts of databases that have several; and the columns about a host in other tables.

use crate::console::table::ColumnType::{Int4, Int8, Text};
use crate::console::table::{ConsoleColumn, ConsoleTable, ConsoleValue};
use paceline_cluster::{HostRole, HostStatus, Lag};
use paceline_proxy::proxy::Proxy;
use std::time::Duration;

pub(super) static HOSTS: ConsoleTable<HostRecord> =
    ConsoleTable::new("hosts", &[HOST_COLUMNS], hosts);

const HOST_COLUMNS: &[ConsoleColumn<HostRecord>] = &[
    ("database", Text, |r| r.database.clone().into()),
    ("host", Text, |r| r.status.spec.address.host.clone().into()),
    ("port", Int4, |r| r.status.spec.address.port.into()),
    ("zone", Text, |r| r.zone.clone().into()),
    ("role", Text, |r| role(&r.status).into()),
    ("reason", Text, |r| reason(&r.status).into()),
    ("timeline", Int8, |r| timeline(&r.status).into()),
    ("lag_bytes", Int8, |r| r.status.lag.bytes.into()),
    ("lag_ms", Int8, |r| lag_ms(r.status.lag).into()),
    ("serves_reads", Int4, |r| {
        u64::from(matches!(r.status.reads, Some(Ok(())))).into()
    }),
    ("reads", Int8, |r| r.reads.into()),
    ("probe_age_ms", Int8, |r| {
        let probed = r.status.observed;
        probed.map(|at| milliseconds(at.elapsed())).into()
    }),
    ("shard", Text, |r| r.shard.clone().into()),
];

/// A host of an entry of the configuration.
pub(super) struct HostRecord {
    /// The name of the entry; for a shard, that of the database.
    database: String,
    /// The foreign server, if it is a host of a shard.
    shard: Option<String>,
    status: HostStatus,
    /// The zone, if it is configured.
    zone: Option<String>,
    /// Reads that the host has answered as a replica.
    reads: u64,
}

fn hosts(proxy: &Proxy) -> Vec<HostRecord> {
    let all = proxy.pools.hosts();
    let records = all.iter().flat_map(|hosts| {
        let statuses = hosts.statuses().into_iter();
        statuses.map(|status| HostRecord {
            database: hosts.entry.clone(),
            shard: hosts.shard().map(str::to_owned),
            reads: hosts.reads(status.id),
            zone: hosts.zone(status.id).map(str::to_owned),
            status,
        })
    });
    records.collect()
}

/// A record of another table that shows a host.
pub(super) trait ShowsHost {
    /// The host; `None` if the database has one that is not monitored.
    fn host(&self) -> Option<&HostStatus>;

    /// The distance of a replica from the primary, in bytes and in time.
    fn lag(&self) -> Lag;
}

/// The columns about the host of a record.
pub(super) const fn host_columns<R: ShowsHost>() -> [ConsoleColumn<R>; 5] {
    [
        ("role", Text, |r| {
            r.host().map(|h| role(h).to_owned()).into()
        }),
        ("timeline", Int8, |r| r.host().and_then(timeline).into()),
        ("lag_bytes", Int8, |r| r.lag().bytes.into()),
        ("lag_ms", Int8, |r| lag_ms(r.lag()).into()),
        ("host_state", Text, |r| match r.host() {
            Some(host) => reason(host).unwrap_or_else(|| "in use".to_owned()).into(),
            None => ConsoleValue::Null,
        }),
    ]
}

/// The reason why a host is not in use, or serves no reads as a replica.
fn reason(status: &HostStatus) -> Option<String> {
    let no_reads = status.reads.as_ref().and_then(|reads| reads.as_ref().err());
    let reason = status.reason.as_ref().or(no_reads);
    reason.map(ToString::to_string)
}

fn timeline(status: &HostStatus) -> Option<u64> {
    status.timeline.map(|timeline| u64::from(timeline.0))
}

fn lag_ms(lag: Lag) -> Option<u64> {
    lag.time.map(milliseconds)
}

fn role(status: &HostStatus) -> &'static str {
    match status.role {
        HostRole::Unknown => "unknown",
        HostRole::Primary => "primary",
        HostRole::RejectedPrimary => "rejected primary",
        HostRole::Replica => "replica",
        HostRole::Subscriber => "subscriber",
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
