//! Replication connections (PostgreSQL documentation, chapter "Streaming Replication Protocol"): the startup packets of clients
//! and of their server connections. `client/replication.rs` relays them, `pool/replication.rs` limits their number.

use paceline_config::State;
use paceline_wire::ErrorResponse;
use paceline_wire::startup::Startup;

const PARAMETER: &str = "replication";

/// The kind of a replication connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replication {
    /// Replicates the whole server; has no database and accepts no SQL.
    Physical,
    /// Replicates one database.
    Logical,
}

impl Replication {
    /// The kind in a startup packet; `None` for an ordinary connection.
    ///
    /// # Errors
    /// If the value is neither `database` nor a boolean.
    pub fn of(startup: &Startup) -> Result<Option<Self>, ErrorResponse> {
        let Some(value) = startup.get(PARAMETER) else {
            return Ok(None);
        };
        if value == "database" {
            return Ok(Some(Self::Logical));
        }
        match read_bool(value) {
            Some(asked) => Ok(asked.then_some(Self::Physical)),
            None => {
                let message = format!("invalid value for parameter \"{PARAMETER}\": \"{value}\"");
                let hint = "Valid values are: \"false\", 0, \"true\", 1, \"database\".";
                Err(ErrorResponse::fatal("22023", message).with_hint(hint))
            }
        }
    }

    /// The name in `SHOW CLIENTS`.
    pub fn name(kind: Option<Self>) -> &'static str {
        match kind {
            None => "none",
            Some(Self::Physical) => "physical",
            Some(Self::Logical) => "logical",
        }
    }

    /// The startup parameters of the server connection, without user and database: those of the client that the configuration
    /// does not ignore. `options` are passed on unchanged, since no other client gets the connection.
    pub fn parameters(self, startup: &Startup, state: &State) -> Vec<(String, String)> {
        const OWN: [&str; 3] = ["user", "database", PARAMETER];
        let value = match self {
            Self::Physical => "true",
            Self::Logical => "database",
        };
        let passes = |name: &str| {
            let ignored = name != "options" && state.ignores(&name.to_ascii_lowercase());
            !OWN.contains(&name) && !name.starts_with("_pq_.") && !ignored
        };
        let sent = startup.parameters.iter();
        let sent = sent.filter(|(name, _)| passes(name)).cloned();
        let own = (PARAMETER.to_owned(), value.to_owned());
        std::iter::once(own).chain(sent).collect()
    }
}

/// Reads a boolean as PostgreSQL's `parse_bool` does: a word or any unambiguous prefix of it.
fn read_bool(value: &str) -> Option<bool> {
    let value = value.to_ascii_lowercase();
    let begins = |word: &str, at_least: usize| value.len() >= at_least && word.starts_with(&value);
    let is_true = begins("true", 1) || begins("yes", 1) || begins("on", 2) || value == "1";
    let is_false = begins("false", 1) || begins("no", 1) || begins("off", 2) || value == "0";
    (is_true || is_false).then_some(is_true)
}
