//! The names under which metrics show a pool.

use paceline_batch::template_stats::OTHER;
use prometheus_client::encoding::EncodeLabelSet;

/// Pools that metrics tell apart: the first ones; all others are one.
pub const POOLS_MAX: usize = 100;

/// Bytes of a name that are shown: PostgreSQL's names have no more (NAMEDATALEN - 1), and what clients send has no limit.
pub const NAME_BYTES_MAX: usize = 63;

/// What metrics call a pool.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
pub struct PoolLabels {
    /// As the client names it.
    database: String,
    /// As the client names itself. Empty, as no user's name is: of the pools that are not told apart.
    user: String,
}

impl PoolLabels {
    /// Of the pool before which `earlier` others got theirs.
    pub fn new(earlier: usize, database: &str, user: &str) -> Self {
        let (database, user) = match earlier < POOLS_MAX {
            true => (database, user),
            false => (OTHER, ""),
        };
        Self {
            database: cut(database).to_owned(),
            user: cut(user).to_owned(),
        }
    }

    /// Can no other pool have the same?
    pub fn are_its_own(&self) -> bool {
        let whole = |name: &str| name.len() < NAME_BYTES_MAX;
        !self.user.is_empty() && whole(&self.database) && whole(&self.user)
    }
}

/// As much of a name as is shown.
fn cut(name: &str) -> &str {
    let end = name.floor_char_boundary(NAME_BYTES_MAX);
    name.get(..end).unwrap_or_default()
}
