//! A console session, in the simple and the extended protocol (PostgreSQL manual, chapter "Message Flow"). Commands take no
//! parameters, and there are no transactions.

use super::command::ConsoleCommand;
use super::error::console_error;
use super::execute::{CommandCaller, ConsoleAnswer, execute};
use super::table::{self, ConsoleRow, Heading};
use super::version::PGBOUNCER_VERSION;
use crate::admin::Admin;
use bytes::{Bytes, BytesMut};
use paceline_net::Stream;
use paceline_proxy::cancel::ConsoleGrant;
use paceline_proxy::client::ConsoleLogin;
use paceline_proxy::lifecycle::{Phase, reached};
use paceline_proxy::log::{self, ClientNames};
use paceline_wire::backend::{self, Status, tag as back};
use paceline_wire::frontend::{BindNames, BindValues, Parse, Target, tag};
use paceline_wire::reader::Reader;
use paceline_wire::{ErrorResponse, Frames, Header, WireError, frame};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Maximum length of a message in bytes.
const MESSAGE_LEN_MAX: usize = 64 * 1024;

/// Maximum number of prepared statements, and of portals, of a session.
const NAMES_MAX: usize = 1_000;

/// Number of bytes at which the session writes answers before it waits for the next message.
const WRITE_AT: usize = 64 * 1024;

/// Runs a console session until the operator disconnects or the process ends. The process does not wait for sessions.
pub async fn run(admin: &Arc<Admin>, login: ConsoleLogin) {
    let proxy = &admin.proxy;
    let (peer, began) = (login.stream.peer(), proxy.shared.clock.seconds());
    let names = login.names.clone();
    ConsoleSession::new(admin, login).run().await;
    let client = ClientNames {
        database: names.as_ref().map(|(database, _)| database.as_str()),
        user: names.as_ref().map(|(_, user)| user.as_str()),
        peer: &peer,
    };
    let age = proxy.shared.clock.seconds().saturating_sub(began);
    let logging = &proxy.config().paceline.logging;
    log::client_closed(logging, client, "client close request", age);
}

struct ConsoleSession {
    admin: Arc<Admin>,
    grant: ConsoleGrant,
    caller: CommandCaller,
    stream: Stream,
    input: BytesMut,
    out: BytesMut,
    statements: HashMap<Bytes, ConsoleCommand>,
    portals: HashMap<Bytes, ConsolePortal>,
    /// After an error, the session skips messages up to the next `Sync`.
    skipping: bool,
    phase: watch::Receiver<Phase>,
}

/// A portal: a bound command.
struct ConsolePortal {
    command: ConsoleCommand,
    formats: Vec<i16>,
    /// The part of the answer that the client has not fetched; `None` before the command is executed.
    answer: Option<RemainingRows>,
}

struct RemainingRows {
    headings: Vec<Heading>,
    rows: std::vec::IntoIter<ConsoleRow>,
    tag: String,
}

/// The reason why a session ends.
enum SessionEnd {
    /// The operator has disconnected.
    Disconnected,
    /// The session sends this error and closes the connection.
    Error(ErrorResponse),
}

impl From<io::Error> for SessionEnd {
    fn from(_: io::Error) -> Self {
        Self::Disconnected
    }
}

impl From<WireError> for SessionEnd {
    fn from(error: WireError) -> Self {
        Self::Error(ErrorResponse::fatal("08P01", error.to_string()))
    }
}

/// The messages that a client gets after its login.
fn welcome(grant: &ConsoleGrant) -> BytesMut {
    let mut out = BytesMut::new();
    backend::write_authentication_ok(&mut out);
    let version = format!("{PGBOUNCER_VERSION}/bouncer");
    for (name, value) in [
        ("server_version", version.as_str()),
        ("client_encoding", "UTF8"),
        ("server_encoding", "UTF8"),
        ("DateStyle", "ISO"),
        ("TimeZone", "GMT"),
        ("standard_conforming_strings", "on"),
        ("is_superuser", "on"),
        // JDBC needs it.
        ("integer_datetimes", "on"),
    ] {
        backend::write_parameter_status(&mut out, name, value);
    }
    backend::write_backend_key(&mut out, grant.process, grant.secret);
    Status::Idle.write(&mut out);
    out
}

