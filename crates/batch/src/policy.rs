//! The permission of requests to join groups: by the configuration of a database and user, and by the decisions of operators on tables and
//! templates.

/// The grouping that the configuration permits for a database and user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Requests with a hint join groups (`hotspot`).
    pub hotspot: bool,
    /// Requests in autocommit without a hint, too (`hotspot_for_autocommit`).
    pub for_autocommit: bool,
    /// One statement executes a group and locks each row once; otherwise only chains are used (`hotspot_lock_type`).
    pub lock_type: bool,
    /// Plain reads join groups: short ones in pipelines, others with identical reads.
    pub pipeline: bool,
}

/// Whether requests of a template may join groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Permission {
    /// By the policy of the database and user.
    #[default]
    Default,
    /// Writes join groups only with a hint: consumers of logical replication see its table, and would see one change instead of
    /// several.
    Hinted,
    /// Also without a hint, under any value of `hotspot_for_autocommit`.
    Allowed,
    /// Never.
    Denied,
}

impl Permission {
    /// The policy for requests with this permission.
    pub(crate) fn apply(self, policy: Policy) -> Policy {
        match self {
            Self::Default => policy,
            Self::Hinted => Policy {
                for_autocommit: false,
                ..policy
            },
            Self::Allowed => Policy {
                for_autocommit: true,
                ..policy
            },
            Self::Denied => Policy {
                hotspot: false,
                for_autocommit: false,
                pipeline: false,
                ..policy
            },
        }
    }

    /// This permission, or the other one if nothing was decided.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        match self {
            Self::Default => other,
            decided => decided,
        }
    }
}
