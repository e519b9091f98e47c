//! Whether a server connection may serve: what it runs for the operator before (`connect_query` when it is new, `server_check_query`
//! when it has been idle), and what the server has said meanwhile.

use super::{ServerConn, ServerError};
use crate::close_reason;
use bytes::BytesMut;
use paceline_net::optional_timeout;
use paceline_wire::backend::{Status, tag};
use paceline_wire::{frame, frontend};
use std::time::Duration;

/// Settings that the session itself has changed. PostgreSQL shows the role elsewhere than the others.
const CHANGED_SETTINGS: &str = "SELECT name, setting FROM pg_catalog.pg_settings \
     WHERE source OPERATOR(pg_catalog.=) 'session' AND name OPERATOR(pg_catalog.<>) 'idle_session_timeout' \
     UNION ALL SELECT 'role', role FROM pg_catalog.current_setting('role') AS role \
     WHERE role OPERATOR(pg_catalog.<>) 'none'";

impl ServerConn {
    /// Runs `connect_query`, unless it is empty. As in PgBouncer an error of the query is logged, and the connection serves all the
    /// same. Returns the settings that the query has changed.
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
            tracing::warn!("connect_query has left a transaction open, which is rolled back");
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

    /// Runs a query of the operator's, and passes over its rows. Returns the status of the transaction and the error, if there was
    /// one.
    ///
    /// # Errors
    /// The connection is lost; the server's last words, if it has said why.
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

    /// Is it still good? What an idle server says is a changed parameter, a notice, or goodbye.
    pub fn is_alive(&mut self) -> bool {
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

    /// It is about to be closed for this reason, or for another one that was given before.
    pub fn closes_because(&mut self, why: &'static str) {
        if let Some(log) = &mut self.log {
            log.closes_because(why);
        }
    }

    /// It is about to be closed because of this error.
    pub fn failed(&mut self, error: &ServerError) {
        match error {
            ServerError::Io(_) => self.is_lost(),
            ServerError::QueryTimeout => self.closes_because(close_reason::QUERY_TIMEOUT),
            ServerError::Wire(_) | ServerError::Refused(_) | ServerError::Timeout(_) => {
                self.closes_because(close_reason::UNCLEAN);
            }
        }
    }

    /// It is about to be closed in the middle of what a client has begun, because one of both has left.
    pub fn is_left_unfinished(&mut self) {
        match self.stream.read_now(&mut self.input) {
            Ok(_) => self.closes_because(close_reason::CLIENT_LEFT),
            Err(_) => self.is_lost(),
        }
    }

    /// The server or the network has ended it, unless an operator has.
    pub fn is_lost(&mut self) {
        if let Some(log) = &mut self.log {
            log.closes_unless_replaced(close_reason::LOST);
        }
    }

    /// Does the server answer this query within `limit`, and leave no transaction open? Errors are answers, too, unless they end
    /// the connection.
    pub async fn answers(&mut self, query: &str, limit: Duration) -> bool {
        match optional_timeout(limit, self.run(query)).await {
            Some(Ok((Status::Idle, _))) => true,
            Some(Ok(_)) => {
                tracing::info!(
                    "server_check_query has left a transaction open: the connection is closed"
                );
                false
            }
            Some(Err(error)) => {
                tracing::info!(%error, "server_check_query: the connection is closed");
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
