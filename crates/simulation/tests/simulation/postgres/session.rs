//! One session: reads messages, executes statements, and answers.

use super::catalog::Command;
use super::error::{SqlError, Stop, failed};
use super::execute::{Outcome, execute};
use super::server::{Server, SessionState};
use super::settings::Settings;
use super::tree::{Body, Statement};
use super::value::{Type, Value, read_binary, read_text};
use crate::mutation::Mutation;
use bytes::{BufMut, Bytes, BytesMut};
use paceline_net::memory::MemoryPeer;
use paceline_wire::backend::{self, Status};
use paceline_wire::frontend::{self, BindNames, BindValues, Parse, Target};
use paceline_wire::reader::Reader;
use paceline_wire::startup::{self, Packet};
use paceline_wire::{ErrorResponse, frame};
use std::collections::HashMap;
use std::rc::Rc;

/// A statement that is prepared.
#[derive(Debug, Clone)]
struct Prepared {
    commands: Rc<Vec<Command>>,
    text: Rc<str>,
}

#[derive(Debug, Clone)]
struct Portal {
    prepared: Prepared,
    parameters: Vec<Value>,
    formats: Vec<i16>,
}

pub(crate) struct Session {
    server: Rc<Server>,
    state: Rc<SessionState>,
    peer: MemoryPeer,
    input: BytesMut,
    out: BytesMut,
    settings: Settings,
    prepared: HashMap<Vec<u8>, Prepared>,
    portals: HashMap<Vec<u8>, Portal>,
    /// `Status::Idle` also in a transaction that ends with the next Sync.
    status: Status,
    /// An error: messages are ignored up to Sync.
    skips: bool,
}

/// The connection is closed.
struct Closed;

impl Session {
    pub(crate) fn new(server: Rc<Server>, state: Rc<SessionState>, peer: MemoryPeer) -> Self {
        Self {
            server,
            state,
            peer,
            input: BytesMut::new(),
            out: BytesMut::new(),
            settings: Settings::default(),
            prepared: HashMap::new(),
            portals: HashMap::new(),
            status: Status::Idle,
            skips: false,
        }
    }

    pub(crate) async fn run(mut self) {
        if self.log_in().await.is_err() {
            return;
        }
        while let Ok((kind, body)) = self.message().await {
            self.server.steps.set(self.server.steps.get() + 1);
            if self.server.mutator.is(Mutation::Forgotten) && self.server.within(99) == 0 {
                std::future::pending::<()>().await;
            }
            let done = match kind {
                frontend::tag::TERMINATE => return,
                frontend::tag::QUERY => {
                    self.simple(&body).await;
                    self.ready().await
                }
                frontend::tag::SYNC => {
                    self.skips = false;
                    if self.server.mutator.is(Mutation::AnswerBeforeCommit) {
                        let _ = self.ready().await;
                        self.end_implicit().await;
                        continue;
                    }
                    self.end_implicit().await;
                    self.ready().await
                }
                frontend::tag::FLUSH => self.deliver().await,
                _ if self.skips => Ok(()),
                _ => {
                    if let Err(error) = self.extended(kind, &body).await {
                        self.refuse(&error);
                        self.fail();
                        self.skips = true;
                    }
                    Ok(())
                }
            };
            if done.is_err() {
                return;
            }
        }
    }

    async fn log_in(&mut self) -> Result<(), Closed> {
        loop {
            match startup::read(&self.input) {
                Ok(Some((Packet::Cancel { process, .. }, _))) => {
                    self.server.cancel(process);
                    return Err(Closed);
                }
                Ok(Some((Packet::Startup(_), len))) => {
                    let _ = self.input.split_to(len);
                    break;
                }
                Ok(None) => {}
                other => panic!("the first packet is {other:?}"),
            }
            if !self.peer.receive(&mut self.input).await {
                return Err(Closed);
            }
        }
        backend::write_authentication_ok(&mut self.out);
        for (name, value) in &self.server.catalog.reported {
            backend::write_parameter_status(&mut self.out, name, value);
        }
        backend::write_backend_key(&mut self.out, self.state.process, 1);
        self.ready().await
    }

