//! The lines of a row whose reads were compared with what their clients know.

use crate::show;
use crate::summary::{Cell, Row};

const UNKNOWN: &str = "–";

/// The heads of the columns, and a line for each target, each with its name: reads, stale ones, the share that replicas
/// answered, the primary's processor time per read, and that in percent of the first target's. Empty if no reads were checked.
pub(super) fn lines(row: &Row) -> Vec<(String, [String; 5])> {
    let label = format!("  {}, reads", row.label());
    let columns = ["reads", "stale", "replicas", "primary CPU", "ratio"].map(str::to_owned);
    let lines: Vec<_> = row
        .cells
        .iter()
        .filter_map(|cell| line(row, cell))
        .collect();
    let heads = (!lines.is_empty()).then_some((label, columns));
    heads.into_iter().chain(lines).collect()
}

fn line(row: &Row, cell: &Cell) -> Option<(String, [String; 5])> {
    let reads = cell.figures.as_ref()?.reads?;
    let is_base = row.cells.first() == Some(cell);
    let percent = |value: f64| format!("{} %", show::fixed(value, 1));
    let or_unknown = |text: Option<String>| text.unwrap_or_else(|| UNKNOWN.to_owned());
    let cpu = reads
        .primary_cpu_micros
        .map(|cpu| show::duration(cpu.median));
    let share = row.primary_cpu_percent(cell).filter(|_| !is_base);
    let columns = [
        show::count(reads.checked),
        show::count(reads.stale),
        or_unknown(reads.on_replicas.map(percent)),
        or_unknown(cpu),
        share.map(percent).unwrap_or_default(),
    ];
    Some((format!("    {}", cell.target), columns))
}
