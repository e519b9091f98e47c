//! A blocking client that sends any bytes and shows every message that the server returns. Time-outs are failures, never
//! synchronisation.

use std::collections::{BTreeMap, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use super::message;
use super::reply::{Fields, Message, Reply};
use super::wait::LIMIT;

/// Protocol 3.0.
pub(crate) const PROTOCOL: u32 = 3 << 16;
/// A read that finds nothing for this long gives the caller a chance to look at its limit.
const READ_SLICE: Duration = Duration::from_millis(500);

/// The other side has closed the connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Lost;

/// The transport of a client's bytes.
pub(crate) trait Line: Read + Write + Send {
    /// Nothing more will be sent.
    fn close_sending(&mut self);
}

impl Line for TcpStream {
    fn close_sending(&mut self) {
        let _ = self.shutdown(Shutdown::Write);
    }
}

/// A connection.
pub(crate) struct RawClient {
    line: Box<dyn Line>,
    port: u16,
    buffer: Vec<u8>,
    stash: VecDeque<Message>,
    /// The values that ParameterStatus has reported so far.
    pub(crate) parameters: BTreeMap<String, String>,
    /// BackendKeyData: process id and secret, as received.
    pub(crate) key: Vec<u8>,
}

impl RawClient {
    /// A connection that has sent nothing yet.
    pub(crate) fn open(port: u16) -> Self {
        Self::over(port, Box::new(socket(port)))
    }

    /// The same over something else than a bare socket.
    pub(crate) fn over(port: u16, line: Box<dyn Line>) -> Self {
        Self {
            line,
            port,
            buffer: Vec::new(),
            stash: VecDeque::new(),
            parameters: BTreeMap::new(),
            key: Vec::new(),
        }
    }

    /// Connects and logs in (trust).
    #[track_caller]
    pub(crate) fn connect(port: u16, parameters: &[(&str, &str)]) -> Self {
        match Self::try_connect(port, parameters) {
            Ok(client) => client,
            Err(fields) => panic!("login failed: {fields:?}"),
        }
    }

    /// Connects and logs in, or returns the error that the other side gave instead.
    #[track_caller]
    pub(crate) fn try_connect(port: u16, parameters: &[(&str, &str)]) -> Result<Self, Fields> {
        Self::open(port).try_log_in(parameters)
    }

    /// Logs in (trust), or returns the error that the other side gave instead.
    #[track_caller]
    pub(crate) fn try_log_in(mut self, parameters: &[(&str, &str)]) -> Result<Self, Fields> {
        // A server that restarts may close the connection without a message.
        if self
            .try_send(&message::startup(PROTOCOL, parameters))
            .is_err()
        {
            return Err(Fields::default());
        }
        loop {
            let Ok(message) = self.try_receive() else {
                return Err(Fields::default());
            };
            match message.tag {
                b'E' => return Err(message.fields()),
                b'Z' => return Ok(self),
                b'R' => assert_eq!(message.body, [0, 0, 0, 0], "only trust is spoken here"),
                _ => {}
            }
        }
    }

    #[track_caller]
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.try_send(bytes).unwrap();
    }

    /// Sends to a connection that may be gone.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.line.write_all(bytes)?;
        self.line.flush()
    }

    /// The next message, whatever it is.
    #[track_caller]
    pub(crate) fn receive(&mut self) -> Message {
        match self.try_receive() {
            Ok(message) => message,
            Err(Lost) => panic!("the connection was closed instead of an answer"),
        }
    }

    /// The next message, or that the connection was closed.
    #[track_caller]
    pub(crate) fn try_receive(&mut self) -> Result<Message, Lost> {
        if let Some(message) = self.stash.pop_front() {
            return Ok(message);
        }
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(message) = self.take_message() {
                self.note(&message);
                return Ok(message);
            }
            assert!(Instant::now() < deadline, "no message within {LIMIT:?}");
            self.read_some()?;
        }
    }

    /// The messages up to and with ReadyForQuery.
    #[track_caller]
    pub(crate) fn reply(&mut self) -> Reply {
        let mut messages = Vec::new();
        loop {
            let message = self.receive();
            let last = message.tag == b'Z';
            messages.push(message);
            if last {
                return Reply(messages);
            }
        }
    }

    /// The messages up to and with the first with one of these tags.
    #[track_caller]
    pub(crate) fn receive_until(&mut self, tags: &[u8]) -> Vec<Message> {
        let mut messages = vec![self.receive()];
        while !messages.last().is_some_and(|last| tags.contains(&last.tag)) {
            messages.push(self.receive());
        }
        messages
    }

    /// The messages up to the end of the connection.
    #[track_caller]
    pub(crate) fn receive_to_end(&mut self) -> Vec<Message> {
        let mut messages = Vec::new();
        while let Ok(message) = self.try_receive() {
            messages.push(message);
        }
        messages
    }

    /// Waits for the reply and keeps it for the next call of `reply`.
    #[track_caller]
    pub(crate) fn await_reply(&mut self) {
        let reply = self.reply();
        self.stash.extend(reply.0);
    }

    /// One raw byte: the answer to SSLRequest and GSSENCRequest.
    #[track_caller]
    pub(crate) fn receive_byte(&mut self) -> u8 {
        let deadline = Instant::now() + LIMIT;
        while self.buffer.is_empty() {
            assert!(Instant::now() < deadline, "no byte within {LIMIT:?}");
            self.read_some().unwrap();
        }
        self.buffer.remove(0)
    }

    /// Sends a unit and returns its reply.
    #[track_caller]
    pub(crate) fn ask(&mut self, bytes: &[u8]) -> Reply {
        self.send(bytes);
        self.reply()
    }

    /// Runs SQL by the simple protocol.
    #[track_caller]
    pub(crate) fn simple(&mut self, sql: &str) -> Reply {
        self.ask(&message::query(sql))
    }

    /// Runs SQL that must succeed.
    #[track_caller]
    pub(crate) fn ok(&mut self, sql: &str) -> Reply {
        self.simple(sql).expect_ok(sql)
    }

    /// The first value of a query.
    #[track_caller]
    pub(crate) fn value(&mut self, sql: &str) -> String {
        self.ok(sql).value()
    }

    /// The first value of a query, as a number.
    #[track_caller]
    pub(crate) fn number(&mut self, sql: &str) -> i64 {
        self.value(sql).parse().unwrap()
    }

    /// Asks for the running unit to be cancelled, as libpq does: on a connection of its own, which is then closed by the
    /// other side.
    pub(crate) fn cancel(&self) {
        self.canceller()();
    }

    /// Does the same when it is called, while the client waits.
    pub(crate) fn canceller(&self) -> impl Fn() + Send + use<> {
        let (port, key) = (self.port, self.key.clone());
        move || {
            let mut other = Self::open(port);
            let (pid, secret) = key.split_at(4);
            let pid = u32::from_be_bytes(pid.try_into().unwrap());
            other.send(&message::cancel_request(pid, secret));
            assert!(other.receive_to_end().is_empty());
        }
    }

    /// The process id that the client was given, as `PQbackendPID()` returns it.
    pub(crate) fn process(&self) -> u32 {
        let process = self.key.first_chunk().copied();
        u32::from_be_bytes(process.unwrap())
    }

    /// Closes the sending side and waits for the other side to close, too.
    pub(crate) fn hang_up(mut self) {
        self.line.close_sending();
        self.receive_to_end();
    }

    fn take_message(&mut self) -> Option<Message> {
        let head: [u8; 5] = self.buffer.get(..5)?.try_into().ok()?;
        let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize + 1;
        let body = self.buffer.get(5..length)?.to_vec();
        self.buffer.drain(..length);
        Some(Message { tag: head[0], body })
    }

    fn note(&mut self, message: &Message) {
        match message.tag {
            b'K' => self.key = message.body.clone(),
            b'S' => {
                let text = String::from_utf8_lossy(&message.body).into_owned();
                if let Some((name, value)) = text.trim_end_matches('\0').split_once('\0') {
                    self.parameters.insert(name.to_owned(), value.to_owned());
                }
            }
            _ => {}
        }
    }

    fn read_some(&mut self) -> Result<(), Lost> {
        let mut chunk = [0; 65536];
        match self.line.read(&mut chunk) {
            Ok(0) => Err(Lost),
            Ok(count) => {
                self.buffer.extend(&chunk[..count]);
                Ok(())
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => Ok(()),
                _ => Err(Lost),
            },
        }
    }
}

/// A connected socket, with time-outs.
pub(crate) fn socket(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(READ_SLICE)).unwrap();
    stream.set_write_timeout(Some(LIMIT)).unwrap();
    stream
}
