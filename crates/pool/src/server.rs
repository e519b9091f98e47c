//! A connection to PostgreSQL: login, settings, and the simple exchanges that Paceline itself needs.

mod backend_key;
mod dial;
mod error;
mod generation;
mod info;
mod list;
mod log;
mod readiness;
mod replication;

pub use backend_key::{BackendKey, abandon, deliver};
pub use dial::{connect, dial};
pub use error::ServerError;
pub(crate) use generation::{Generation, GenerationGuard};
pub use info::ServerInfo;
pub(crate) use list::ServerList;
pub use list::ServerSnapshot;
pub(crate) use log::ServerLog;

use crate::address::Address;
use crate::close_reason;
use crate::credentials::{ServerCredentials, random};
use crate::quota::ServerSlot;
use bytes::{Bytes, BytesMut};
use paceline_net::Stream;
use paceline_net::optional_timeout;
use paceline_relay::sequences::{SequenceState, SequenceToken};
use paceline_relay::server::ServerSide;
use paceline_relay::settings::{SessionSettings, read_milliseconds};
use paceline_sql::IDLE_SESSION_TIMEOUT;
use paceline_wire::auth::{Login, Progress};
use paceline_wire::backend::{self, Field, tag};
use paceline_wire::startup::Startup;
use paceline_wire::{WireError, frame, frontend};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A connection to PostgreSQL that is logged in.
#[derive(Debug)]
pub struct ServerConn {
    /// The socket.
    pub stream: Stream,
    /// The session state of the connection, as far as it is known.
    pub side: ServerSide,
    /// Bytes that were received and not read.
    pub input: BytesMut,
    /// Identifies the backend in cancel requests.
    pub key: BackendKey,
    /// The generation of the pool's connection; `None` outside of pools.
    pub(crate) generation: Option<GenerationGuard>,
    /// When the connection last served a request.
    pub(crate) idle_since: Instant,
    /// When the connection last answered `server_check_query`.
    pub(crate) checked: Option<Instant>,
    /// When the connection was opened.
    pub(crate) opened: Instant,
    /// The slot in the limits of its database and user.
    pub(crate) slot: Option<ServerSlot>,
    /// What the console shows of the connection.
    pub info: Arc<ServerInfo>,
    /// Logs the end of a pool's connection.
    pub(crate) log: Option<ServerLog>,
}

/// PostgreSQL's description of a statement.
#[derive(Debug, Default)]
pub struct Description {
    /// OIDs of its parameters.
    pub parameters: Vec<u32>,
    /// Columns of its result.
    pub fields: Vec<Field>,
    /// Whether PostgreSQL raised a NOTICE or WARNING when it parsed the statement.
    pub warned: bool,
}

/// Rows of one result, as text.
pub type ResultRows = Vec<Vec<Option<String>>>;

impl ServerConn {
    /// Connects and logs in. If `pg_hba.conf` rejects the user with TLS, or without, and `sslmode` allows both, tries the other
    /// way, too.
    async fn open(
        address: &Arc<Address>,
        credentials: &ServerCredentials,
        none: Arc<SessionSettings>,
        prepared_max: usize,
        more: &[(&str, &str)],
    ) -> Result<Self, ServerError> {
        let stream = connect(address).await?;
        let encrypted = stream.is_encrypted();
        let fresh = |stream| Self::new(stream, address, &none, prepared_max);
        match fresh(stream).logged_in(address, credentials, more).await {
            Err(refusal) if refusal.is_of_authorization() => {
                match address.connect_otherwise(encrypted).await {
                    Some(stream) => fresh(stream).logged_in(address, credentials, more).await,
                    None => Err(refusal),
                }
            }
            other => other,
        }
    }

