//! Samples the sizes of groups during a run by `SHOW GROUPS`, which only Paceline supports.

use crate::connection::{Connection, Result};
use crate::load::RunStatus;
use crate::record::GroupSample;
use crate::target::Target;
use std::time::Duration;

/// Interval between two samples.
const INTERVAL: Duration = Duration::from_millis(250);

/// Number of grouped requests, and of groups, since Paceline started.
type Counts = (u64, u64);

/// Appends a sample every quarter of a second. Returns if the target is no Paceline: other servers return an error.
pub(crate) async fn watch(
    target: &Target,
    status: &RunStatus,
    samples: &mut Vec<GroupSample>,
) -> Result<()> {
    let mut conn = Connection::open(target).await?;
    let mut before = counts(&mut conn).await?;
    loop {
        tokio::time::sleep(INTERVAL).await;
        let now = counts(&mut conn).await?;
        if let (Some(mean), Some(started)) = (mean_since(before, now), status.started.get()) {
            let second = started.elapsed().as_secs_f64();
            samples.push(GroupSample { second, mean });
        }
        before = now;
    }
}

fn mean_since(before: Counts, now: Counts) -> Option<f64> {
    let requests = now.0.checked_sub(before.0)?;
    let groups = now.1.checked_sub(before.1)?;
    (groups > 0).then(|| requests as f64 / groups as f64)
}

/// The sum over all templates that form groups.
async fn counts(conn: &mut Connection) -> Result<Counts> {
    let (columns, rows) = conn.table("SHOW GROUPS").await?;
    let number = |row: &[Option<String>], name: &str| -> Option<u64> {
        let place = columns.iter().position(|column| column == name)?;
        row.get(place)?.as_deref()?.parse().ok()
    };
    let counts = |row: &Vec<_>| Some((number(row, "units")?, number(row, "groups")?));
    let add = |all: Counts, one: Counts| (all.0 + one.0, all.1 + one.1);
    Ok(rows.iter().filter_map(counts).fold((0, 0), add))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_covers_the_interval_only() {
        assert_eq!(mean_since((10, 2), (130, 12)), Some(12.0));
        assert_eq!(mean_since((10, 2), (10, 2)), None);
        // Paceline was restarted.
        assert_eq!(mean_since((10, 2), (5, 1)), None);
    }
}