impl ConsoleSession {
    fn new(admin: &Arc<Admin>, login: ConsoleLogin) -> Self {
        Self {
            out: welcome(&login.grant),
            admin: Arc::clone(admin),
            caller: CommandCaller {
                access: login.grant.access,
                snapshots: Arc::default(),
            },
            grant: login.grant,
            stream: login.stream,
            input: login.input,
            statements: HashMap::new(),
            portals: HashMap::new(),
            skipping: false,
            phase: admin.proxy.phase.subscribe(),
        }
    }

    async fn run(mut self) {
        let end = loop {
            let done = match self.message().await {
                Ok((kind, message)) => self.process(kind, &message).await,
                Err(end) => Err(end),
            };
            if let Err(end) = done {
                break end;
            }
        };
        if let SessionEnd::Error(error) = end {
            error.write(&mut self.out);
            // The connection is closed even if the error cannot be sent.
            let _ = self.stream.write_all(&mut self.out).await;
        }
    }

    /// Reads the next message. Writes pending answers before it waits.
    async fn message(&mut self) -> Result<(u8, Bytes), SessionEnd> {
        loop {
            if let Some(header) = Header::read(&self.input)? {
                if header.len > MESSAGE_LEN_MAX {
                    return Err(WireError::Length.into());
                }
                if let Some(message) = frame::split_message(&mut self.input)? {
                    return Ok(message);
                }
            }
            self.flush().await?;
            tokio::select! {
                biased;
                ready = self.stream.readable() => ready?,
                () = reached(&mut self.phase, Phase::Ending) => return Err(shut_down()),
            }
            self.stream.read_now(&mut self.input)?;
        }
    }

    async fn flush(&mut self) -> Result<(), SessionEnd> {
        Ok(self.stream.write_all(&mut self.out).await?)
    }

    async fn process(&mut self, kind: u8, message: &Bytes) -> Result<(), SessionEnd> {
        let frame = Frames::new(message).next();
        let body = frame.map(|frame| frame.body()).unwrap_or_default();
        if self.skipping && !matches!(kind, tag::SYNC | tag::TERMINATE) {
            return Ok(());
        }
        let done = match kind {
            tag::QUERY => self.query(body).await?,
            tag::PARSE => self.parse(Parse::read(body)?),
            tag::BIND => {
                let names = BindNames::read(body)?;
                let values = BindValues::read(names.rest, 0)?;
                self.bind(names, values)
            }
            tag::DESCRIBE => self.describe(Target::read(body)?),
            tag::EXECUTE => self.execute(body).await?,
            tag::CLOSE => self.close(Target::read(body)?),
            tag::SYNC => self.sync(),
            tag::FLUSH => Ok(()),
            tag::TERMINATE => return Err(SessionEnd::Disconnected),
            other => return Err(unsupported(other)),
        };
        if let Err(error) = done {
            error.write(&mut self.out);
            self.skipping = kind != tag::QUERY;
        }
        if kind == tag::QUERY {
            Status::Idle.write(&mut self.out);
        }
        match self.out.len() >= WRITE_AT || kind == tag::FLUSH {
            true => self.flush().await,
            false => Ok(()),
        }
    }

    async fn query(&mut self, body: &[u8]) -> Result<Result<(), ErrorResponse>, SessionEnd> {
        let text = Reader::new(body).str()?;
        let command = match ConsoleCommand::parse(text) {
            Ok(command) => command,
            Err(error) => return Ok(Err(error)),
        };
        let answer = match self.run_command(&command).await? {
            Ok(answer) => answer,
            Err(error) => return Ok(Err(error)),
        };
        self.out.extend_from_slice(&answer.notice);
        if let Some((headings, rows)) = answer.table {
            table::write_headings(&headings, &[], &mut self.out);
            for row in &rows {
                table::write_row(&headings, &[], row, &mut self.out);
            }
        }
        write_tag(&answer.tag, &mut self.out);
        Ok(Ok(()))
    }

