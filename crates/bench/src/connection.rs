//! The connection of a client. The lab has its own implementation, so that it does not measure a driver. It logs in, sends
//! statements and passes rows to the caller one by one; it stores no rows unless the caller does.

mod stream;

#[cfg(test)]
mod tests;

use crate::statement::{Statement, Value};
use crate::target::Target;
use bytes::BytesMut;
use fixedbitset::FixedBitSet;
use paceline_wire::auth::{Credential, Login, Progress};
use paceline_wire::backend::{self, Field, Status, tag};
use paceline_wire::frame::HEADER_LEN;
use paceline_wire::scram::{self, Keys};
use paceline_wire::startup::Startup;
use paceline_wire::{Frame, Frames, Header, WireError, frontend};
use std::io;
use std::iter;
use std::time::Duration;
use stream::Stream;

/// Limit for closing a connection.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);
/// Limit for a login; a busy server may take long.
const CONNECT_LIMIT: Duration = Duration::from_secs(60);

/// The result of communication with a target.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// The reason why a statement has no result.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Failure {
    /// The target returned an error; the connection remains usable.
    #[error("{message} (SQLSTATE {sqlstate})")]
    Refused {
        /// SQLSTATE (PostgreSQL documentation, appendix A).
        sqlstate: String,
        /// Primary message of the target.
        message: String,
    },
    /// The target rejected the login. No work was begun.
    #[error("not admitted: {message} (SQLSTATE {sqlstate})")]
    NotAdmitted {
        /// SQLSTATE (PostgreSQL documentation, appendix A).
        sqlstate: String,
        /// Primary message of the target.
        message: String,
    },
    /// No server answers at the address.
    #[error("cannot connect: {0}")]
    Unreachable(String),
    /// The connection was lost before the answer arrived. The client does not know whether the statement was executed.
    #[error("the connection was lost: {0}")]
    Lost(String),
}

impl Failure {
    /// The same as an error of the target, found by the lab itself.
    pub(crate) fn refused(sqlstate: &str, message: impl Into<String>) -> Self {
        Self::Refused {
            sqlstate: sqlstate.to_owned(),
            message: message.into(),
        }
    }

    /// The name in counts of errors: the SQLSTATE or a word.
    pub fn kind(&self) -> &str {
        match self {
            Self::Refused { sqlstate, .. } | Self::NotAdmitted { sqlstate, .. } => sqlstate,
            Self::Unreachable(_) => "unreachable",
            Self::Lost(_) => "lost",
        }
    }

    /// Whether the statement may have been executed although it failed: this connection was lost, or the one between a
    /// pooler and its server (class 08), or the server terminated it (57P).
    pub(crate) fn is_in_doubt(&self) -> bool {
        match self {
            Self::Refused { sqlstate, .. } => {
                sqlstate.starts_with("08") || sqlstate.starts_with("57P")
            }
            Self::NotAdmitted { .. } | Self::Unreachable(_) => false,
            Self::Lost(_) => true,
        }
    }

    /// Whether the client could not connect.
    pub(crate) fn is_at_login(&self) -> bool {
        matches!(self, Self::NotAdmitted { .. } | Self::Unreachable(_))
    }

    /// Whether a new connection may succeed soon: this one was lost, or the server was full or starting.
    pub(crate) fn may_pass(&self) -> bool {
        self.is_in_doubt() || matches!(self, Self::NotAdmitted { .. })
    }

    /// The same failure during a login: no statement was sent, so none may have been executed.
    fn at_login(self) -> Self {
        match self {
            Self::Refused { sqlstate, message } => Self::NotAdmitted { sqlstate, message },
            Self::Lost(why) => Self::Unreachable(format!("{why}, before the login had ended")),
            other => other,
        }
    }

    fn lost(error: &io::Error) -> Self {
        Self::Lost(match error.kind() {
            io::ErrorKind::UnexpectedEof => "the target closed it".to_owned(),
            _ => error.to_string(),
        })
    }
}

impl From<WireError> for Failure {
    fn from(error: WireError) -> Self {
        Self::Lost(error.to_string())
    }
}

/// The end of an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Number of rows.
    pub(crate) rows: u64,
    /// Number of rows in the last command tag (`UPDATE 3`).
    pub(crate) affected: u64,
}

/// Rows in text format.
pub(crate) type Rows = Vec<Vec<Option<String>>>;

/// A connection after a successful login.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: Stream,
    out: BytesMut,
    /// The beginning of an incomplete message.
    input: BytesMut,
    /// The numbers of the statements that this connection has prepared.
    prepared: FixedBitSet,
    status: Status,
}

impl Connection {
    /// Connects and logs in.
    pub(crate) async fn open(target: &Target) -> Result<Self> {
        let opened = async {
            match target.other_ports.is_empty() {
                true => Self::open_at(target, target.port).await,
                false => Self::open_for_writes(target).await,
            }
        };
        match tokio::time::timeout(CONNECT_LIMIT, opened).await {
            Ok(opened) => opened.map_err(Failure::at_login),
            Err(_) => Err(Failure::Unreachable(format!(
                "no answer for {} s",
                CONNECT_LIMIT.as_secs()
            ))),
        }
    }