    /// Opens a connection that the server does not close for being idle: a default of `idle_session_timeout` (PostgreSQL 14 and
    /// later) is overridden and remembered, because it applies to clients. Settings that `connect_query` changes become defaults
    /// of the session, to which RESET and DISCARD ALL return.
    async fn open_for_pool(
        address: &Arc<Address>,
        credentials: &ServerCredentials,
        none: Arc<SessionSettings>,
        prepared_max: usize,
    ) -> Result<Self, ServerError> {
        const OFF: [(&str, &str); 1] = [(IDLE_SESSION_TIMEOUT, "0")];
        let query = &address.connect_query;
        let open = |more| Self::open(address, credentials, Arc::clone(&none), prepared_max, more);
        let mut conn = open(&[]).await?;
        let default = conn.idle_default().await?;
        let off: &[(&str, &str)] = if default.is_zero() { &[] } else { &OFF };
        let sets = conn.run_connect_query(query).await?;
        if off.is_empty() && sets.is_empty() {
            return Ok(conn);
        }
        conn.terminate();
        let sets = sets.iter().map(|(name, value)| (&**name, &**value));
        let more: Vec<(&str, &str)> = off.iter().copied().chain(sets).collect();
        let mut conn = match open(&more).await {
            // Some settings that a statement may change are not accepted in a startup packet.
            Err(ServerError::Refused(_)) if more.len() > off.len() => open(off).await?,
            other => other?,
        };
        conn.side.idle_default = default;
        conn.run_connect_query(query).await?;
        Ok(conn)
    }

    /// The server's default of `idle_session_timeout`; zero means none.
    async fn idle_default(&mut self) -> Result<Duration, ServerError> {
        let question = format!("SELECT pg_catalog.current_setting('{IDLE_SESSION_TIMEOUT}', true)");
        let answer = match self.query(&question).await {
            Ok(answer) => answer,
            // A server that is not PostgreSQL may not know the setting.
            Err(ServerError::Refused(_)) => return Ok(Duration::ZERO),
            Err(error) => return Err(error),
        };
        let value = answer
            .first()
            .and_then(|rows| rows.first()?.first()?.as_deref());
        Ok(value.and_then(read_milliseconds).unwrap_or_default())
    }

    /// Wraps a stream on which nobody has logged in.
    pub fn new(
        stream: Stream,
        address: &Arc<Address>,
        none: &Arc<SessionSettings>,
        prepared_max: usize,
    ) -> Self {
        let now = Instant::now();
        Self {
            info: ServerInfo::new(&stream, 0, None),
            stream,
            side: ServerSide::new(Arc::clone(none), prepared_max),
            input: BytesMut::new(),
            key: BackendKey::new(address),
            generation: None,
            idle_since: now,
            checked: None,
            opened: now,
            slot: None,
            log: None,
        }
    }

    async fn logged_in(
        mut self,
        address: &Address,
        credentials: &ServerCredentials,
        more: &[(&str, &str)],
    ) -> Result<Self, ServerError> {
        self.log_in(address, credentials, more).await?;
        self.info = ServerInfo::new(&self.stream, self.key.process, None);
        self.side.process = self.key.process;
        Ok(self)
    }

    /// Opens a connection for a pool within `limit`; zero means no limit.
    ///
    /// # Errors
    /// The server cannot be reached, rejects the login, or does not answer in time.
    pub async fn open_within(
        limit: Duration,
        address: &Arc<Address>,
        credentials: &ServerCredentials,
        none: Arc<SessionSettings>,
        prepared_max: usize,
    ) -> Result<Self, ServerError> {
        let opening = Self::open_for_pool(address, credentials, none, prepared_max);
        let opened = optional_timeout(limit, opening).await;
        opened.unwrap_or(Err(ServerError::Timeout(limit)))
    }

    async fn log_in(
        &mut self,
        address: &Address,
        credentials: &ServerCredentials,
        more: &[(&str, &str)],
    ) -> Result<(), ServerError> {
        let mut out = BytesMut::new();
        let mut parameters = vec![
            ("user".to_owned(), address.user.clone()),
            ("database".to_owned(), address.database.clone()),
        ];
        parameters.extend(address.startup.iter().cloned());
        let more = more
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        parameters.extend(more);
        let startup = Startup {
            minor: 0,
            parameters,
        };
        startup.write(&mut out);
        self.stream.write_all(&mut out).await?;
        let credential = credentials.credential.as_shown();
        let binding = self.stream.channel_binding().map(<[u8]>::to_vec);
        let mut login = Login::new(&address.user, credential, random()?).bound_to(binding);
        let mut accepted = false;
        loop {
            let (kind, message) = self.message().await?;
            let body = message.get(frame::HEADER_LEN..).unwrap_or_default();
            match kind {
                tag::AUTHENTICATION => {
                    match login.handle(body, &mut out)? {
                        Progress::WantsKeys(stretch) => {
                            login.give(&credentials.keys(&stretch).await?, &mut out)?;
                        }
                        Progress::Accepted => accepted = true,
                        Progress::Answered | Progress::Nothing => {}
                    }
                    self.stream.write_all(&mut out).await?;
                }
                tag::BACKEND_KEY_DATA => {
                    self.key.set(backend::read_backend_key(body)?);
                }
                tag::ERROR_RESPONSE => return Err(ServerError::Refused(message)),
                tag::READY_FOR_QUERY if accepted => return Ok(()),
                // The server has neither accepted the login nor completed its own proof.
                tag::READY_FOR_QUERY => {
                    let why = "the server is ready before it has let us in";
                    return Err(WireError::Authentication(why.into()).into());
                }
                _ => {}
            }
        }
    }

