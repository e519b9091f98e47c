//! A connection to PostgreSQL: connecting, logging in, settings, and the plain exchanges that Paceline itself
//! needs.

use crate::config::{Host, Upstream};
use crate::stream::Stream;
use bytes::{Bytes, BytesMut};
use paceline_line::server::ServerSide;
use paceline_line::settings::Settings;
use paceline_wire::auth::{Login, Progress};
use paceline_wire::backend::{self, Field, tag};
use paceline_wire::startup::{self, Startup};
use paceline_wire::{ErrorResponse, WireError, frame, frontend};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpStream, UnixStream};

/// Where a pool's connections lead.
#[derive(Debug, Clone)]
pub(crate) struct Address {
    /// The server.
    pub(crate) upstream: Upstream,
    /// The database there.
    pub(crate) database: String,
    /// The user there.
    pub(crate) user: String,
    /// Settings that connections are begun with.
    pub(crate) startup: Vec<(String, String)>,
}

/// A connection to PostgreSQL that is logged in.
#[derive(Debug)]
pub(crate) struct ServerConn {
    /// The socket.
    pub(crate) stream: Stream,
    /// What is prepared and set there.
    pub(crate) side: ServerSide,
    /// What has come and was not taken.
    pub(crate) input: BytesMut,
    /// Parameters as the server reported them last.
    parameters: BTreeMap<String, String>,
    /// Names this backend in cancel requests.
    pub(crate) key: BackendKey,
    /// When it served last.
    pub(crate) idle_since: Instant,
}

/// Names a backend in cancel requests.
#[derive(Debug, Clone)]
pub(crate) struct BackendKey {
    address: Arc<Address>,
    process: u32,
    secret: u32,
}

/// Why a server could not be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServerError {
    /// The socket failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The server broke the protocol, or asks for what Paceline cannot give.
    #[error("{0}")]
    Wire(#[from] WireError),
    /// The server refused, with this `ErrorResponse`.
    #[error("{}", backend::error_field(.0.get(frame::HEADER_LEN..).unwrap_or_default(), b'M').unwrap_or("refused"))]
    Refused(Bytes),
    /// It took too long.
    #[error("time-out after {0:?} (server_connect_timeout)")]
    Timeout(Duration),
}

impl ServerError {
    /// What a client is told that needed this server; its connection ends.
    pub(crate) fn to_fatal(&self, out: &mut BytesMut) {
        if let Self::Refused(error) = self {
            out.extend_from_slice(error);
            return;
        }
        ErrorResponse::fatal("08006", format!("cannot connect to the server: {self}"))
            .with_hint("Check that PostgreSQL runs at the address in Paceline's configuration.")
            .write(out);
    }
}

/// Rows of one result, as text.
pub(crate) type Rows = Vec<Vec<Option<String>>>;

/// Opens a socket; nothing is said yet.
pub(crate) async fn connect(upstream: &Upstream) -> io::Result<Stream> {
    match &upstream.host {
        Host::Tcp(host) => {
            let stream = TcpStream::connect((host.as_str(), upstream.port)).await?;
            Ok(Stream::tcp(stream))
        }
        Host::Unix(folder) => {
            let path = folder.join(format!(".s.PGSQL.{}", upstream.port));
            Ok(Stream::Unix(UnixStream::connect(path).await?))
        }
    }
}

impl ServerConn {
    /// Connects and logs in.
    async fn open(
        address: &Arc<Address>,
        none: Arc<Settings>,
        prepared_max: usize,
    ) -> Result<Self, ServerError> {
        let stream = connect(&address.upstream).await?;
        let mut conn = Self {
            stream,
            side: ServerSide::new(none, prepared_max),
            input: BytesMut::new(),
            parameters: BTreeMap::new(),
            key: BackendKey::new(address),
            idle_since: Instant::now(),
        };
        conn.log_in(address).await?;
        Ok(conn)
    }

    /// The same within a time; zero is for ever.
    pub(crate) async fn open_within(
        limit: Duration,
        address: &Arc<Address>,
        none: Arc<Settings>,
        prepared_max: usize,
    ) -> Result<Self, ServerError> {
        let opening = Self::open(address, none, prepared_max);
        if limit.is_zero() {
            return opening.await;
        }
        match tokio::time::timeout(limit, opening).await {
            Ok(opened) => opened,
            Err(_) => Err(ServerError::Timeout(limit)),
        }
    }

