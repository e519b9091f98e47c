//! A simulated client: its connection, its requests, and what it was told.

use crate::program::{Action, Protocol, Step};
use bytes::BytesMut;
use paceline_net::memory::{MemoryPeer, pair};
use paceline_proxy::client::serve;
use paceline_proxy::connection_guard::ConnectionGuard;
use paceline_proxy::proxy::Proxy;
use paceline_wire::backend::{self, tag};
use paceline_wire::startup::Startup;
use paceline_wire::{frame, frontend};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The outcome of a request, as far as its client knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The rows, and the number of rows in the command tag.
    Done {
        rows: Vec<Vec<String>>,
        affected: u64,
    },
    /// PostgreSQL or Paceline has refused it: it has done nothing.
    Failed { sqlstate: String },
    /// The connection was lost.
    Unknown,
}

/// A request, or one of a transaction, and its answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    pub(crate) client: usize,
    pub(crate) request: Request,
    pub(crate) protocol: Protocol,
    pub(crate) sent: Duration,
    /// The number of the request in order of arrival.
    pub(crate) arrival: u64,
    pub(crate) answered: Duration,
    pub(crate) outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Request {
    Append {
        list: i32,
        element: u64,
        size_max: Option<i32>,
    },
    Upsert {
        list: i32,
        element: u64,
    },
    Insert {
        element: u64,
    },
    Read {
        list: i32,
    },
    Take,
    /// An append in a transaction of this number.
    Member {
        transaction: u64,
        list: i32,
        element: u64,
    },
    /// The end of a transaction: whether it was to be committed.
    End {
        transaction: u64,
        commits: bool,
    },
    Begin,
}

/// The state that all clients of a history share.
pub(crate) struct Record {
    pub(crate) proxy: Arc<Proxy>,
    pub(crate) began: Instant,
    pub(crate) events: RefCell<Vec<Event>>,
    arrivals: Cell<u64>,
    transactions: Cell<u64>,
}

impl Record {
    pub(crate) fn new(proxy: Arc<Proxy>) -> Self {
        Self {
            proxy,
            began: Instant::now(),
            events: RefCell::default(),
            arrivals: Cell::new(0),
            transactions: Cell::new(0),
        }
    }

    fn next(counter: &Cell<u64>) -> u64 {
        counter.set(counter.get() + 1);
        counter.get()
    }
}

/// The text of a statement and its parameters; each is written as a literal in a simple query.
struct Statement {
    text: &'static str,
    parameters: Vec<Parameter>,
}

#[derive(Debug, Clone)]
enum Parameter {
    Int(i32),
    Text(String),
}

const APPEND: &str =
    "UPDATE lists SET elements = elements || $1, size = size + 1 WHERE id = $2 RETURNING elements";
const APPEND_IF: &str = "UPDATE lists SET elements = elements || $1, size = size + 1 WHERE id = $2 AND size < $3 RETURNING elements";
const UPSERT: &str = "INSERT INTO lists (id, elements, size) VALUES ($2, $1, 1) ON CONFLICT (id) DO UPDATE \
    SET elements = lists.elements || excluded.elements, size = lists.size + 1 RETURNING elements";
const INSERT: &str = "INSERT INTO events (tag) VALUES ($1)";
const READ: &str = "SELECT elements FROM lists WHERE id = $1";
const TAKE: &str = "DELETE FROM jobs WHERE id = (SELECT id FROM jobs ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) \
    RETURNING id, tag";

/// An element as it stands in a list.
fn written(element: u64) -> Parameter {
    Parameter::Text(format!(",{element}"))
}

impl Statement {
    fn of(request: &Request) -> Self {
        let (text, parameters) = match request {
            Request::Append {
                list,
                element,
                size_max: None,
            }
            | Request::Member { list, element, .. } => {
                (APPEND, vec![written(*element), Parameter::Int(*list)])
            }
            Request::Append {
                list,
                element,
                size_max: Some(max),
            } => (
                APPEND_IF,
                vec![
                    written(*element),
                    Parameter::Int(*list),
                    Parameter::Int(*max),
                ],
            ),
            Request::Upsert { list, element } => {
                (UPSERT, vec![written(*element), Parameter::Int(*list)])
            }
            Request::Insert { element } => (INSERT, vec![written(*element)]),
            Request::Read { list } => (READ, vec![Parameter::Int(*list)]),
            Request::Take => (TAKE, Vec::new()),
            Request::Begin => ("BEGIN", Vec::new()),
            Request::End { commits: true, .. } => ("COMMIT", Vec::new()),
            Request::End { commits: false, .. } => ("ROLLBACK", Vec::new()),
        };
        Self { text, parameters }
    }

    fn with_literals(&self) -> String {
        let mut text = self.text.to_owned();
        for (number, parameter) in (1..).zip(&self.parameters) {
            let literal = match parameter {
                Parameter::Int(number) => number.to_string(),
                Parameter::Text(text) => format!("'{text}'"),
            };
            text = text.replace(&format!("${number}"), &literal);
        }
        text
    }
}