    /// Reads the next message; remembers ParameterStatus messages on the way.
    async fn message(&mut self) -> Result<(u8, Bytes), ServerError> {
        loop {
            if let Some((kind, message)) = frame::split_message(&mut self.input)? {
                if kind == tag::PARAMETER_STATUS {
                    self.note_parameter(&message);
                }
                return Ok((kind, message));
            }
            self.stream.read_some(&mut self.input).await?;
        }
    }

    fn note_parameter(&mut self, message: &[u8]) {
        let body = message.get(frame::HEADER_LEN..).unwrap_or_default();
        self.side.note_reported(body);
    }

    /// The parameters that the server reports at each login.
    pub fn parameters(&self) -> Vec<(String, String)> {
        self.side.reported.clone().into_iter().collect()
    }

    /// Activates a client's settings. [`ServerError::Refused`]: the server rejects them.
    ///
    /// # Errors
    /// The server rejects the settings, or the connection is lost.
    pub async fn adopt(&mut self, settings: &Arc<SessionSettings>) -> Result<(), ServerError> {
        let anybody = self.side.sequences.token();
        self.adopt_for(settings, anybody).await
    }

    /// The same for a client with this sequence token: it must not read sequence values of other clients.
    ///
    /// # Errors
    /// As for [`ServerConn::adopt`].
    pub async fn adopt_for(
        &mut self,
        settings: &Arc<SessionSettings>,
        reader: SequenceToken,
    ) -> Result<(), ServerError> {
        let mut out = BytesMut::new();
        let mut queries = self.side.adopt(settings, reader, &mut out);
        if queries == 0 {
            return Ok(());
        }
        self.stream.write_all(&mut out).await?;
        let mut refused = None;
        while queries > 0 {
            match self.message().await? {
                (tag::READY_FOR_QUERY, _) => queries -= 1,
                (tag::ERROR_RESPONSE, message) => refused = Some(message),
                _ => {}
            }
        }
        match refused {
            None => Ok(()),
            Some(error) => {
                self.side.needs_reset = true;
                self.side.sequences = SequenceState::Mixed;
                Err(ServerError::Refused(error))
            }
        }
    }

    /// Resets the session by `server_reset_query`; an empty query does nothing.
    ///
    /// # Errors
    /// The server answers with an error, or the connection is lost.
    pub async fn reset(
        &mut self,
        sql: &str,
        none: Arc<SessionSettings>,
    ) -> Result<(), ServerError> {
        if !sql.is_empty() {
            self.query(sql).await?;
        }
        match is_discard_all(sql) {
            true => self.side.discarded(none),
            false => self.side.mark_unknown(),
        }
        Ok(())
    }

    /// Runs statements of Paceline's own in one transaction, and returns the rows of each. Parameters are passed as text.
    ///
    /// # Errors
    /// The server answers with an error, or the connection is lost.
    pub async fn ask(
        &mut self,
        statements: &[(&str, &[&str])],
    ) -> Result<Vec<ResultRows>, ServerError> {
        let mut out = BytesMut::new();
        for (text, parameters) in statements {
            frontend::Parse {
                name: b"",
                text: text.as_bytes(),
                types: &frontend::parameter_types(&[]),
            }
            .write(&mut out);
            let parameters: Vec<_> = parameters
                .iter()
                .map(|text| (false, Some(text.as_bytes())))
                .collect();
            frontend::write_bind(&mut out, b"", &parameters, &[]);
            frontend::write_execute(&mut out);
        }
        frontend::write_sync(&mut out);
        self.results(&mut out).await
    }

