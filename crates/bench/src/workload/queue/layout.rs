//! The tables of the queue: how they are made and filled, and which order is which. An `order_id` ends with the order's
//! number in the queue, so that who is told the one knows the other.

use crate::workload::tables::SCHEMA;

/// Shards, or partitions, of a queue that has any.
const SHARDS: u64 = 16;
/// Hexadecimal digits at the end of an `order_id` that are the order's number.
const NUMBER_DIGITS: usize = 12;

/// How the queue is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// One table.
    Single,
    /// One table that autovacuum visits whenever it comes round.
    Vacuumed,
    /// One table with an index that has a part for each shard of the ids.
    Sharded,
    /// A table for each hash of the ids.
    Partitioned,
    /// One table in which orders stay; those that are taken are marked.
    Claimable,
}

impl Layout {
    /// Makes and fills the tables; `seed` decides what the ids of orders look like. Indexes come after the rows, which is
    /// quicker.
    pub(super) fn definition(self, orders: u64, seed: u64) -> String {
        let queue = format!("{SCHEMA}.t_order_q");
        let mut steps = vec![self.table(&queue)];
        steps.extend(self.partitions(|shard| {
            format!(
                "CREATE TABLE {queue}_{shard} PARTITION OF {queue} FOR VALUES WITH (MODULUS {SHARDS}, REMAINDER {shard})"
            )
        }));
        let (order_id, cts) = (order_id("g", seed), cts("g"));
        steps.push(format!(
            "INSERT INTO {queue} (id, order_id, cts) SELECT g, {order_id}, {cts} FROM generate_series(1, {orders}) g"
        ));
        steps.push(format!("SELECT setval('{queue}_id_seq', {orders})"));
        steps.push(format!("ALTER TABLE {queue} ADD PRIMARY KEY (id)"));
        steps.extend(self.indexes(&queue));
        steps.push(format!(
            "CREATE TABLE {SCHEMA}.t_order_u (id bigserial PRIMARY KEY, order_id uuid UNIQUE, \
             cts timestamp NOT NULL, uts timestamp NOT NULL, status int NOT NULL)"
        ));
        steps.join("; ")
    }

    fn table(self, queue: &str) -> String {
        let more = match self {
            Self::Claimable => ", uts timestamp, status int NOT NULL DEFAULT 0",
            _ => "",
        };
        let behind = match self {
            Self::Vacuumed => {
                " WITH (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0, \
                 autovacuum_vacuum_cost_delay = 0)"
            }
            Self::Partitioned => " PARTITION BY HASH (id)",
            _ => "",
        };
        format!(
            "CREATE TABLE {queue} (id bigserial, order_id uuid, cts timestamp NOT NULL{more}){behind}"
        )
    }

    /// All but the primary key.
    fn indexes(self, queue: &str) -> Vec<String> {
        let unique = |table: &str| format!("ALTER TABLE {table} ADD UNIQUE (order_id)");
        match self {
            // A unique key of the whole would have to contain the id, which decides the partition.
            Self::Partitioned => self.partitions(|shard| unique(&format!("{queue}_{shard}"))),
            Self::Sharded => vec![
                unique(queue),
                // Without it each take walks over the orders of shards that are behind.
                format!("CREATE INDEX ON {queue} ((id % {SHARDS}), id)"),
            ],
            Self::Claimable => vec![
                unique(queue),
                format!("CREATE INDEX ON {queue} (id) WHERE status = 0"),
            ],
            Self::Single | Self::Vacuumed => vec![unique(queue)],
        }
    }

    fn partitions(self, step: impl Fn(u64) -> String) -> Vec<String> {
        match self {
            Self::Partitioned => (0..SHARDS).map(step).collect(),
            _ => Vec::new(),
        }
    }

    /// The shard or partition of the consumer with this number.
    pub(super) fn shard(consumer: usize) -> u64 {
        consumer as u64 % SHARDS
    }

    /// The table from which consumers in `shard` take.
    pub(super) fn queue(self, shard: u64) -> String {
        match self {
            Self::Partitioned => format!("{SCHEMA}.t_order_q_{shard}"),
            _ => format!("{SCHEMA}.t_order_q"),
        }
    }

    /// Which of its orders wait for them, if not all do; `$1` is the shard.
    pub(super) fn condition(self) -> Option<String> {
        match self {
            Self::Sharded => Some(format!("id % {SHARDS} = $1")),
            Self::Claimable => Some("status = 0".to_owned()),
            _ => None,
        }
    }

    /// Whether [`Layout::condition`] asks for the shard.
    pub(super) fn is_sharded(self) -> bool {
        self == Self::Sharded
    }

    /// Tells the number of every order that waits; NULL for one that was never put there.
    pub(super) fn waiting(self, seed: u64) -> String {
        let which = match self {
            Self::Claimable => "status = 0",
            _ => "true",
        };
        numbers("t_order_q", which, seed)
    }

    /// Tells the number of every order that was taken; NULL for one that was never in the queue.
    pub(super) fn taken(self, seed: u64) -> String {
        let table = match self {
            Self::Claimable => "t_order_q",
            _ => "t_order_u",
        };
        numbers(table, "status = 1", seed)
    }
}

/// The order's number that is at the end of the text of its `order_id`.
pub(super) fn number_of(order_id: &[u8]) -> Option<u64> {
    let digits = order_id.len().checked_sub(NUMBER_DIGITS)?;
    let digits = std::str::from_utf8(order_id.get(digits..)?).ok()?;
    u64::from_str_radix(digits, 16).ok()
}

/// The `order_id` of the order whose number is `number`: scattered, as those of real orders are, but for its end.
fn order_id(number: &str, seed: u64) -> String {
    let scattered = 32 - NUMBER_DIGITS;
    format!(
        "(left(md5('{seed}:' || {number}), {scattered}) || lpad(to_hex({number}), {NUMBER_DIGITS}, '0'))::uuid"
    )
}

/// When the order whose number is `number` was placed.
fn cts(number: &str) -> String {
    format!("timestamp '2026-01-01' + {number} * interval '1 second'")
}

/// An order counts if all of it is as it was put into the queue.
fn numbers(table: &str, which: &str, seed: u64) -> String {
    let (order_id, cts) = (order_id("n", seed), cts("n"));
    format!(
        "SELECT CASE WHEN order_id = {order_id} AND cts = {cts} THEN n END FROM (SELECT order_id, cts, \
         ('x' || right(order_id::text, {NUMBER_DIGITS}))::bit(48)::bigint AS n FROM {SCHEMA}.{table} WHERE {which}) o"
    )
}
