//! Samples the sizes of groups during a run by `SHOW GROUPS`, which only Paceline supports.

use crate::connection::{Connection, Failure};
use crate::load::RunStatus;
use crate::record::GroupSample;
use crate::target::Target;
use std::time::Duration;

/// Interval between two samples.
const INTERVAL: Duration = Duration::from_millis(250);

/// Number of grouped units, and of groups, since Paceline started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    units: u64,
    groups: u64,
}

/// Appends a sample every quarter of a second. Never returns.
pub(crate) async fn watch(target: &Target, status: &RunStatus, samples: &mut Vec<GroupSample>) {
    // Other servers return an error; the function does not try again then.
    let _: Result<(), Failure> = look(target, status, samples).await;
    std::future::pending().await
}

async fn look(
    target: &Target,
    status: &RunStatus,
    samples: &mut Vec<GroupSample>,
) -> Result<(), Failure> {
    let mut conn = Connection::open(target).await?;
    let mut before = counts(&mut conn).await?;
    loop {
        tokio::time::sleep(INTERVAL).await;
        let now = counts(&mut conn).await?;
        if let (Some(mean), Some(started)) = (now.mean_since(before), status.started.get()) {
            let second = started.elapsed().as_secs_f64();
            samples.push(GroupSample { second, mean });
        }
        before = now;
    }
}

impl Counts {
    fn mean_since(self, before: Self) -> Option<f64> {
        let units = self.units.checked_sub(before.units)?;
        let groups = self.groups.checked_sub(before.groups)?;
        (groups > 0).then(|| units as f64 / groups as f64)
    }
}

/// The sum over all templates that form groups.
async fn counts(conn: &mut Connection) -> Result<Counts, Failure> {
    let (columns, rows) = conn.table("SHOW GROUPS").await?;
    let column_index = |name| columns.iter().position(|column| column == name);
    let number = |row: &[Option<String>], column_index: Option<usize>| -> Option<u64> {
        row.get(column_index?)?.as_deref()?.parse().ok()
    };
    let (units, groups) = (column_index("units"), column_index("groups"));
    let mut counts = Counts::default();
    for row in &rows {
        if let (Some(units), Some(groups)) = (number(row, units), number(row, groups)) {
            counts.units += units;
            counts.groups += groups;
        }
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_covers_the_interval_only() {
        let counts = |units, groups| Counts { units, groups };
        assert_eq!(counts(130, 12).mean_since(counts(10, 2)), Some(12.0));
        assert_eq!(counts(10, 2).mean_since(counts(10, 2)), None);
        // Paceline was restarted.
        assert_eq!(counts(5, 1).mean_since(counts(10, 2)), None);
    }
}
