//! The NOTIFY that a server executes in place of a client's `LISTEN` or `UNLISTEN` in a transaction.

use paceline_sql::{Listening, quote_literal};

/// A change of a client's channels that takes effect when its transaction commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker {
    /// The change.
    pub listening: Listening,
}

impl Marker {
    /// The NOTIFY. Its number makes it unique, because PostgreSQL drops a notification that equals an earlier one of the
    /// transaction.
    pub fn sql(marker_channel: &str, listening: &Listening, number: u64) -> String {
        let payload = match listening {
            Listening::Listen(channel) => format!("L{number} {channel}"),
            Listening::Unlisten(channel) => format!("U{number} {channel}"),
            Listening::UnlistenAll => format!("*{number} "),
        };
        format!("NOTIFY {marker_channel}, {}", quote_literal(&payload))
    }

    /// A NOTIFY that a server prepares in place of a LISTEN or UNLISTEN. It has the same effect on the transaction, and its
    /// payload is no marker. Before it is executed, Paceline sends a marker with a number.
    pub fn prepared_sql(marker_channel: &str, listening: &Listening) -> String {
        let what = match listening {
            Listening::Listen(channel) => format!("- LISTEN {channel}"),
            Listening::Unlisten(channel) => format!("- UNLISTEN {channel}"),
            Listening::UnlistenAll => "- UNLISTEN *".to_owned(),
        };
        format!("NOTIFY {marker_channel}, {}", quote_literal(&what))
    }

    /// Reads a payload. `None` if it is no marker.
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