/// A connection of a client.
struct Connection {
    peer: MemoryPeer,
    input: BytesMut,
    /// Texts that the client has prepared on it; the name is the place in the list.
    prepared: Vec<&'static str>,
}

/// The connection is lost.
struct Lost;

pub(crate) struct Client {
    pub(crate) number: usize,
    pub(crate) record: Rc<Record>,
    connection: Option<Connection>,
}

impl Client {
    pub(crate) fn new(number: usize, record: &Rc<Record>) -> Self {
        Self {
            number,
            record: Rc::clone(record),
            connection: None,
        }
    }

    /// Runs a program.
    pub(crate) async fn run(mut self, steps: Vec<Step>) {
        for step in steps {
            sleep(Duration::from_millis(step.pause_ms)).await;
            self.step(&step).await;
        }
        if let Some(connection) = self.connection {
            let mut out = BytesMut::new();
            frontend::write_terminate(&mut out);
            connection.peer.send(&out);
        }
    }

    async fn step(&mut self, step: &Step) {
        let request = match &step.action {
            Action::Append {
                list,
                element,
                size_max,
            } => Request::Append {
                list: *list,
                element: *element,
                size_max: *size_max,
            },
            Action::Upsert { list, element } => Request::Upsert {
                list: *list,
                element: *element,
            },
            Action::Insert { element } => Request::Insert { element: *element },
            Action::Read { list } => Request::Read { list: *list },
            Action::Take => Request::Take,
            Action::Transaction {
                appends,
                pause_ms,
                commits,
            } => {
                return self.transaction(step, appends, *pause_ms, *commits).await;
            }
        };
        self.request(request, step).await;
    }

    /// After an error, the transaction is rolled back. Only the last request may be the one at which the client leaves.
    async fn transaction(
        &mut self,
        step: &Step,
        appends: &[(i32, u64)],
        pause_ms: u64,
        commits: bool,
    ) {
        let transaction = Record::next(&self.record.transactions);
        let stays = Step {
            leaves: false,
            ..step.clone()
        };
        let mut done = self.request(Request::Begin, &stays).await;
        for (list, element) in appends {
            if !done {
                break;
            }
            let member = Request::Member {
                transaction,
                list: *list,
                element: *element,
            };
            done = self.request(member, &stays).await;
        }
        // Without a connection there is no transaction.
        if self.connection.is_none() {
            return;
        }
        sleep(Duration::from_millis(pause_ms)).await;
        let commits = commits && done;
        self.request(
            Request::End {
                transaction,
                commits,
            },
            step,
        )
        .await;
    }

    /// Sends a request and notes its answer. Returns whether it was executed.
    async fn request(&mut self, request: Request, step: &Step) -> bool {
        if !self.connect().await {
            return false;
        }
        let mut event = Event {
            client: self.number,
            request,
            protocol: step.protocol,
            sent: self.record.began.elapsed(),
            arrival: 0,
            answered: Duration::ZERO,
            outcome: Outcome::Unknown,
        };
        let answer = self.exchange(&mut event, step).await;
        event.outcome = answer.unwrap_or(Outcome::Unknown);
        event.answered = self.record.began.elapsed();
        if event.outcome == Outcome::Unknown {
            self.connection = None;
        }
        let done = matches!(event.outcome, Outcome::Done { .. });
        self.record.events.borrow_mut().push(event);
        done
    }

    async fn exchange(&mut self, event: &mut Event, step: &Step) -> Result<Outcome, Lost> {
        let connection = self.connection.as_mut().ok_or(Lost)?;
        let statement = Statement::of(&event.request);
        if step.protocol == Protocol::Prepared {
            connection.prepare(&statement).await?;
        }
        let bytes = connection.messages(&statement, step);
        let part = if step.split { bytes.len() / 2 } else { 0 };
        if step.split {
            connection.peer.send(&bytes[..part]);
            sleep(Duration::from_millis(1)).await;
        }
        connection.peer.send(&bytes[part..]);
        event.sent = self.record.began.elapsed();
        event.arrival = Record::next(&self.record.arrivals);
        if step.leaves {
            sleep(Duration::from_millis(step.pause_ms)).await;
            if let Some(connection) = self.connection.take() {
                connection.peer.reset();
            }
            return Err(Lost);
        }
        connection.answer().await
    }

    /// Connects, unless the client is connected. Returns whether it is now.
    async fn connect(&mut self) -> bool {
        const ATTEMPTS: usize = 20;
        for _ in 0..ATTEMPTS {
            if self.connection.is_some() {
                return true;
            }
            let (stream, peer) = pair(65_536);
            let proxy = Arc::clone(&self.record.proxy);
            let guard = ConnectionGuard::new(&proxy);
            tokio::spawn(async move {
                serve(proxy, stream, guard).await;
            });
            let mut connection = Connection {
                peer,
                input: BytesMut::new(),
                prepared: Vec::new(),
            };
            let mut out = BytesMut::new();
            let named = |name: &str, value: &str| (name.to_owned(), value.to_owned());
            let parameters = vec![named("user", "postgres"), named("database", "simulation")];
            Startup {
                minor: 0,
                parameters,
            }
            .write(&mut out);
            connection.peer.send(&out);
            match connection.until_ready().await {
                Ok(_) => self.connection = Some(connection),
                Err(Lost) => sleep(Duration::from_millis(500)).await,
            }
        }
        self.connection.is_some()
    }
}