    /// Runs statements of Paceline's own in one simple query, and returns the rows of each.
    ///
    /// # Errors
    /// The server answers with an error, or the connection is lost.
    pub async fn query(&mut self, sql: &str) -> Result<Vec<ResultRows>, ServerError> {
        let mut out = BytesMut::new();
        frontend::write_query(&mut out, sql);
        self.results(&mut out).await
    }

    /// Sends messages and reads their rows up to ReadyForQuery.
    async fn results(&mut self, out: &mut BytesMut) -> Result<Vec<ResultRows>, ServerError> {
        self.side.unnamed = None;
        self.stream.write_all(out).await?;
        let (mut results, mut rows, mut refused) = (Vec::new(), ResultRows::new(), None);
        loop {
            let (kind, message) = self.message().await?;
            let body = message.get(frame::HEADER_LEN..).unwrap_or_default();
            match kind {
                tag::DATA_ROW => rows.push(read_row(body)?),
                tag::COMMAND_COMPLETE => results.push(std::mem::take(&mut rows)),
                tag::ERROR_RESPONSE => refused = Some(message),
                tag::READY_FOR_QUERY => break,
                _ => {}
            }
        }
        refused.map_or(Ok(results), |error| Err(ServerError::Refused(error)))
    }

    /// Asks PostgreSQL to describe a statement.
    ///
    /// # Errors
    /// The server answers with an error, or the connection is lost.
    pub async fn describe(&mut self, text: &str, types: &[u8]) -> Result<Description, ServerError> {
        let mut out = BytesMut::new();
        frontend::Parse {
            name: b"",
            text: text.as_bytes(),
            types,
        }
        .write(&mut out);
        frontend::Target::Statement(b"").write(&mut out, frontend::tag::DESCRIBE);
        frontend::write_sync(&mut out);
        self.side.unnamed = None;
        self.stream.write_all(&mut out).await?;
        let (mut description, mut refused) = (Description::default(), None);
        loop {
            let (kind, message) = self.message().await?;
            let body = message.get(frame::HEADER_LEN..).unwrap_or_default();
            match kind {
                tag::PARAMETER_DESCRIPTION => {
                    description.parameters = backend::read_parameter_types(body)?;
                }
                tag::ROW_DESCRIPTION => description.fields = backend::read_fields(body)?,
                tag::NOTICE_RESPONSE => description.warned = true,
                tag::ERROR_RESPONSE => refused = Some(message),
                tag::READY_FOR_QUERY => break,
                _ => {}
            }
        }
        refused.map_or(Ok(description), |error| Err(ServerError::Refused(error)))
    }

    /// Ends an idle session with Terminate. (A connection that is dropped sends none: it may be in the middle of a message.)
    pub fn terminate(mut self) {
        if let Some(log) = &mut self.log {
            log.closes_unless_replaced(close_reason::NOT_NEEDED);
        }
        let mut out = BytesMut::new();
        frontend::write_terminate(&mut out);
        // If the server does not get the message, it notices that the connection is closed.
        let _ = self.stream.write_now(&mut out);
    }
}

/// Whether this query resets the whole session.
pub fn is_discard_all(sql: &str) -> bool {
    let mut words = sql.trim_end().trim_end_matches(';').split_whitespace();
    let mut next_is = |word: &str| {
        words
            .next()
            .is_some_and(|next| next.eq_ignore_ascii_case(word))
    };
    next_is("DISCARD") && next_is("ALL") && words.next().is_none()
}

fn read_row(body: &[u8]) -> Result<Vec<Option<String>>, WireError> {
    let values = backend::row_values(body)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(values.into_iter().map(|value| value.map(text)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_discard_all_leaves_nothing() {
        for sql in ["DISCARD ALL", " discard\n all ;", "Discard All;;"] {
            assert!(is_discard_all(sql), "{sql}");
        }
        for sql in [
            "",
            ";",
            "DISCARD",
            "DISCARD TEMP",
            "DISCARD ALL; SET x TO 1",
            "DISCARDALL",
        ] {
            assert!(!is_discard_all(sql), "{sql}");
        }
    }
}
