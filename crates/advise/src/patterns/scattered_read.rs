//! Reads by a key whose rows are distributed over the table.

use super::numbers::{counted, float, of_sessions};
use super::whole_scan;
use crate::attribution::Share;
use crate::evaluated::{Evaluated, SHARE_MIN};
use crate::finding::{Advice, Apply, Evidence, Finding, Pattern, Severity};
use crate::observation::{IndexFacts, TableChange, TableFacts};
use crate::queries::facts;

/// A scan that returns fewer rows costs little, however they are stored.
const ROWS_PER_SCAN_MIN: f64 = 50.0;

/// Blocks per row from which on rows count as scattered.
const BLOCKS_PER_ROW_MIN: f64 = 0.3;

/// Stored together, a scan must need this many times fewer blocks.
const GAIN_MIN: f64 = 3.0;

/// An index whose order is that of the rows: its scans are not the scattered ones.
const CORRELATED: f64 = 0.8;

/// The findings, and how many samples of reads they explain.
pub(super) fn find(evaluated: &Evaluated<'_>) -> (Vec<Finding>, usize) {
    let changes = evaluated.observation.changes();
    let (mut found, mut explained) = (Vec::new(), 0);
    for change in &changes {
        let reads = evaluated.attribution.reads.iter();
        let reads: Vec<&Share> = reads
            .filter(|share| share.table == Some(change.now.id))
            .collect();
        let samples: usize = reads.iter().map(|share| share.samples).sum();
        let share = evaluated.attribution.part(samples);
        let facts = evaluated.observation.facts_of(change.now.id);
        let (Some(first), Some(facts), true) = (reads.first(), facts, share >= SHARE_MIN) else {
            continue;
        };
        if let Some(scan) = Scan::of(change, facts) {
            explained += samples;
            found.push(finding(evaluated, change, facts, &scan, (first, samples)));
        } else if let Some(whole) = whole_scan::find(evaluated, change, facts, (first, samples)) {
            explained += samples;
            found.push(whole);
        }
    }
    (found, explained)
}

/// The averages of a scan.
struct Scan<'a> {
    rows: f64,
    blocks: f64,
    /// The blocks, if the rows of a key were stored together.
    together: f64,
    index: &'a IndexFacts,
}

impl<'a> Scan<'a> {
    /// `None`: the rows are not scattered, or storing them together would change little.
    fn of(change: &TableChange<'_>, facts: &'a TableFacts) -> Option<Self> {
        let scans = float(change.index_scans);
        let rows = float(change.index_rows) / scans.max(1.0);
        let blocks = float(change.blocks) / scans.max(1.0);
        let per_block = facts.rows / facts.pages.max(1.0);
        let together = rows / per_block.max(1.0) + 1.0;
        let scattered = |index: &&IndexFacts| {
            index
                .correlation
                .is_none_or(|correlation| correlation.abs() < CORRELATED)
        };
        let used = facts.indexes.iter().filter(scattered);
        let index = used.max_by_key(|index| index.scans)?;
        let is_scattered = rows >= ROWS_PER_SCAN_MIN
            && blocks >= BLOCKS_PER_ROW_MIN * rows
            && blocks >= GAIN_MIN * together;
        is_scattered.then_some(Self {
            rows,
            blocks,
            together,
            index,
        })
    }
}

fn finding(
    evaluated: &Evaluated<'_>,
    change: &TableChange<'_>,
    table_facts: &TableFacts,
    scan: &Scan<'_>,
    (first, samples): (&Share, usize),
) -> Finding {
    let table = change.now.qualified.clone();
    let share = evaluated.attribution.part(samples);
    let column = scan.index.columns.first().cloned().flatten();
    let column = column.unwrap_or_else(|| "the key".to_owned());
    let mut evidence = vec![
        of_sessions(evaluated, samples),
        counted(format!(
            "{table}: a scan returns {:.0} rows from {:.0} blocks; {:.0} blocks would hold them",
            scan.rows, scan.blocks, scan.together
        )),
    ];
    let executed = evaluated.executed.get(&first.statement.text);
    evidence.extend(executed.map(|executed| executed.evidence(evaluated.observation.seconds())));
    if let Some(correlation) = scan.index.correlation {
        evidence.push(Evidence {
            fact: format!(
                "the correlation of {column} with the order of the rows is {correlation:.2}"
            ),
            query: facts(&[change.now.id]),
        });
    }
    Finding {
        pattern: Pattern::ScatteredRead,
        severity: Severity::of(share),
        share,
        summary: format!(
            "each read of {:.0} rows of {table} by {column} visits {:.0} blocks",
            scan.rows, scan.blocks
        ),
        table: Some(table.clone()),
        statement: Some(first.statement.text.clone()),
        evidence,
        advice: advice(&table, &column, table_facts, scan),
    }
}

