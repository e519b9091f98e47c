//! Whether a server connection may serve: runs the operator's queries (`connect_query` on a new connection, `server_check_query`
//! after an idle time), and reads what an idle server has sent.

use super::{ServerConn, ServerError};
use crate::close_reason;
use bytes::BytesMut;
use paceline_net::optional_timeout;
use paceline_wire::backend::{Status, tag};
use paceline_wire::{frame, frontend};
use std::time::Duration;

/// Settings that the session has changed. PostgreSQL shows the role elsewhere.
const CHANGED_SETTINGS: &str = "SELECT name, setting FROM pg_catalog.pg_settings \
     WHERE source OPERATOR(pg_catalog.=) 'session' AND name OPERATOR(pg_catalog.<>) 'idle_session_timeout' \
     UNION ALL SELECT 'role', role FROM pg_catalog.current_setting('role') AS role \
     WHERE role OPERATOR(pg_catalog.<>) 'none'";

impl ServerConn {
    /// Runs `connect_query`, unless it is empty. As in PgBouncer, an error of the query is logged and the connection is used all
    /// the same. Returns the settings that the query has changed.
    ///
    /// # Errors
    /// The connection is lost.
    pub(super) async fn run_connect_query(
        &mut self,
        query: &str,
    ) -> Result<Vec<(String, String)>, ServerError> {
        if query.is_empty() {
            return Ok(Vec::new());
        }
        let (status, error) = self.run(query).await?;
        if let Some(error) = error {
            tracing::warn!(%error, "error while executing connect_query");
        }
        if status != Status::Idle {
            tracing::warn!("connect_query left a transaction open; it is rolled back");
            self.query("ROLLBACK").await?;
        }
        let changed = match self.query(CHANGED_SETTINGS).await {
            Ok(changed) => changed,
            // A server that is not PostgreSQL may not have the table.
            Err(ServerError::Refused(_)) => Vec::new(),
            Err(error) => return Err(error),
        };
        let pair = |row: Vec<Option<String>>| {
            let mut values = row.into_iter().flatten();
            Some((values.next()?, values.next()?))
        };
        Ok(changed.into_iter().flatten().filter_map(pair).collect())
    }

    /// Runs a query of the operator and ignores its rows. Returns the transaction status, and the error if there was one.
    ///
    /// # Errors
    /// The connection is lost; the server's last error, if it sent one.
    async fn run(&mut self, query: &str) -> Result<(Status, Option<ServerError>), ServerError> {
        let mut out = BytesMut::new();
        frontend::write_query(&mut out, query);
        self.side.unnamed = None;
        self.stream.write_all(&mut out).await?;
        let mut refused = None;
        loop {
            let (kind, message) = match self.message().await {
                Ok(message) => message,
                Err(error) => return Err(refused.unwrap_or(error)),
            };
            match kind {
                tag::ERROR_RESPONSE => refused = Some(ServerError::Refused(message)),
                tag::READY_FOR_QUERY => {
                    let body = message.get(frame::HEADER_LEN..).unwrap_or_default();
                    return Ok((Status::read(body)?, refused));
                }
                _ => {}
            }
        }
    }

    /// Whether an idle connection is usable. Reads what the server has sent: changed parameters and notices are expected,
    /// anything else means that the connection ends.
    pub(crate) fn is_alive(&mut self) -> bool {
        match self.stream.read_now(&mut self.input) {
            Ok(false) => true,
            Ok(true) => loop {
                match frame::split_message(&mut self.input) {
                    Ok(Some((tag::PARAMETER_STATUS, message))) => self.note_parameter(&message),
                    Ok(Some((tag::NOTICE_RESPONSE | tag::NOTIFICATION_RESPONSE, _))) => {}
                    Ok(None) => return self.input.is_empty(),
                    _ => return false,
                }
            },
            Err(_) => false,
        }
    }

    /// Sets why the connection is about to be closed, unless a reason is set already.
    pub fn closes_because(&mut self, why: &'static str) {
        if let Some(log) = &mut self.log {
            log.closes_because(why);
        }
    }

    /// Sets this error as the reason why the connection is about to be closed.
    pub fn failed(&mut self, error: &ServerError) {
        match error {
            ServerError::Io(_) => self.mark_lost(),
            ServerError::QueryTimeout => self.closes_because(close_reason::QUERY_TIMEOUT),
            ServerError::Wire(_)
            | ServerError::Password(_)
            | ServerError::Refused(_)
            | ServerError::Timeout(_)
            | ServerError::Standby
            | ServerError::OtherSystem
            | ServerError::Replaced => {
                self.closes_because(close_reason::UNCLEAN);
            }
        }
    }

    /// Sets the reason for closing the connection in the middle of a client's work: the client or the server has left.
    pub(crate) fn mark_unfinished(&mut self) {
        match self.stream.read_now(&mut self.input) {
            Ok(_) => self.closes_because(close_reason::CLIENT_LEFT),
            Err(_) => self.mark_lost(),
        }
    }

    /// Sets as the reason that the server or the network closed the connection, unless the pool replaces it.
    pub fn mark_lost(&mut self) {
        if let Some(log) = &mut self.log {
            log.closes_unless_replaced(close_reason::LOST);
        }
    }

    /// Whether the server answers this query within `limit` and no transaction is left open. An error is an answer, unless it
    /// ends the connection.
    pub async fn answers(&mut self, query: &str, limit: Duration) -> bool {
        match optional_timeout(limit, self.run(query)).await {
            Some(Ok((Status::Idle, _))) => true,
            Some(Ok(_)) => {
                tracing::info!(
                    "server_check_query left a transaction open; the connection is closed"
                );
                false
            }
            Some(Err(error)) => {
                tracing::info!(%error, "server_check_query failed; the connection is closed");
                false
            }
            None => {
                tracing::info!(
                    ?limit,
                    "server_check_query: no answer, the connection is closed"
                );
                false
            }
        }
    }
}
