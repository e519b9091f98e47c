//! The reasons why a statement runs on the coordinator.

use paceline_relay::settings::SessionSettings;
use paceline_shards::{LeafProblem, Reason, ServerProblem};
use paceline_sql::keyed::KeyedRefusal;
use std::fmt;

/// The settings that give a statement in autocommit its isolation level.
const ISOLATION: [&str; 2] = ["default_transaction_isolation", "transaction_isolation"];

/// The reason, in the words of `SHOW GROUPS` and `paceline explain`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteRefusal {
    /// The form of its text.
    Form(KeyedRefusal),
    /// The monitor has no map, or no login for the client's role.
    NoMap,
    /// The map has no table of this name.
    NotSharded,
    /// The table, the values of the key, or the client's role.
    Map(Reason),
    /// It uses what users have defined, what depends on the server, or a name that the search path finds elsewhere.
    NotPortable,
    /// It changes a column of the partition key.
    MovesRow,
    /// The rows of an INSERT are of several partitions.
    SeveralPartitions,
    /// A name behind that of the table is no column of it.
    NoColumn(String),
    /// The coordinator decides about the value of a column: an identity, a sequence, or another default.
    Default(String),
    /// ON CONFLICT names a key that not all shards have, or that does not contain the partition key.
    NoKey,
    /// It demands a number of rows by a hint.
    Target,
    /// The client has another role than that of its login.
    Identity,
    /// The client's texts are not in UTF-8, so that the names in them are not known.
    Encoding,
    /// In another isolation level than READ COMMITTED, the comparison behind the statement would see the catalog as it was before.
    Isolation,
    /// A simple query has a parameter, which PostgreSQL rejects.
    Parameter,
    /// The meaning of the text depends on settings or on the time of its analysis, so that the name in it cannot be replaced.
    Text,
    /// The last answer was too long to be kept until it counts.
    TooLong,
}

impl RouteRefusal {
    /// Whether the shard of the statement cannot be reached.
    pub fn is_outage(&self) -> bool {
        let Self::Map(Reason::Leaf { problem, .. }) = self else {
            return false;
        };
        matches!(
            **problem,
            LeafProblem::Server {
                problem: ServerProblem::Unreachable(_),
                ..
            }
        )
    }
}

impl fmt::Display for RouteRefusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Form(why) => return why.fmt(out),
            Self::Map(why) => return why.fmt(out),
            Self::NoColumn(name) => return write!(out, "the table has no column {name}"),
            Self::Default(name) => {
                return write!(out, "the coordinator decides about the value of column {name}");
            }
            Self::NoMap => "the map of the shards is not known",
            Self::NotSharded => "it names no sharded table",
            Self::NotPortable => {
                "it uses what is not PostgreSQL's own, what differs between servers, or a name in another schema"
            }
            Self::MovesRow => "it changes a column of the partition key",
            Self::SeveralPartitions => "its rows are of several partitions",
            Self::NoKey => "not all shards have the unique key of ON CONFLICT with the partition key in it",
            Self::Target => "its hint demands a number of rows",
            Self::Identity => "SET ROLE or SET SESSION AUTHORIZATION",
            Self::Encoding => "client_encoding is not UTF8",
            Self::Isolation => "the isolation level is not read committed",
            Self::Parameter => "it is a simple query with a parameter",
            Self::Text => "the meaning of its text depends on settings or on the time of its analysis",
            Self::TooLong => "its answers are longer than 8 MiB",
        })
    }
}

/// The reason why no statement under these settings runs on a shard.
pub(super) fn of_settings(settings: &SessionSettings) -> Option<RouteRefusal> {
    if settings.change_identity() {
        return Some(RouteRefusal::Identity);
    }
    if !settings.is_utf8() {
        return Some(RouteRefusal::Encoding);
    }
    let isolation = ISOLATION.iter().filter_map(|name| settings.sql_of(name));
    let mut others = isolation.filter(|sql| !sql.to_ascii_lowercase().contains("read committed"));
    others.next().map(|_| RouteRefusal::Isolation)
}

impl From<KeyedRefusal> for RouteRefusal {
    fn from(why: KeyedRefusal) -> Self {
        Self::Form(why)
    }
}

impl From<Reason> for RouteRefusal {
    fn from(why: Reason) -> Self {
        Self::Map(why)
    }
}
