//! Generated tables: key, columns, constraints, partitions and the rows they start with.

use super::values::{Kind, quoted};
use crate::harness::Rng;
use crate::harness::raw::RawClient;

/// Domains that columns may have.
pub(super) const DOMAINS: &str = "
    CREATE DOMAIN positive AS int CHECK (VALUE >= 0);
    CREATE DOMAIN short AS text CONSTRAINT not_long CHECK (length(VALUE) <= 6)";
/// Removes a case's tables.
pub(super) const DROP: &str = "DROP TABLE t, t_start";

const ROWS: usize = 3;
const KEY_KINDS: [Kind; 4] = [Kind::Int4, Kind::Int8, Kind::Text, Kind::Uuid];

/// A column.
#[derive(Debug, Clone)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) kind: Kind,
    not_null: bool,
    check: bool,
}

/// A table named `t`.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) keys: Vec<Column>,
    pub(super) columns: Vec<Column>,
    partitions: &'static [&'static str],
    sum_check: Option<String>,
    rows: Vec<Vec<Option<String>>>,
}

impl Table {
    pub(super) fn generate(rng: &mut Rng) -> Table {
        let keys: Vec<Column> = (0..1 + usize::from(rng.chance(30)))
            .map(|number| Column {
                name: format!("k{number}"),
                kind: *rng.pick(&KEY_KINDS),
                not_null: false,
                check: false,
            })
            .collect();
        let columns: Vec<Column> = (0..2 + rng.below(4))
            .map(|number| {
                let kind = *rng.pick(Kind::ALL);
                Column {
                    name: format!("c{number}"),
                    kind,
                    not_null: rng.chance(25),
                    check: kind.is_number() && rng.chance(40),
                }
            })
            .collect();
        let rows = (0..ROWS)
            .map(|row| initial_row(row, &keys, &columns, rng))
            .collect();
        Table {
            partitions: partitions(&keys[0], rng),
            sum_check: sum_check(&columns, rng),
            keys,
            columns,
            rows,
        }
    }

    /// The text of key column `column` of row `row`; the last rows do not exist.
    pub(super) fn key_text(&self, row: usize, column: usize) -> String {
        self.keys[column].kind.key(row)
    }

    /// The number of keys that units may ask for: every row and some that are missing.
    pub(super) const KEYS: usize = ROWS + 3;

    pub(super) fn sql(&self) -> String {
        let mut parts: Vec<String> = self
            .keys
            .iter()
            .chain(&self.columns)
            .map(definition)
            .collect();
        let keys: Vec<&str> = self.keys.iter().map(|key| key.name.as_str()).collect();
        parts.push(format!("PRIMARY KEY ({})", keys.join(", ")));
        parts.extend(self.sum_check.clone());
        let by = match self.partitions.first() {
            Some(by) => format!(" PARTITION BY {by} (k0)"),
            None => String::new(),
        };
        let mut sql = vec![format!("CREATE TABLE t ({}){by}", parts.join(", "))];
        for (number, bounds) in self.partitions.iter().skip(1).enumerate() {
            sql.push(format!(
                "CREATE TABLE t_{number} PARTITION OF t FOR VALUES {bounds}"
            ));
        }
        sql.extend(self.rows.iter().map(|row| {
            let values: Vec<String> = row.iter().map(|value| quoted(value.as_deref())).collect();
            format!("INSERT INTO t VALUES ({})", values.join(", "))
        }));
        sql.push("CREATE TABLE t_start AS TABLE t".to_owned());
        sql.join(";\n")
    }

    pub(super) fn create(&self, client: &mut RawClient) {
        client.ok(&self.sql());
    }

    /// Restores its first contents. It remains the same table.
    pub(super) fn refill(&self, client: &mut RawClient) {
        client.ok("TRUNCATE t; INSERT INTO t SELECT * FROM t_start");
    }

    /// The same without touching the catalog.
    pub(super) fn reset(&self, client: &mut RawClient) {
        client.ok("DELETE FROM t; INSERT INTO t SELECT * FROM t_start");
    }

    pub(super) fn content(&self, client: &mut RawClient) -> Vec<Vec<Option<String>>> {
        client
            .ok("SELECT tableoid::regclass, * FROM t ORDER BY k0::text, t::text")
            .rows()
    }
}

fn definition(column: &Column) -> String {
    let mut sql = format!("{} {}", column.name, column.kind.sql());
    if column.not_null {
        sql.push_str(" NOT NULL");
    }
    if column.check {
        sql.push_str(&format!(" CHECK ({} >= 0)", column.name));
    }
    sql
}

fn initial_row(
    row: usize,
    keys: &[Column],
    columns: &[Column],
    rng: &mut Rng,
) -> Vec<Option<String>> {
    let keys = keys.iter().map(|key| Some(key.kind.key(row)));
    let values = columns.iter().map(|column| {
        let null = !column.not_null && rng.chance(15);
        (!null).then(|| column.kind.initial(rng))
    });
    keys.chain(values).collect()
}

/// The method of partitioning, then the bounds of each partition; empty if the table is not partitioned.
fn partitions(key: &Column, rng: &mut Rng) -> &'static [&'static str] {
    match rng.below(4) {
        0 => &[
            "HASH",
            "WITH (MODULUS 2, REMAINDER 0)",
            "WITH (MODULUS 2, REMAINDER 1)",
        ],
        1 if key.kind.is_number() => &["RANGE", "FROM (MINVALUE) TO (2)", "FROM (2) TO (MAXVALUE)"],
        _ => &[],
    }
}

/// A constraint over two columns.
fn sum_check(columns: &[Column], rng: &mut Rng) -> Option<String> {
    let numbers: Vec<&str> = columns
        .iter()
        .filter(|column| column.kind.is_number())
        .map(|column| column.name.as_str())
        .collect();
    match numbers.as_slice() {
        [one, other, ..] if rng.chance(40) => Some(format!(
            "CONSTRAINT sum_small CHECK ({one}::numeric + {other}::numeric < 1000)"
        )),
        _ => None,
    }
}
