//! The machine and the server of a measurement. Figures are meaningless without them.

use crate::connection::{Connection, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The settings that determine the cost of a commit and the use of memory.
const SETTINGS: [&str; 12] = [
    "autovacuum",
    "autovacuum_naptime",
    "checkpoint_timeout",
    "fsync",
    "full_page_writes",
    "max_connections",
    "max_wal_size",
    "shared_buffers",
    "synchronous_commit",
    "synchronous_standby_names",
    "wal_level",
    "work_mem",
];

/// The machine that ran the load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Number of logical processors available to this process.
    pub cores: usize,
    /// Model of the processor; empty if unknown.
    pub processor: String,
    /// Main memory in MiB; 0 if unknown.
    pub memory_mib: u64,
    /// Name and release of the operating system.
    pub system: String,
}

impl Machine {
    /// The current machine.
    pub fn this() -> Self {
        let read = |file| std::fs::read_to_string(file).unwrap_or_default();
        let value = |file, name: &str| {
            let text: String = read(file);
            let mut lines = text.lines().filter_map(|line| line.split_once(':'));
            let found = lines.find(|(known, _)| known.trim_end() == name);
            found.map_or_else(String::new, |(_, value)| value.trim().to_owned())
        };
        let memory = value("/proc/meminfo", "MemTotal");
        let kib: Option<u64> = memory.split(' ').next().and_then(|kib| kib.parse().ok());
        let release = read("/proc/sys/kernel/osrelease");
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            processor: value("/proc/cpuinfo", "model name"),
            memory_mib: kib.unwrap_or_default() / 1024,
            system: format!("{} {}", std::env::consts::OS, release.trim()),
        }
    }
}

/// The server behind a target.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerFacts {
    /// `server_version`.
    pub version: String,
    /// Settings that affect performance.
    pub settings: BTreeMap<String, String>,
}

impl ServerFacts {
    /// Queries the server.
    pub(crate) async fn of(conn: &mut Connection) -> Result<Self> {
        let names = SETTINGS.join("', '");
        let sql = format!(
            "SELECT name, current_setting(name) FROM pg_catalog.pg_settings \
             WHERE name IN ('server_version', '{names}')"
        );
        let pair = |row: Vec<Option<String>>| {
            let mut values = row.into_iter().flatten();
            Some((values.next()?, values.next()?))
        };
        let rows = conn.query(&sql).await?.into_iter();
        let mut settings: BTreeMap<String, String> = rows.filter_map(pair).collect();
        Ok(Self {
            version: settings.remove("server_version").unwrap_or_default(),
            settings,
        })
    }
}
