//! `SHOW HOSTS`: the hosts of databases that have several.

use crate::console::table::ColumnType::{Int4, Int8, Text};
use crate::console::table::{ConsoleColumn, ConsoleTable};
use paceline_cluster::{HostRole, HostStatus};
use paceline_proxy::proxy::Proxy;
use std::time::Duration;

pub(super) static HOSTS: ConsoleTable<HostRecord> =
    ConsoleTable::new("hosts", &[HOST_COLUMNS], hosts);

const HOST_COLUMNS: &[ConsoleColumn<HostRecord>] = &[
    ("database", Text, |r| r.database.clone().into()),
    ("host", Text, |r| r.status.spec.address.host.clone().into()),
    ("port", Int4, |r| r.status.spec.address.port.into()),
    ("zone", Text, |r| r.zone.clone().into()),
    ("role", Text, |r| role(r.status.role).into()),
    ("reason", Text, |r| {
        let status = &r.status;
        let no_reads = status.reads.as_ref().and_then(|reads| reads.as_ref().err());
        let reason = status.reason.as_ref().or(no_reads);
        reason.map(ToString::to_string).into()
    }),
    ("timeline", Int8, |r| {
        let timeline = r.status.timeline;
        timeline.map(|timeline| u64::from(timeline.0)).into()
    }),
    ("lag_bytes", Int8, |r| r.status.lag.bytes.into()),
    ("lag_ms", Int8, |r| {
        r.status.lag.time.map(milliseconds).into()
    }),
    ("serves_reads", Int4, |r| {
        u64::from(matches!(r.status.reads, Some(Ok(())))).into()
    }),
    ("reads", Int8, |r| r.reads.into()),
    ("probe_age_ms", Int8, |r| {
        let probed = r.status.observed;
        probed.map(|at| milliseconds(at.elapsed())).into()
    }),
];

/// A host of an entry of the configuration.
pub(super) struct HostRecord {
    /// The name of the entry.
    database: String,
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
            reads: hosts.reads(status.id),
            zone: hosts.zone(status.id).map(str::to_owned),
            status,
        })
    });
    records.collect()
}

fn role(role: HostRole) -> &'static str {
    match role {
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
