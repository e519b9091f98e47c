//! The tables of the queue: their definition and contents. An `order_id` ends with the number of the order in the queue,
//! so that the verifier can map one to the other.

use crate::workload::tables::SCHEMA;

/// Number of shards or partitions.
const SHARDS: u64 = 16;
/// Number of hexadecimal digits at the end of an `order_id` that hold the number of the order.
const NUMBER_DIGITS: usize = 12;

/// The layout of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// One table.
    Single,
    /// One table with aggressive autovacuum settings.
    Vacuumed,
    /// One table with an index on the shard of the id.
    Sharded,
    /// A table partitioned by a hash of the id.
    Partitioned,
    /// One table from which orders are not deleted; those that were taken are marked.
    Claimable,
}

impl Layout {
    /// The statements that create and fill the tables; `seed` determines the ids of orders. Indexes are created after the
    /// rows, which is faster.
    pub(super) fn definition(self, orders: u64, seed: u64) -> String {
        let queue = format!("{SCHEMA}.t_order_q");
        let (order_id, cts) = (order_id("g", seed), cts("g"));
        let (more, behind, index) = match self {
            Self::Single => ("", "", String::new()),
            Self::Vacuumed => (
                "",
                " WITH (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0, \
                 autovacuum_vacuum_cost_delay = 0)",
                String::new(),
            ),
            // Without this index each take reads the orders of all other shards.
            Self::Sharded => (
                "",
                "",
                format!("CREATE INDEX ON {queue} ((id % {SHARDS}), id); "),
            ),
            Self::Partitioned => ("", " PARTITION BY HASH (id)", String::new()),
            Self::Claimable => (
                ", uts timestamp, status int NOT NULL DEFAULT 0",
                "",
                format!("CREATE INDEX ON {queue} (id) WHERE status = 0; "),
            ),
        };
        let unique = |table: &str| format!("ALTER TABLE {table} ADD UNIQUE (order_id); ");
        let (mut partitions, mut constraints) = (String::new(), unique(&queue));
        if self == Self::Partitioned {
            partitions.extend((0..SHARDS).map(|shard| {
                format!("CREATE TABLE {queue}_{shard} PARTITION OF {queue} FOR VALUES WITH (MODULUS {SHARDS}, REMAINDER {shard}); ")
            }));
            // A unique constraint on the partitioned table would have to include the id, which is the partition key.
            constraints = (0..SHARDS)
                .map(|shard| unique(&format!("{queue}_{shard}")))
                .collect();
        }
        format!(
            "CREATE TABLE {queue} (id bigserial, order_id uuid, cts timestamp NOT NULL{more}){behind}; {partitions}\
             INSERT INTO {queue} (id, order_id, cts) SELECT g, {order_id}, {cts} FROM generate_series(1, {orders}) g; \
             SELECT setval('{queue}_id_seq', {orders}); ALTER TABLE {queue} ADD PRIMARY KEY (id); {constraints}{index}\
             CREATE TABLE {SCHEMA}.t_order_u (id bigserial PRIMARY KEY, order_id uuid UNIQUE, \
             cts timestamp NOT NULL, uts timestamp NOT NULL, status int NOT NULL)"
        )
    }

    /// Number of shards or partitions; consumers are divided among them.
    pub(super) fn shards(self) -> u64 {
        match self {
            Self::Sharded | Self::Partitioned => SHARDS,
            _ => 1,
        }
    }

    /// The table from which consumers of `shard` take orders.
    pub(super) fn queue(self, shard: u64) -> String {
        match self {
            Self::Partitioned => format!("{SCHEMA}.t_order_q_{shard}"),
            _ => format!("{SCHEMA}.t_order_q"),
        }
    }

    /// The condition on orders that wait for these consumers, if there is one; `$1` is the shard.
    pub(super) fn condition(self) -> Option<String> {
        match self {
            Self::Sharded => Some(format!("id % {SHARDS} = $1")),
            Self::Claimable => Some("status = 0".to_owned()),
            _ => None,
        }
    }

    /// A query for the number of every order that waits; NULL for one that was not inserted at the beginning.
    pub(super) fn waiting(self, seed: u64) -> String {
        let which = match self {
            Self::Claimable => "status = 0",
            _ => "true",
        };
        numbers("t_order_q", which, seed)
    }

    /// A query for the number of every order that was taken; NULL for one that was not inserted at the beginning.
    pub(super) fn taken(self, seed: u64) -> String {
        let table = match self {
            Self::Claimable => "t_order_q",
            _ => "t_order_u",
        };
        numbers(table, "status = 1", seed)
    }
}

/// The number at the end of an `order_id` in text format.
pub(super) fn number_of(order_id: &[u8]) -> Option<u64> {
    let digits = order_id.len().checked_sub(NUMBER_DIGITS)?;
    let digits = std::str::from_utf8(order_id.get(digits..)?).ok()?;
    u64::from_str_radix(digits, 16).ok()
}

/// An SQL expression for the `order_id` of the order `number`: a hash, as random as real ids, except for its end.
fn order_id(number: &str, seed: u64) -> String {
    let scattered = 32 - NUMBER_DIGITS;
    format!(
        "(left(md5('{seed}:' || {number}), {scattered}) || lpad(to_hex({number}), {NUMBER_DIGITS}, '0'))::uuid"
    )
}

/// An SQL expression for the time of the order `number`.
fn cts(number: &str) -> String {
    format!("timestamp '2026-01-01' + {number} * interval '1 second'")
}

/// Returns the number of an order only if all its columns are unchanged.
fn numbers(table: &str, which: &str, seed: u64) -> String {
    let (order_id, cts) = (order_id("n", seed), cts("n"));
    format!(
        "SELECT CASE WHEN order_id = {order_id} AND cts = {cts} THEN n END FROM (SELECT order_id, cts, \
         ('x' || right(order_id::text, {NUMBER_DIGITS}))::bit(48)::bigint AS n FROM {SCHEMA}.{table} WHERE {which}) o"
    )
}