    fn parse(&mut self, parse: Parse<'_>) -> Result<(), ErrorResponse> {
        let text = std::str::from_utf8(parse.text);
        let text = text.map_err(|_| console_error("a command must be UTF-8"))?;
        let command = ConsoleCommand::parse(text)?;
        let name = Bytes::copy_from_slice(parse.name);
        if !name.is_empty() && self.statements.contains_key(&name) {
            return Err(already_exists("42P05", "prepared statement", parse.name));
        }
        check_limit(self.statements.len())?;
        self.statements.insert(name, command);
        frame::write_empty(&mut self.out, back::PARSE_COMPLETE);
        Ok(())
    }

    fn bind(&mut self, names: BindNames<'_>, values: BindValues) -> Result<(), ErrorResponse> {
        let command = self.statement(names.statement)?.clone();
        if !values.values.is_empty() {
            return Err(console_error("commands of the console take no parameters"));
        }
        let name = Bytes::copy_from_slice(names.portal);
        if !name.is_empty() && self.portals.contains_key(&name) {
            return Err(already_exists("42P03", "cursor", names.portal));
        }
        check_limit(self.portals.len())?;
        let portal = ConsolePortal {
            command,
            formats: values.result_formats,
            answer: None,
        };
        self.portals.insert(name, portal);
        frame::write_empty(&mut self.out, back::BIND_COMPLETE);
        Ok(())
    }

    fn describe(&mut self, target: Target<'_>) -> Result<(), ErrorResponse> {
        let (command, formats) = match target {
            Target::Statement(name) => (self.statement(name)?, &[][..]),
            Target::Portal(name) => {
                let portal = self.portals.get(name).ok_or_else(|| portal_missing(name))?;
                (&portal.command, portal.formats.as_slice())
            }
        };
        let headings = command.headings();
        let mut out = BytesMut::new();
        if let Target::Statement(_) = target {
            frame::write(&mut out, back::PARAMETER_DESCRIPTION, |out| {
                out.extend([0, 0]);
            });
        }
        match headings {
            Some(headings) => table::write_headings(&headings, formats, &mut out),
            None => frame::write_empty(&mut out, back::NO_DATA),
        }
        self.out.extend_from_slice(&out);
        Ok(())
    }

    async fn execute(&mut self, body: &[u8]) -> Result<Result<(), ErrorResponse>, SessionEnd> {
        let mut reader = Reader::new(body);
        let (name, limit) = (reader.cstr()?, reader.i32()?);
        // 0 is no limit.
        let limit = usize::try_from(limit).ok().filter(|limit| *limit > 0);
        let Some(mut portal) = self.portals.remove(name) else {
            return Ok(Err(portal_missing(name)));
        };
        if portal.answer.is_none() {
            match self.run_command(&portal.command).await? {
                Ok(answer) => portal.answer = Some(self.begin(answer)),
                Err(error) => return Ok(Err(error)),
            }
        }
        self.fetch(&mut portal, limit);
        self.portals.insert(Bytes::copy_from_slice(name), portal);
        Ok(Ok(()))
    }

    /// Writes the notice of an answer. The client fetches the rest.
    fn begin(&mut self, answer: ConsoleAnswer) -> RemainingRows {
        self.out.extend_from_slice(&answer.notice);
        let (headings, rows) = answer.table.unwrap_or_default();
        RemainingRows {
            headings,
            rows: rows.into_iter(),
            tag: answer.tag,
        }
    }

    /// Writes at most `limit` rows, then the command tag or `PortalSuspended`.
    fn fetch(&mut self, portal: &mut ConsolePortal, limit: Option<usize>) {
        let Some(rest) = &mut portal.answer else {
            return;
        };
        let most = limit.unwrap_or(usize::MAX);
        for row in rest.rows.by_ref().take(most) {
            table::write_row(&rest.headings, &portal.formats, &row, &mut self.out);
        }
        match rest.rows.len() {
            0 => write_tag(&rest.tag, &mut self.out),
            _ => frame::write_empty(&mut self.out, back::PORTAL_SUSPENDED),
        }
    }