    async fn message(&mut self) -> Result<(u8, Bytes), Closed> {
        loop {
            if let Some((kind, message)) =
                frame::split_message(&mut self.input).expect("messages are well-formed")
            {
                self.server
                    .captured
                    .borrow_mut()
                    .read
                    .extend_from_slice(&message);
                return Ok((kind, message.slice(frame::HEADER_LEN..)));
            }
            if !self.peer.receive(&mut self.input).await {
                return Err(Closed);
            }
        }
    }

    async fn ready(&mut self) -> Result<(), Closed> {
        self.status.write(&mut self.out);
        self.deliver().await
    }

    /// Sends what has been written, perhaps in two parts.
    async fn deliver(&mut self) -> Result<(), Closed> {
        let out = self.out.split();
        self.server
            .captured
            .borrow_mut()
            .sent
            .extend_from_slice(&out);
        if self.server.delays.network_ms > 0 && self.server.within(3) == 0 && !out.is_empty() {
            let part = usize::try_from(self.server.within(out.len() as u64 - 1)).unwrap();
            self.peer.send(&out[..part]);
            self.server.pause(self.server.delays.network_ms).await;
            self.peer.send(&out[part..]);
        } else {
            self.peer.send(&out);
        }
        Ok(())
    }

    fn refuse(&mut self, error: &SqlError) {
        ErrorResponse::error(error.sqlstate, error.message.clone()).write(&mut self.out);
    }

    /// A statement has failed: its transaction is undone.
    fn fail(&mut self) {
        self.end_now(false);
        if self.status == Status::Transaction {
            self.status = Status::Failed;
        }
    }

    fn end_now(&mut self, committed: bool) {
        let xid = self.state.xid.replace(0);
        self.state.commits.set(false);
        if xid != 0 {
            let mut storage = self.server.storage.borrow_mut();
            let is_lost =
                self.server.mutator.is(Mutation::CommitLost) && self.server.within(9) == 0;
            match committed && !is_lost {
                true => storage.commit(xid),
                false => storage.abort(xid),
            }
        }
        self.settings.end(committed);
    }

    async fn commit(&mut self) {
        let xid = self.state.xid.get();
        if xid != 0 && self.server.storage.borrow().has_changed(xid) {
            self.state.commits.set(true);
            self.server.pause(self.server.delays.commit_ms).await;
        }
        self.end_now(true);
    }

    /// Commits a transaction without BEGIN.
    async fn end_implicit(&mut self) {
        if self.status == Status::Idle {
            self.commit().await;
        }
        self.portals.clear();
    }

    async fn simple(&mut self, body: &[u8]) {
        let text = Reader::new(body).str().expect("a text").to_owned();
        let commands = self.server.catalog.commands(&text, &[]);
        if commands.is_empty() {
            return frame::write_empty(&mut self.out, backend::tag::EMPTY_QUERY_RESPONSE);
        }
        for command in commands.iter() {
            if let Some(fields) = command.fields(&self.server.catalog) {
                backend::write_fields(&mut self.out, &fields, &[]);
            }
            if let Err(error) = self.command(command, &text, &[], &[]).await {
                self.refuse(&error);
                return self.fail();
            }
        }
        self.end_implicit().await;
    }

