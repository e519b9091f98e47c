//! Databases with several servers: which one serves a read, and how long requests wait in a failover.

use super::form::{choice, secret, text, time, timeout, urls};
use super::key::{ALL_TABLES, DATABASES_AND_THEIR_USERS, DATABASES_ONLY, section};
use crate::duration::BareUnit;
use crate::secret::Secret;
use crate::words::words;
use std::time::Duration;

/// The longest time that a read waits for a replica: longer, and the primary is the better choice.
const REPLICA_WAIT_MAX: Duration = Duration::from_secs(60);

words! {
    /// Which server a read may go to.
    pub enum Reads {
        /// The primary.
        Primary = "primary",
        /// A replica that has replayed everything that this client wrote or read.
        Session = "session",
        /// A replica that has replayed everything that any client of this process was told is committed.
        Global = "global",
        /// A replica that is at most `max_lag` behind.
        Any = "any",
    }
}

words! {
    /// What happens to a read for replicas if no replica is in use.
    pub enum ReplicasGone {
        /// The primary serves it.
        Primary = "primary",
        /// The client gets an error.
        Error = "error",
    }
}

section! {
    /// Databases with several servers.
    pub struct Servers {
        /// Which server a read may go to: the primary; a replica that has replayed everything that this client wrote or
        /// read (session), or everything that any client of this process was told is committed (global); or a replica
        /// that is at most max_lag behind (any)
        reads: Reads = Reads::Primary, choice::<Reads>(), overridden(ALL_TABLES);
        /// A replica that is further behind the primary serves no reads; 0 is no limit
        max_lag: Duration = Duration::from_secs(10), timeout(), overridden(DATABASES_AND_THEIR_USERS);
        /// How long a read waits until a replica has replayed what it needs, before it goes to the primary; 0 does not
        /// wait
        replica_wait: Duration = Duration::from_millis(10), time(BareUnit::Milliseconds, REPLICA_WAIT_MAX),
            overridden(DATABASES_AND_THEIR_USERS);
        /// What happens to reads for replicas if no replica is in use: the primary serves them, or clients get an error
        replicas_gone: ReplicasGone = ReplicasGone::Primary, choice::<ReplicasGone>(), overridden(DATABASES_AND_THEIR_USERS);
        /// How long requests wait for a new primary after the old one was lost; 0 does not wait
        failover_timeout: Duration = Duration::from_secs(30), timeout(), overridden(DATABASES_ONLY);
        /// Paceline's own zone: reads prefer replicas of the same zone; "" for none
        zone: String = String::new(), text();
        /// REST APIs of Patroni, which must agree with the choice of the primary; "" for none
        patroni: Vec<String> = Vec::new(), urls(), overridden(DATABASES_ONLY);
        /// The user as which Paceline asks servers for their state, a member of pg_monitor; "" is the user of the URL
        monitor_user: String = String::new(), text(), overridden(DATABASES_ONLY);
        /// The password of monitor_user; "" for none
        monitor_password: Option<Secret> = None, secret(), overridden(DATABASES_ONLY);
    }
}
