//! Why a statement runs on the coordinator.

use paceline_shards::Reason;
use paceline_sql::keyed::KeyedRefusal;
use std::fmt;

/// Why, in the words of `SHOW GROUPS` and `paceline explain`.
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
    /// The last answer was too long to be kept until it counts.
    TooLong,
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
            Self::TooLong => "its answers are longer than 8 MiB",
        })
    }
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