    async fn extended(&mut self, kind: u8, body: &[u8]) -> Result<(), SqlError> {
        let broken = |_| failed("08P01", "invalid message");
        match kind {
            frontend::tag::PARSE => {
                let parse = Parse::read(body).map_err(broken)?;
                let types = backend::read_parameter_types(parse.types).map_err(broken)?;
                let text = std::str::from_utf8(parse.text).expect("UTF-8");
                let prepared = Prepared {
                    commands: self.server.catalog.commands(text, &types),
                    text: Rc::from(text),
                };
                self.prepared.insert(parse.name.to_vec(), prepared);
                frame::write_empty(&mut self.out, backend::tag::PARSE_COMPLETE);
            }
            frontend::tag::BIND => {
                let names = BindNames::read(body).map_err(broken)?;
                let prepared = self.statement(names.statement)?;
                let values = BindValues::read(names.rest, 0).map_err(broken)?;
                let types = prepared
                    .commands
                    .first()
                    .map_or(&[][..], Command::parameters);
                let mut parameters = read_parameters(names.rest, &values, types)?;
                self.server.mutator.bound(&prepared.text, &mut parameters);
                let portal = Portal {
                    prepared,
                    parameters,
                    formats: values.result_formats,
                };
                self.portals.insert(names.portal.to_vec(), portal);
                frame::write_empty(&mut self.out, backend::tag::BIND_COMPLETE);
            }
            frontend::tag::DESCRIBE => self.describe(Target::read(body).map_err(broken)?)?,
            frontend::tag::EXECUTE => {
                let name = Reader::new(body).cstr().map_err(broken)?;
                let missing = || failed("34000", "portal does not exist");
                let portal = self.portals.get(name).cloned().ok_or_else(missing)?;
                match portal.prepared.commands.first() {
                    Some(command) => {
                        if self.server.mutator.is(Mutation::CommitRepeated) {
                            let last = (
                                Rc::clone(&portal.prepared.commands),
                                portal.parameters.clone(),
                            );
                            self.state.last.replace(Some(last));
                        }
                        let text = Rc::clone(&portal.prepared.text);
                        self.command(command, &text, &portal.parameters, &portal.formats)
                            .await?;
                    }
                    None => frame::write_empty(&mut self.out, backend::tag::EMPTY_QUERY_RESPONSE),
                }
            }
            frontend::tag::CLOSE => {
                match Target::read(body).map_err(broken)? {
                    Target::Statement(name) => drop(self.prepared.remove(name)),
                    Target::Portal(name) => drop(self.portals.remove(name)),
                }
                frame::write_empty(&mut self.out, backend::tag::CLOSE_COMPLETE);
            }
            other => panic!("message {:?} is not simulated", char::from(other)),
        }
        Ok(())
    }

    fn statement(&self, name: &[u8]) -> Result<Prepared, SqlError> {
        let missing = || {
            let message = format!(
                "prepared statement \"{}\" does not exist",
                String::from_utf8_lossy(name)
            );
            failed("26000", &message)
        };
        self.prepared.get(name).cloned().ok_or_else(missing)
    }

    fn describe(&mut self, target: Target<'_>) -> Result<(), SqlError> {
        let (prepared, formats) = match target {
            Target::Statement(name) => (self.statement(name)?, Vec::new()),
            Target::Portal(name) => {
                let missing = || failed("34000", "portal does not exist");
                let portal = self.portals.get(name).ok_or_else(missing)?;
                (portal.prepared.clone(), portal.formats.clone())
            }
        };
        let command = prepared.commands.first();
        if matches!(target, Target::Statement(_)) {
            let types = command.map_or(&[][..], Command::parameters);
            frame::write(&mut self.out, backend::tag::PARAMETER_DESCRIPTION, |out| {
                out.put_u16(u16::try_from(types.len()).unwrap());
                types.iter().for_each(|of| out.put_u32(of.oid()));
            });
        }
        match command.and_then(|command| command.fields(&self.server.catalog)) {
            Some(fields) => backend::write_fields(&mut self.out, &fields, &formats),
            None => frame::write_empty(&mut self.out, backend::tag::NO_DATA),
        }
        Ok(())
    }

    /// Executes one statement and writes its answer.
    async fn command(
        &mut self,
        command: &Command,
        text: &str,
        parameters: &[Value],
        formats: &[i16],
    ) -> Result<(), SqlError> {
        if self.status == Status::Failed && !matches!(command, Command::Commit | Command::Rollback)
        {
            let message =
                "current transaction is aborted, commands ignored until end of transaction block";
            return Err(failed("25P02", message));
        }
        let tag = match command {
            Command::Execute(statement) => {
                return self.execute(statement, text, parameters, formats).await;
            }
            Command::Answer(answer) => {
                self.server.pause(self.server.delays.statement_ms).await;
                answer.write_rows(&mut self.out);
                return Ok(());
            }
            Command::Begin => {
                self.status = Status::Transaction;
                "BEGIN"
            }
            Command::Commit if self.status == Status::Failed => self.roll_back(),
            Command::Commit => {
                self.commit().await;
                self.status = Status::Idle;
                "COMMIT"
            }
            Command::Rollback => self.roll_back(),
            Command::Set(name, value, local) => {
                self.settings.set(name, value.as_deref(), *local);
                if value.is_some() { "SET" } else { "RESET" }
            }
            Command::Discard(tag, settings, statements) => {
                if *settings {
                    self.settings.reset_all();
                }
                if *statements {
                    self.prepared.clear();
                }
                tag
            }
        };
        backend::write_command_complete(&mut self.out, tag);
        Ok(())
    }

