//! The list of clients. The process may have very many, so the page asks for those that it shows.

use crate::snapshot::{JsonRow, number, rows, text};
use paceline_proxy::proxy::Proxy;
use serde::{Deserialize, Serialize};

/// Maximum number of clients in an answer.
const CLIENTS_MAX: usize = 100;

const COLUMNS: [&str; 11] = [
    "id",
    "user",
    "database",
    "state",
    "addr",
    "port",
    "application_name",
    "connect_time",
    "wait",
    "wait_us",
    "server_pid",
];

/// Which clients the page wants: those that contain each text, in any case of letters. An empty text is in every client.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ClientFilter {
    user: String,
    database: String,
    addr: String,
    state: String,
    application_name: String,
}

/// The clients that fit.
#[derive(Debug, Serialize)]
pub(super) struct ClientList {
    /// Number of all clients.
    all: usize,
    /// Number of those that fit.
    found: usize,
    /// The first of them: those that have waited longest, then the busy ones.
    clients: Vec<JsonRow>,
}

impl ClientFilter {
    fn fits(&self, row: &JsonRow) -> bool {
        let wanted = [
            ("user", &self.user),
            ("database", &self.database),
            ("addr", &self.addr),
            ("state", &self.state),
            ("application_name", &self.application_name),
        ];
        wanted.iter().all(|(column, part)| {
            let value = text(row, column).to_lowercase();
            value.contains(&part.trim().to_lowercase())
        })
    }
}

/// The clients that fit, at this moment.
pub(super) fn list(proxy: &Proxy, filter: &ClientFilter) -> ClientList {
    let mut clients = rows(proxy, "clients", &COLUMNS);
    let all = clients.len();
    clients.retain(|row| filter.fits(row));
    let found = clients.len();
    clients.sort_by_key(|row| {
        let wait = (number(row, "wait"), number(row, "wait_us"));
        (std::cmp::Reverse(wait), text(row, "state") == "idle")
    });
    clients.truncate(CLIENTS_MAX);
    ClientList {
        all,
        found,
        clients,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn fits(filter: Value) -> bool {
        let row = json!({"user": "Ann", "database": "shop", "addr": "10.0.0.1", "state": "idle", "application_name": "web <b>"});
        let Value::Object(row) = row else {
            unreachable!()
        };
        serde_json::from_value::<ClientFilter>(filter)
            .unwrap()
            .fits(&row)
    }

    #[test]
    fn a_filter_names_parts_that_all_must_be_found() {
        assert!(fits(json!({})));
        assert!(fits(json!({"user": "ann", "application_name": "<B>"})));
        assert!(fits(json!({"state": " idle "})));
        assert!(!fits(json!({"user": "ann", "database": "stock"})));
        assert!(!fits(json!({"addr": "10.0.0.12"})));
    }
}