    async fn log_in(&mut self, address: &Address) -> Result<(), ServerError> {
        let mut out = BytesMut::new();
        let mut parameters = vec![
            ("user".to_owned(), address.user.clone()),
            ("database".to_owned(), address.database.clone()),
        ];
        parameters.extend(address.startup.iter().cloned());
        let startup = Startup {
            minor: 0,
            parameters,
        };
        startup.write(&mut out);
        self.stream.write_all(&mut out).await?;
        let password = address
            .upstream
            .password
            .as_ref()
            .map(|secret| secret.reveal());
        let mut login = Login::new(&address.user, password);
        loop {
            let (kind, message) = self.message().await?;
            let body = message.get(frame::HEADER_LEN..).unwrap_or_default();
            match kind {
                tag::AUTHENTICATION => {
                    let _: Progress = login.handle(body, &mut out)?;
                    self.stream.write_all(&mut out).await?;
                }
                tag::BACKEND_KEY_DATA => {
                    (self.key.process, self.key.secret) = backend::read_backend_key(body)?;
                }
                tag::ERROR_RESPONSE => return Err(ServerError::Refused(message)),
                tag::READY_FOR_QUERY => return Ok(()),
                _ => {}
            }
        }
    }

    /// The next whole message; ParameterStatus is noted on the way.
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
        if let Ok((name, value)) = backend::read_parameter_status(body) {
            self.parameters.insert(name.to_owned(), value.to_owned());
        }
    }

    /// Parameters that the server reports to every client that logs in.
    pub(crate) fn parameters(&self) -> Vec<(String, String)> {
        self.parameters.clone().into_iter().collect()
    }

    /// Puts a client's settings in force. [`ServerError::Refused`]: the server does not take them.
    pub(crate) async fn adopt(&mut self, settings: &Arc<Settings>) -> Result<(), ServerError> {
        let mut out = BytesMut::new();
        if !self.side.adopt(settings, &mut out) {
            return Ok(());
        }
        self.stream.write_all(&mut out).await?;
        let mut refused = None;
        loop {
            match self.message().await? {
                (tag::READY_FOR_QUERY, _) => break,
                (tag::ERROR_RESPONSE, message) => refused = Some(message),
                _ => {}
            }
        }
        match refused {
            None => Ok(()),
            Some(error) => {
                self.side.tainted = true;
                Err(ServerError::Refused(error))
            }
        }
    }

    /// Runs statements of Paceline's own and returns the rows of each.
    pub(crate) async fn query(&mut self, sql: &str) -> Result<Vec<Rows>, ServerError> {
        let mut out = BytesMut::new();
        frontend::write_query(&mut out, sql);
        self.side.unnamed = None;
        self.stream.write_all(&mut out).await?;
        let (mut results, mut rows, mut refused) = (Vec::new(), Rows::new(), None);
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

    /// Lets PostgreSQL describe a statement: OIDs of its parameters, columns of its result.
    pub(crate) async fn describe(
        &mut self,
        text: &str,
        types: &[u8],
    ) -> Result<(Vec<u32>, Vec<Field>), ServerError> {
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
        let (mut parameters, mut fields, mut refused) = (Vec::new(), Vec::new(), None);
        loop {
            let (kind, message) = self.message().await?;
            let body = message.get(frame::HEADER_LEN..).unwrap_or_default();
            match kind {
                tag::PARAMETER_DESCRIPTION => parameters = backend::read_parameter_types(body)?,
                tag::ROW_DESCRIPTION => fields = backend::read_fields(body)?,
                tag::ERROR_RESPONSE => refused = Some(message),
                tag::READY_FOR_QUERY => break,
                _ => {}
            }
        }
        refused.map_or(Ok((parameters, fields)), |error| {
            Err(ServerError::Refused(error))
        })
    }

    /// Ends an idle session in good order. (One that is cut short says nothing: half a message may be out.)
    pub(crate) fn say_goodbye(self) {
        let mut out = BytesMut::new();
        frontend::write_terminate(&mut out);
        // If the server does not hear it, the end of the connection says the same.
        let _ = self.stream.write_now(&mut out);
    }

    /// Is it still good? What an idle server says is a changed parameter, a notice, or goodbye.
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
}

fn read_row(body: &[u8]) -> Result<Vec<Option<String>>, WireError> {
    let values = backend::row_values(body)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(values.into_iter().map(|value| value.map(text)).collect())
}

impl BackendKey {
    /// A key that the server has not told yet.
    pub(crate) fn new(address: &Arc<Address>) -> Self {
        Self {
            address: Arc::clone(address),
            process: 0,
            secret: 0,
        }
    }

    /// Asks the server to cancel what this backend does; returns when the server has taken note.
    pub(crate) async fn cancel(&self) -> io::Result<()> {
        let stream = connect(&self.address.upstream).await?;
        let mut out = BytesMut::new();
        startup::write_cancel(&mut out, self.process, self.secret);
        stream.write_all(&mut out).await?;
        // The server closes the connection after it has sent the signal.
        let end = stream.read_some(&mut out).await;
        match end {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
            other => other,
        }
    }
}