    fn roll_back(&mut self) -> &'static str {
        self.end_now(false);
        self.status = Status::Idle;
        "ROLLBACK"
    }

    async fn execute(
        &mut self,
        statement: &Statement,
        text: &str,
        parameters: &[Value],
        formats: &[i16],
    ) -> Result<(), SqlError> {
        self.server.pause(self.server.delays.statement_ms).await;
        let mut outcome = self.outcome(statement, parameters).await?;
        if self.server.mutator.is(Mutation::WriteTwice) && text.starts_with("UPDATE lists") {
            outcome = self.outcome(statement, parameters).await?;
        }
        self.server.mutator.executed(text, parameters, &mut outcome);
        if self.server.mutator.undoes(text) {
            let (xid, mut storage) = (self.state.xid.get(), self.server.storage.borrow_mut());
            let mark = storage.mark(xid).saturating_sub(1);
            storage.undo(xid, mark);
        }
        for row in &outcome.rows {
            frame::write(&mut self.out, backend::tag::DATA_ROW, |out| {
                out.put_u16(u16::try_from(row.len()).unwrap());
                for (place, value) in row.iter().enumerate() {
                    let format = match formats {
                        [] => 0,
                        [one] => *one,
                        all => all[place],
                    };
                    value.write(format == 1, out);
                }
            });
        }
        let (rows, changed) = (outcome.rows.len(), outcome.changed);
        let tag = match statement.query.body {
            Body::Insert(_) => format!("INSERT 0 {changed}"),
            Body::Update(_) => format!("UPDATE {changed}"),
            Body::Delete(_) => format!("DELETE {changed}"),
            _ => format!("SELECT {rows}"),
        };
        backend::write_command_complete(&mut self.out, &tag);
        Ok(())
    }

    async fn outcome(
        &mut self,
        statement: &Statement,
        parameters: &[Value],
    ) -> Result<Outcome, SqlError> {
        let snapshot = {
            let mut storage = self.server.storage.borrow_mut();
            if self.state.xid.get() == 0 {
                self.state.xid.set(storage.begin());
            }
            storage.snapshot(self.state.xid.get())
        };
        loop {
            let done = {
                let mut storage = self.server.storage.borrow_mut();
                execute(
                    statement,
                    parameters,
                    snapshot,
                    &mut storage,
                    &mut self.settings,
                )
            };
            match done {
                Ok(outcome) => return Ok(outcome),
                Err(Stop::Error(error)) => return Err(error),
                Err(Stop::Waits(row)) => {
                    let limit = self.settings.milliseconds("lock_timeout");
                    self.server.wait_for_row(&self.state, row, limit).await?;
                }
            }
        }
    }
}

fn read_parameters(
    rest: &[u8],
    values: &BindValues,
    types: &[Type],
) -> Result<Vec<Value>, SqlError> {
    let values = values.values.iter().zip(&values.binary).enumerate();
    values
        .map(|(place, (range, binary))| {
            let of = types.get(place).copied().unwrap_or(Type::Text);
            match range {
                None => Ok(Value::Null),
                Some(range) if *binary => read_binary(&rest[range.clone()], of),
                Some(range) => {
                    let text = std::str::from_utf8(&rest[range.clone()]);
                    read_text(
                        text.map_err(|_| failed("22021", "invalid byte sequence"))?,
                        of,
                    )
                }
            }
        })
        .collect()
}
