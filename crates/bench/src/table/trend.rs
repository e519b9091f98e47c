//! The lines of a row whose units cost more or less the longer a run lasts.

use crate::show;
use crate::summary::{Cell, Row, Spread};

const UNKNOWN: &str = "–";

/// The heads of the columns, and a line for each target, each with its name: units per second and the 99th percentile of the
/// latency, in the first and in the last tenth of the time, and the ratio of the two percentiles. Empty if these were not
/// recorded.
pub(super) fn lines(row: &Row) -> Vec<(String, [String; 5])> {
    let label = format!("  {}, first and last tenth", row.label());
    let columns = ["first/s", "last/s", "first p99", "last p99", "ratio"].map(str::to_owned);
    let lines: Vec<_> = row.cells.iter().filter_map(line).collect();
    let heads = (!lines.is_empty()).then_some((label, columns));
    heads.into_iter().chain(lines).collect()
}

fn line(cell: &Cell) -> Option<(String, [String; 5])> {
    let [first, last] = cell.figures.as_ref()?.trend?;
    let or_unknown = |text: Option<String>| text.unwrap_or_else(|| UNKNOWN.to_owned());
    let duration = |p99: Option<Spread>| p99.map(|p99| show::duration(p99.median));
    let ratio = last.p99.zip(first.p99);
    let columns = [
        show::number(first.rate.median),
        show::number(last.rate.median),
        or_unknown(duration(first.p99)),
        or_unknown(duration(last.p99)),
        or_unknown(ratio.map(|(last, first)| show::times(last.median / first.median))),
    ];
    Some((format!("    {}", cell.target), columns))
}
