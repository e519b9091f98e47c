//! The NOTIFY that a server executes in place of a client's `LISTEN` or `UNLISTEN` in a transaction.

use paceline_sql::{Listening, quote_literal};

/// The channel of markers.
pub const CHANNEL: &str = "paceline_listen";

/// What changes when the transaction commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker {
    /// The change.
    pub listening: Listening,
}

impl Marker {
    /// The statement. PostgreSQL drops a notification that equals an earlier one of its transaction, so texts with different
    /// numbers are different.
    pub fn sql(listening: &Listening, number: u64) -> String {
        let payload = match listening {
            Listening::Listen(channel) => format!("L{number} {channel}"),
            Listening::Unlisten(channel) => format!("U{number} {channel}"),
            Listening::UnlistenAll => format!("*{number} "),
        };
        format!("NOTIFY {CHANNEL}, {}", quote_literal(&payload))
    }

    /// Reads a payload. `None`: it is no marker.
    pub fn read(payload: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(payload).ok()?;
        let (head, channel) = text.split_once(' ')?;
        let listening = match head.get(..1)? {
            "L" => Listening::Listen(channel.to_owned()),
            "U" => Listening::Unlisten(channel.to_owned()),
            "*" => Listening::UnlistenAll,
            _ => return None,
        };
        Some(Self { listening })
    }
}
