//! How many connections there may be, and how they are shared.

use super::key::{Key, Kind};
use std::ops::RangeInclusive;

/// The limits of a pool's size; also those of the overrides per database and user.
pub(in crate::config) const POOL_SIZE: RangeInclusive<usize> = 1..=10_000;

/// How many connections there may be, and how they are shared.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pooling {
    /// Most server connections of one pool, 1 to 10,000.
    pub(crate) default_pool_size: usize,
    /// Most client connections in all, 1 to 1,000,000.
    pub(crate) max_client_conn: usize,
}

impl Default for Pooling {
    fn default() -> Self {
        Self {
            default_pool_size: 20,
            max_client_conn: 10_000,
        }
    }
}

/// The keys of it.
pub(super) static KEYS: &[Key] = &[
    Key {
        name: "default_pool_size",
        meaning: "Most server connections that one pool (a database and a user) opens",
        kind: Kind::Count {
            unit: "connections",
            limits: POOL_SIZE,
            field: |settings| &mut settings.pooling.default_pool_size,
        },
    },
    Key {
        name: "max_client_conn",
        meaning: "Most client connections at a time, all databases together",
        kind: Kind::Count {
            unit: "connections",
            limits: 1..=1_000_000,
            field: |settings| &mut settings.pooling.max_client_conn,
        },
    },
];