fn advice(table: &str, column: &str, facts: &TableFacts, scan: &Scan<'_>) -> Vec<Advice> {
    let times = scan.blocks / scan.together;
    let megabytes = facts.pages * 8.0 / 1024.0;
    let gain = format!(
        "{:.0} blocks per read instead of {:.0} ({times:.0} times fewer)",
        scan.together, scan.blocks
    );
    let mut advice = vec![
        Advice {
            what: format!(
                "Store the rows in the order of the index {}",
                scan.index.name
            ),
            sql: Some(format!("CLUSTER {table} USING {}", bare(&scan.index.name))),
            configuration: None,
            gain: gain.clone(),
            risk: format!(
                "ACCESS EXCLUSIVE: reads and writes of the table wait while its {megabytes:.0} MB are written again (about {:.0} s at 50 MB/s); needs as much free space. pg_repack does it without blocking. New rows are stored where there is room: repeat it, or partition by time and cluster old partitions",
                (megabytes / 50.0).ceil()
            ),
            undo: format!(
                "The order of rows has no meaning; ALTER TABLE {table} SET WITHOUT CLUSTER forgets the index"
            ),
            apply: Apply::Cluster,
        },
        Advice {
            what: format!("Or read few columns from the index alone: a covering index on {column}"),
            sql: Some(format!(
                "CREATE INDEX CONCURRENTLY ON {table} ({column}) INCLUDE (…)"
            )),
            configuration: None,
            gain:
                "No block of the table is read for rows on pages that vacuum has marked all-visible"
                    .to_owned(),
            risk: format!(
                "Every write maintains it, and updates of its columns are not HOT; useless for SELECT * of {} columns",
                facts.columns
            ),
            undo: "DROP INDEX CONCURRENTLY".to_owned(),
            apply: Apply::No,
        },
    ];
    if facts.pages >= PAGES_OF_PARTITIONS_MIN {
        advice.push(partitions(table, &scan.index.name));
    }
    if scan.index.pages >= PAGES_OF_BRIN_MIN && !scan.index.unique {
        advice.push(brin(table, column, scan.index));
    }
    advice
}

/// Rewriting a table of at least 1 GB blocks it for too long.
const PAGES_OF_PARTITIONS_MIN: f64 = 131_072.0;

fn partitions(table: &str, index: &str) -> Advice {
    Advice {
        what: format!("Or partition {table} by time, and CLUSTER each partition by {} when nothing is added to it any more", bare(index)),
        sql: None,
        configuration: None,
        gain: "Each CLUSTER blocks one partition, which nothing writes, and the order stays".to_owned(),
        risk: "Changes the table: its primary key and unique constraints must contain the time, and queries without a condition on it read all partitions".to_owned(),
        undo: "Detach the partitions, or copy the rows into one table".to_owned(),
        apply: Apply::No,
    }
}

/// A btree of fewer pages costs little.
const PAGES_OF_BRIN_MIN: f64 = 1_000.0;

fn brin(table: &str, column: &str, index: &IndexFacts) -> Advice {
    Advice {
        what: format!("When the rows are in the order of {column}, a BRIN index can replace {}, if queries read ranges of it", index.name),
        sql: Some(format!("CREATE INDEX CONCURRENTLY ON {table} USING brin ({column})")),
        configuration: None,
        gain: format!("A few pages in place of {:.0}: less to write, and to keep in memory", index.pages),
        risk: "Of no use while the rows are scattered; a read of one key then reads 128 blocks (pages_per_range)".to_owned(),
        undo: "DROP INDEX CONCURRENTLY".to_owned(),
        apply: Apply::No,
    }
}

/// The name of an index without its schema, as CLUSTER wants it.
fn bare(name: &str) -> &str {
    let mut quoted = false;
    let dot = name.char_indices().find(|(_, c)| {
        quoted ^= *c == '"';
        *c == '.' && !quoted
    });
    dot.map_or(name, |(at, _)| &name[at + 1..])
}
