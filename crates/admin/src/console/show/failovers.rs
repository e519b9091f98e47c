//! `SHOW FAILOVERS`: the losses of promotions, by database.

use super::utc::format_utc;
use crate::console::table::ColumnType::{Int8, Text};
use crate::console::table::{ConsoleColumn, ConsoleTable};
use paceline_pool::hosts::Failover;
use paceline_proxy::proxy::Proxy;
use std::time::SystemTime;

pub(super) static FAILOVERS: ConsoleTable<Failover> =
    ConsoleTable::new("failovers", &[FAILOVER_COLUMNS], failovers);

const FAILOVER_COLUMNS: &[ConsoleColumn<Failover>] = &[
    ("time", Text, |r| {
        let since = r.at.duration_since(SystemTime::UNIX_EPOCH);
        let seconds = since.unwrap_or_default().as_secs();
        format_utc(u32::try_from(seconds).unwrap_or(u32::MAX)).into()
    }),
    ("database", Text, |r| r.database.clone().into()),
    ("host_before", Text, |r| {
        r.host_before.as_ref().map(ToString::to_string).into()
    }),
    ("host", Text, |r| r.host.to_string().into()),
    ("timeline_before", Int8, |r| r.timeline_before.0.into()),
    ("timeline", Int8, |r| r.timeline.0.into()),
    ("switch_point", Text, |r| r.switch_point().into()),
    ("missing_min", Int8, |r| r.missing.at_least.into()),
    ("missing_max", Int8, |r| r.missing.at_most.into()),
];

fn failovers(proxy: &Proxy) -> Vec<Failover> {
    let all = proxy.pools.hosts();
    all.iter()
        .flat_map(|hosts| hosts.last_failovers())
        .collect()
}
