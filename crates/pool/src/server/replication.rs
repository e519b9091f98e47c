//! Opens the server connection of a replication client. No query is run on it: a physical replication connection accepts none. It is
//! not compressed: its exchanges have no ends.

use super::credential::with_credential;
use super::{ServerConn, ServerError, ServerInfo};
use crate::address::Address;
use crate::credentials::{LoginCredential, ServerCredentials};
use crate::replication::Replication;
use paceline_net::optional_timeout;
use paceline_relay::settings::SessionSettings;
use std::sync::Arc;
use std::time::Duration;

impl ServerConn {
    /// Opens a connection for one replication client, with these startup parameters. Waits at most `limit`
    /// for the password, and then for the connection; zero means no limit.
    pub(crate) async fn open_for_replication(
        limit: Duration,
        address: &Arc<Address>,
        credentials: &ServerCredentials,
        none: Arc<SessionSettings>,
        kind: Replication,
        parameters: &[(String, String)],
    ) -> Result<Self, ServerError> {
        let parameters: Vec<(&str, &str)> = parameters
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let address = Arc::new(Address {
            compression: None,
            ..Address::clone(address)
        });
        let (address, parameters) = (&address, &parameters);
        let open = |credential: LoginCredential| {
            let none = Arc::clone(&none);
            async move {
                let opening = Self::open(address, &credential, none, 0, parameters);
                let opened = optional_timeout(limit, opening).await;
                opened.unwrap_or(Err(ServerError::Timeout(limit)))
            }
        };
        let mut conn = with_credential(credentials, limit, open).await?;
        conn.info = ServerInfo::new(&conn.stream, conn.key.process, Some(kind));
        Ok(conn)
    }
}

/// SQLSTATE while the server starts, shuts down, or recovers.
const CANNOT_CONNECT_NOW: &str = "57P03";

impl ServerError {
    /// Whether a later attempt may succeed without any change: the server is unreachable, starts, shuts down, or waits for its promotion.
    pub(crate) fn is_absence(&self) -> bool {
        match self {
            Self::Refused(_) => self.sqlstate() == Some(CANNOT_CONNECT_NOW),
            Self::Io(_) | Self::Timeout(_) => !self.is_final(),
            Self::Password(_) | Self::Standby | Self::Replaced => true,
            Self::Wire(_) | Self::QueryTimeout | Self::OtherSystem => false,
        }
    }
}