    /// Connects to the first server that accepts writes. If there is none, returns the failure of the last one that could not be
    /// reached.
    async fn open_for_writes(target: &Target) -> Result<Self> {
        let mut failure = Failure::Unreachable("no server accepts writes".to_owned());
        for port in iter::once(&target.port).chain(&target.other_ports) {
            let opened = async {
                let mut conn = Self::open_at(target, *port).await?;
                let is_read_only = conn.value("SHOW transaction_read_only").await?;
                Ok((conn, is_read_only.as_deref() == Some("on")))
            };
            match opened.await {
                Ok((conn, false)) => return Ok(conn),
                // libpq terminates the connection as well.
                Ok((mut conn, true)) => drop(conn.terminate().await),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    async fn open_at(target: &Target, port: u16) -> Result<Self> {
        let stream = Stream::connect(&target.host, port).await;
        let mut conn = Self {
            stream: stream.map_err(|error| Failure::Unreachable(error.to_string()))?,
            out: BytesMut::new(),
            input: BytesMut::new(),
            prepared: FixedBitSet::new(),
            status: Status::Idle,
        };
        let parameters = [
            ("user", &target.user),
            ("database", &target.database),
            ("application_name", &"paceline bench".to_owned()),
        ];
        let startup = Startup {
            minor: 0,
            parameters: parameters.map(|(n, v)| (n.to_owned(), v.clone())).to_vec(),
        };
        startup.write(&mut conn.out);
        conn.log_in(target).await?;
        Ok(conn)
    }

    async fn log_in(&mut self, target: &Target) -> Result<()> {
        let password = target.password.as_deref();
        let credential = password.map_or(Credential::None, Credential::Password);
        let mut random = [0; scram::NONCE_LEN];
        let filled = getrandom::fill(&mut random);
        filled.map_err(|error| Failure::Unreachable(error.to_string()))?;
        let mut login = Login::new(&target.user, credential, random);
        loop {
            let mut request = None;
            let mut on_frame = |frame: Frame<'_>| {
                if frame.tag == tag::AUTHENTICATION {
                    request = Some(frame.body().to_vec());
                }
                frame.tag == tag::AUTHENTICATION
            };
            let ready = self.exchange(&mut on_frame).await?;
            let Some(body) = request.filter(|_| !ready) else {
                return Ok(());
            };
            let rejected = |error: WireError| Failure::Unreachable(error.to_string());
            let progress = login.handle(&body, &mut self.out).map_err(rejected)?;
            if let Progress::WantsKeys(stretch) = progress {
                let keys = Keys::derive(password.unwrap_or_default().as_bytes(), &stretch);
                login.give(&keys, &mut self.out).map_err(rejected)?;
            }
        }
    }

    /// Sends the contents of `out` and passes every message to `on_frame`. Stops when `on_frame` returns true
    /// (`Ok(false)`) or when the target is ready (`Ok(true)`). Returns an error of the target when the target is ready
    /// again or has closed the connection.
    async fn exchange(&mut self, on_frame: &mut impl FnMut(Frame<'_>) -> bool) -> Result<bool> {
        let written = self.stream.write_all(&mut self.out).await;
        written.map_err(|error| Failure::lost(&error))?;
        let Self {
            stream,
            input,
            status,
            ..
        } = self;
        let mut refused = None;
        loop {
            let read = stream.read(|bytes| feed(input, bytes, status, &mut refused, on_frame));
            match read.await {
                Ok(read) => match (read?, refused.take()) {
                    (AnswerState::Incomplete, error) => refused = error,
                    (AnswerState::Ready | AnswerState::Stopped, Some(error)) => return Err(error),
                    (AnswerState::Ready, None) => return Ok(true),
                    (AnswerState::Stopped, None) => return Ok(false),
                },
                // After a FATAL error the server closes the connection.
                Err(error) => return Err(refused.unwrap_or_else(|| Failure::lost(&error))),
            }
        }
    }

    /// Whether a transaction is open.
    pub(crate) fn in_transaction(&self) -> bool {
        self.status != Status::Idle
    }

    /// Runs a query string and returns the rows of its last statement that returns rows.
    pub(crate) async fn query(&mut self, sql: &str) -> Result<Rows> {
        Ok(self.table(sql).await?.1)
    }

    /// Like [`Self::query`], but also returns the names of the columns.
    pub(crate) async fn table(&mut self, sql: &str) -> Result<(Vec<String>, Rows)> {
        frontend::write_query(&mut self.out, sql);
        let (mut columns, mut rows, mut broken) = (Vec::new(), Rows::new(), None);
        let mut on_frame = |frame: Frame<'_>| {
            let read = match frame.tag {
                tag::ROW_DESCRIPTION => backend::read_fields(frame.body()).map(|fields| {
                    rows.clear();
                    let name = |field: Field| String::from_utf8_lossy(&field.name).into_owned();
                    columns = fields.into_iter().map(name).collect();
                }),
                tag::DATA_ROW => backend::row_values(frame.body())
                    .map(|values| rows.push(values.into_iter().map(text).collect())),
                _ => Ok(()),
            };
            broken = broken.take().or(read.err());
            false
        };
        self.exchange(&mut on_frame).await?;
        broken.map_or(Ok((columns, rows)), |error: WireError| Err(error.into()))
    }

    /// Runs a query string whose rows do not matter.
    pub(crate) async fn execute(&mut self, sql: &str) -> Result<()> {
        self.table(sql).await.map(drop)
    }

    /// Runs a query and returns the first value of its first row.
    pub(crate) async fn value(&mut self, sql: &str) -> Result<Option<String>> {
        let row = self.query(sql).await?.into_iter().next();
        Ok(row.and_then(|row| row.into_iter().next()?))
    }

    /// Runs a query that returns one number.
    pub(crate) async fn number(&mut self, sql: &str) -> Result<i64> {
        let number = self.value(sql).await?.and_then(|text| text.parse().ok());
        number.ok_or_else(|| Failure::refused("22023", format!("no number came for: {sql}")))
    }

    /// Runs `statement` once. Passes the body of each row to `on_row` (see [`backend::row_values`]).
    pub(crate) async fn run(
        &mut self,
        statement: &Statement,
        values: &[Value<'_>],
        mut on_row: impl FnMut(&[u8]),
    ) -> Result<Answer> {
        let known = self.prepared.contains(statement.number);
        statement.write(values, known, &mut self.out);
        let (mut answer, mut parsed) = (Answer::default(), false);
        let mut on_frame = |frame: Frame<'_>| {
            match frame.tag {
                tag::DATA_ROW => {
                    answer.rows += 1;
                    on_row(frame.body());
                }
                tag::COMMAND_COMPLETE => {
                    answer.affected = backend::affected_rows(frame.body()).unwrap_or_default();
                }
                tag::PARSE_COMPLETE => parsed = true,
                _ => {}
            }
            false
        };
        let done = self.exchange(&mut on_frame).await;
        // The statement remains prepared even if its execution fails.
        if parsed && statement.is_kept() {
            self.prepared.grow_and_insert(statement.number);
        }
        done.map(|_| answer)
    }

    /// Terminates the connection as a client does, without waiting for the target. If the message cannot be sent, the target
    /// sees the end of the connection.
    pub(crate) async fn terminate(&mut self) -> io::Result<()> {
        frontend::write_terminate(&mut self.out);
        self.stream.write_all(&mut self.out).await
    }

    /// Terminates the connection and waits, within a limit, until the target has closed it.
    pub(crate) async fn close(mut self) {
        let goodbye = async {
            if self.terminate().await.is_ok() {
                while self.stream.read(|_| ()).await.is_ok() {}
            }
        };
        let _ = tokio::time::timeout(CLOSE_LIMIT, goodbye).await;
    }
}

/// The state of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AnswerState {
    Incomplete,
    Stopped,
    Ready,
}

/// Passes the complete messages in `input` and `bytes` to `on_frame` and leaves the remainder in `input`. Only a message
/// that is split between two reads is copied.
fn feed(
    input: &mut BytesMut,
    bytes: &[u8],
    status: &mut Status,
    refused: &mut Option<Failure>,
    on_frame: &mut impl FnMut(Frame<'_>) -> bool,
) -> Result<AnswerState, WireError> {
    let mut feed = AnswerState::Incomplete;
    let mut take = |frame: Frame<'_>| {
        match frame.tag {
            tag::ERROR_RESPONSE => *refused = Some(refusal(frame.body())),
            tag::READY_FOR_QUERY => {
                *status = Status::read(frame.body())?;
                feed = AnswerState::Ready;
            }
            _ if on_frame(frame) => feed = AnswerState::Stopped,
            _ => {}
        }
        Ok(())
    };
    let bytes = complete(input, bytes)?;
    let mut split = Frames::new(input);
    if let Some(frame) = split.next_frame()? {
        take(frame)?;
        input.clear();
    }
    let mut frames = Frames::new(bytes);
    while let Some(frame) = frames.next_frame()? {
        take(frame)?;
    }
    input.extend_from_slice(frames.rest());
    Ok(feed)
}

/// Completes the message in `input` from `bytes`, as far as possible; returns the remaining bytes.
fn complete<'a>(input: &mut BytesMut, mut bytes: &'a [u8]) -> Result<&'a [u8], WireError> {
    while !input.is_empty() {
        let wanted = Header::read(input)?.map_or(HEADER_LEN, |header| header.len);
        let missing = wanted.saturating_sub(input.len());
        if missing == 0 || bytes.is_empty() {
            break;
        }
        let (taken, rest) = bytes.split_at(missing.min(bytes.len()));
        input.extend_from_slice(taken);
        bytes = rest;
    }
    Ok(bytes)
}

fn refusal(body: &[u8]) -> Failure {
    let field = |code| backend::error_field(body, code).unwrap_or_default();
    Failure::refused(field(b'C'), field(b'M'))
}

fn text(value: Option<&[u8]>) -> Option<String> {
    value.map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}
