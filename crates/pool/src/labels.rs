//! The names under which metrics show a pool.

use paceline_batch::template_stats::OTHER;
use prometheus_client::encoding::EncodeLabelSet;

/// Maximum number of pools with labels of their own in metrics: the first ones. All others share one set of labels.
pub const POOLS_MAX: usize = 100;

/// Maximum number of bytes of a name in a label: PostgreSQL's names have no more (NAMEDATALEN - 1), and the names that clients
/// send have no limit.
pub const NAME_BYTES_MAX: usize = 63;

/// The labels of a pool in metrics.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
pub struct PoolLabels {
    /// The database that the client names.
    database: String,
    /// The user that the client names. Empty, which no user's name is, for pools that share their labels.
    user: String,
}

impl PoolLabels {
    /// The labels of a pool, given the number of pools that have labels.
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

    /// Whether no other pool can have the same labels.
    pub(crate) fn are_its_own(&self) -> bool {
        let whole = |name: &str| name.len() < NAME_BYTES_MAX;
        !self.user.is_empty() && whole(&self.database) && whole(&self.user)
    }
}

/// The part of a name that labels show.
fn cut(name: &str) -> &str {
    let end = name.floor_char_boundary(NAME_BYTES_MAX);
    name.get(..end).unwrap_or_default()
}