fn statement_name(number: usize) -> String {
    format!("s{number}")
}

fn write_parse(name: &str, text: &str, out: &mut BytesMut) {
    let parse = frontend::Parse {
        name: name.as_bytes(),
        text: text.as_bytes(),
        types: frontend::NO_PARAMETER_TYPES,
    };
    parse.write(out);
}

impl Connection {
    /// Prepares a statement, unless the client has prepared it on this connection.
    async fn prepare(&mut self, statement: &Statement) -> Result<(), Lost> {
        if statement.parameters.is_empty() || self.prepared.contains(&statement.text) {
            return Ok(());
        }
        let mut out = BytesMut::new();
        write_parse(
            &statement_name(self.prepared.len()),
            statement.text,
            &mut out,
        );
        frontend::write_sync(&mut out);
        self.peer.send(&out);
        let messages = self.until_ready().await?;
        if messages
            .iter()
            .any(|(kind, _)| *kind == tag::ERROR_RESPONSE)
        {
            return Err(Lost);
        }
        self.prepared.push(statement.text);
        Ok(())
    }

    /// The messages of a request.
    fn messages(&mut self, statement: &Statement, step: &Step) -> BytesMut {
        let mut out = BytesMut::new();
        if step.protocol == Protocol::Simple || statement.parameters.is_empty() {
            frontend::write_query(&mut out, &statement.with_literals());
            return out;
        }
        let mut name = String::new();
        if step.protocol == Protocol::Prepared {
            let mut known = self.prepared.iter();
            let known = known.position(|text| *text == statement.text);
            name = known.map(statement_name).unwrap_or_default();
        } else {
            write_parse(&name, statement.text, &mut out);
        }
        let values = statement
            .parameters
            .iter()
            .map(|parameter| match parameter {
                Parameter::Int(number) if step.binary => (true, number.to_be_bytes().to_vec()),
                Parameter::Int(number) => (false, number.to_string().into_bytes()),
                Parameter::Text(text) => (step.binary, text.clone().into_bytes()),
            });
        let values: Vec<_> = values.collect();
        let values: Vec<_> = values
            .iter()
            .map(|(binary, bytes)| (*binary, Some(&bytes[..])))
            .collect();
        frontend::write_bind(
            &mut out,
            name.as_bytes(),
            &values,
            &[i16::from(step.binary)],
        );
        frontend::write_describe_portal(&mut out);
        frontend::write_execute(&mut out);
        frontend::write_sync(&mut out);
        out
    }

    /// The messages before the next ReadyForQuery.
    async fn until_ready(&mut self) -> Result<Vec<(u8, Vec<u8>)>, Lost> {
        let mut messages = Vec::new();
        loop {
            while let Some((kind, message)) =
                frame::split_message(&mut self.input).map_err(|_| Lost)?
            {
                if kind == tag::READY_FOR_QUERY {
                    return Ok(messages);
                }
                messages.push((kind, message[frame::HEADER_LEN..].to_vec()));
            }
            if !self.peer.receive(&mut self.input).await {
                return Err(Lost);
            }
        }
    }

    async fn answer(&mut self) -> Result<Outcome, Lost> {
        let (mut rows, mut affected, mut failed) = (Vec::new(), 0, None);
        let mut binary = Vec::new();
        for (kind, body) in self.until_ready().await? {
            match kind {
                tag::ROW_DESCRIPTION => {
                    let fields = backend::read_fields(&body).expect("a row description");
                    let formats = backend::read_formats(&body).expect("a row description");
                    let both = fields.iter().zip(formats);
                    binary = both
                        .map(|(field, format)| format == 1 && field.type_oid == 23)
                        .collect();
                }
                tag::DATA_ROW => {
                    let values = backend::row_values(&body).expect("a row").into_iter();
                    let text = |(value, binary): (Option<&[u8]>, &bool)| {
                        let value = value.expect("no column is null");
                        match binary {
                            true => i32::from_be_bytes(value.try_into().unwrap()).to_string(),
                            false => String::from_utf8(value.to_vec()).unwrap(),
                        }
                    };
                    rows.push(values.zip(&binary).map(text).collect());
                }
                tag::COMMAND_COMPLETE => affected = backend::affected_rows(&body).unwrap_or(0),
                tag::ERROR_RESPONSE => {
                    failed = backend::error_field(&body, b'C').map(str::to_owned);
                }
                _ => {}
            }
        }

        Ok(match failed {
            Some(sqlstate) => Outcome::Failed { sqlstate },
            None => Outcome::Done { rows, affected },
        })
    }
}
