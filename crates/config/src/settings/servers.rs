//! Databases with several servers: how Paceline finds the primary, how long requests wait in a failover, and which server serves a
//! read. Databases with shards.

use super::form::{choice, file, secret, text, time, timeout, urls, zones};
use super::key::{ALL_TABLES, DATABASES_AND_THEIR_USERS, DATABASES_ONLY, section};
use crate::duration::BareUnit;
use crate::password::PasswordSource;
use crate::secret::Secret;
use crate::words::words;
use std::path::PathBuf;
use std::time::Duration;

/// Maximum of `replica_wait`: after so long the primary is the better choice.
const REPLICA_WAIT_MAX: Duration = Duration::from_secs(60);

/// Maximum of `shard_map_max_age`.
const SHARD_MAP_MAX_AGE_MAX: Duration = Duration::from_secs(3600);

words! {
    /// Which server a read may use.
    pub enum Reads {
        /// The primary.
        Primary = "primary",
        /// A replica that has replayed everything that this client wrote or read.
        Session = "session",
        /// A replica that has replayed everything that was committed when the read arrived.
        Global = "global",
        /// A replica that is at most `max_lag` behind.
        Any = "any",
    }
}

words! {
    /// What happens to reads if no replica may serve them.
    pub enum ReplicasGone {
        /// The primary serves them.
        Primary = "primary",
        /// The client gets an error.
        Error = "error",
    }
}

words! {
    /// Whether statements on one row of a sharded table go to its shard.
    pub enum Shards {
        /// They go to the coordinator, which is PostgreSQL's own way.
        Off = "off",
        /// They go to the shard if Paceline knows that the answer is the same.
        Auto = "auto",
    }
}

section! {
    /// Databases with several servers.
    pub struct Servers {
        /// Which server a read may use: the primary; a replica that has replayed everything that this client wrote or read
        /// (session), or everything that was committed when the read arrived (global); or a replica that is at most max_lag
        /// behind (any)
        reads: Reads = Reads::Primary, choice::<Reads>(), overridden(ALL_TABLES);
        /// A replica that is further behind the primary serves no reads; 0 is no limit
        max_lag: Duration = Duration::from_secs(10), timeout(), overridden(DATABASES_AND_THEIR_USERS);
        /// How long a read waits until a replica has replayed what it needs, before it uses the primary; 0 does not wait
        replica_wait: Duration = Duration::from_millis(20), time(BareUnit::Milliseconds, REPLICA_WAIT_MAX),
            overridden(DATABASES_AND_THEIR_USERS);
        /// What happens to reads for replicas if no replica may serve them: the primary serves them, or clients get an error
        replicas_gone: ReplicasGone = ReplicasGone::Primary, choice::<ReplicasGone>(), overridden(DATABASES_AND_THEIR_USERS);
        /// The zone of this process: replicas of the same zone serve its reads before those of other zones; "" for none
        zone: String = String::new(), text(), overridden(DATABASES_ONLY);
        /// The zone of each host, in the order of the URL; "" for none
        zones: Vec<String> = Vec::new(), zones(), overridden(DATABASES_ONLY);
        /// Whether statements on one row of a partitioned table whose partitions are foreign tables (postgres_fdw) go straight to
        /// the server that has the row (auto)
        shards: Shards = Shards::Off, choice::<Shards>(), overridden(DATABASES_ONLY);
        /// How long the map of shards may be behind the catalog; an older one is not used, and with 0 none
        shard_map_max_age: Duration = Duration::from_secs(5), time(BareUnit::Seconds, SHARD_MAP_MAX_AGE_MAX),
            overridden(DATABASES_ONLY);
        /// How long requests wait for a new primary after the old one was lost; 0 does not wait
        failover_timeout: Duration = Duration::from_secs(30), timeout(), overridden(DATABASES_ONLY);
        /// REST APIs of Patroni, which must agree with the choice of the primary; "" for none
        patroni: Vec<String> = Vec::new(), urls(), overridden(DATABASES_ONLY);
        /// The user as which Paceline asks servers for their state, a member of pg_monitor; "" is the user of the URL
        monitor_user: String = String::new(), text(), overridden(DATABASES_ONLY);
        /// The password of monitor_user; "" for none
        monitor_password: Option<Secret> = None, secret(), overridden(DATABASES_ONLY);
        /// The file that contains the password of monitor_user, and nothing else; "" for none
        monitor_password_file: Option<PathBuf> = None, file(), overridden(DATABASES_ONLY);
    }
}

impl Servers {
    /// Where the password of `monitor_user` comes from.
    #[must_use]
    pub fn monitor_password_source(&self) -> Option<PasswordSource> {
        let file = self.monitor_password_file.clone();
        let written = self.monitor_password.clone();
        file.map(PasswordSource::File)
            .or(written.map(PasswordSource::Written))
    }
}