    fn close(&mut self, target: Target<'_>) -> Result<(), ErrorResponse> {
        match target {
            Target::Statement(name) => drop(self.statements.remove(name)),
            Target::Portal(name) => drop(self.portals.remove(name)),
        }
        frame::write_empty(&mut self.out, back::CLOSE_COMPLETE);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), ErrorResponse> {
        self.skipping = false;
        // Portals end with the transaction.
        self.portals.clear();
        Status::Idle.write(&mut self.out);
        Ok(())
    }

    fn statement(&self, name: &[u8]) -> Result<&ConsoleCommand, ErrorResponse> {
        self.statements.get(name).ok_or_else(|| {
            let name = String::from_utf8_lossy(name);
            let message = format!("prepared statement \"{name}\" does not exist");
            ErrorResponse::error("26000", message)
        })
    }

    /// Executes a command and reads further messages meanwhile.
    async fn run_command(
        &mut self,
        command: &ConsoleCommand,
    ) -> Result<Result<ConsoleAnswer, ErrorResponse>, SessionEnd> {
        let (admin, caller) = (Arc::clone(&self.admin), self.caller.clone());
        let cancelled = Arc::clone(&self.grant.cancelled);
        let mut cancelled = std::pin::pin!(cancelled.notified());
        cancelled.as_mut().enable();
        let only_waits = command.only_waits();
        let command = command.clone();
        let mut task = CommandTask {
            handle: tokio::spawn(async move { execute(&admin, caller, command).await }),
            aborts_with_session: only_waits,
        };
        // Earlier answers must not wait for this command.
        self.flush().await?;
        loop {
            let reads = self.input.len() < MESSAGE_LEN_MAX;
            tokio::select! {
                biased;
                done = &mut task.handle => {
                    return Ok(done.unwrap_or_else(|_| Err(console_error("the command has failed"))));
                }
                () = &mut cancelled, if only_waits => return Ok(Err(cancelled_by_user())),
                ready = self.stream.readable(), if reads => {
                    ready?;
                    self.stream.read_now(&mut self.input)?;
                }
                () = reached(&mut self.phase, Phase::Ending) => return Err(shut_down()),
            }
        }
    }
}

/// A running command. It runs to completion even if the session ends, unless it only waits.
struct CommandTask {
    handle: JoinHandle<Result<ConsoleAnswer, ErrorResponse>>,
    aborts_with_session: bool,
}

impl Drop for CommandTask {
    fn drop(&mut self) {
        if self.aborts_with_session {
            self.handle.abort();
        }
    }
}

fn cancelled_by_user() -> ErrorResponse {
    ErrorResponse::error("57014", "canceling statement due to user request")
}

fn check_limit(names: usize) -> Result<(), ErrorResponse> {
    match names < NAMES_MAX {
        true => Ok(()),
        false => Err(ErrorResponse::error("54000", "too many prepared commands")),
    }
}

fn already_exists(sqlstate: &'static str, what: &str, name: &[u8]) -> ErrorResponse {
    let name = String::from_utf8_lossy(name);
    ErrorResponse::error(sqlstate, format!("{what} \"{name}\" already exists"))
}

fn portal_missing(name: &[u8]) -> ErrorResponse {
    let name = String::from_utf8_lossy(name);
    ErrorResponse::error("34000", format!("portal \"{name}\" does not exist"))
}

fn write_tag(tag: &str, out: &mut BytesMut) {
    match tag {
        "" => frame::write_empty(out, back::EMPTY_QUERY_RESPONSE),
        tag => backend::write_command_complete(out, tag),
    }
}

fn unsupported(kind: u8) -> SessionEnd {
    let message = format!("unsupported packet type for admin console: {kind}");
    SessionEnd::Error(ErrorResponse::fatal("08P01", message))
}

fn shut_down() -> SessionEnd {
    let message = "terminating connection due to administrator command";
    SessionEnd::Error(ErrorResponse::fatal("57P01", message))
}
