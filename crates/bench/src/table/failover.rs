//! The lines of a row whose runs had a failover.

use crate::show;
use crate::summary::{Cell, Row};

/// The errors and losses of clients around the failovers: the heads of the columns, and a line for each target, each with its name. Empty
/// if there was no failover.
pub(super) fn lines(row: &Row) -> Vec<(String, [String; 5])> {
    let label = format!("  {}, around the failover", row.label());
    let columns = ["errors", "pause", "max wait", "missing", "twice"].map(str::to_owned);
    let lines: Vec<_> = row.cells.iter().filter_map(line).collect();
    let heads = (!lines.is_empty()).then_some((label, columns));
    heads.into_iter().chain(lines).collect()
}

fn line(cell: &Cell) -> Option<(String, [String; 5])> {
    let figures = cell.figures.as_ref()?;
    let failover = figures.failover?;
    let columns = [
        show::count(figures.failed_turns()),
        show::duration(failover.pause.median),
        show::duration(failover.longest_wait.median),
        show::count(failover.missing),
        show::count(failover.twice),
    ];
    Some((format!("    {}", cell.target), columns))
}
