//! The reads on replicas that a Paceline reports in its console, by `SHOW HOSTS`.

use crate::connection::{Connection, Result};
use crate::target::Target;

/// The database of the console.
const CONSOLE: &str = "paceline";

/// Reads on the hosts of all databases.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct HostReads {
    /// Number of hosts that may serve reads as replicas.
    pub(crate) serving: usize,
    /// Number of reads that replicas have answered since Paceline started.
    pub(crate) answered: u64,
}

/// Asks the Paceline at this address.
pub(crate) async fn reads(paceline: &Target) -> Result<HostReads> {
    let console = Target {
        database: CONSOLE.to_owned(),
        ..paceline.clone()
    };
    let mut conn = Connection::open(&console).await?;
    let (columns, rows) = conn.table("SHOW HOSTS").await?;
    conn.close().await;
    Ok(sum(&columns, &rows))
}

fn sum(columns: &[String], rows: &[Vec<Option<String>>]) -> HostReads {
    let number = |row: &[Option<String>], name: &str| -> u64 {
        let place = columns.iter().position(|column| column == name);
        let text = place.and_then(|place| row.get(place)?.as_deref());
        text.and_then(|text| text.parse().ok()).unwrap_or_default()
    };
    let serving = rows.iter().filter(|row| number(row, "serves_reads") == 1);
    HostReads {
        serving: serving.count(),
        answered: rows.iter().map(|row| number(row, "reads")).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_of_all_hosts_are_added() {
        let columns = ["host", "serves_reads", "reads"].map(str::to_owned);
        let row = |values: [&str; 3]| values.map(|value| Some(value.to_owned())).to_vec();
        let rows = [
            row(["a", "0", "0"]),
            row(["b", "1", "70"]),
            row(["c", "1", "5"]),
        ];
        let reads = HostReads {
            serving: 2,
            answered: 75,
        };
        assert_eq!(sum(&columns, &rows), reads);
        assert_eq!(sum(&[], &rows), HostReads::default());
    }
}
