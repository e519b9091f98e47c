//! A client, its session and a server. The test plays both ends.

use crate::relay::NotYet;
use crate::relay::{ListenNeed, RelayContext, RelayState, StatePolicy, Wrap};
use crate::server::ServerSide;
use crate::session::ClientSession;
use crate::settings::SettingsInterner;
use crate::template::{Template, Templates};
use crate::testing::TestShowSource;
use bytes::{Bytes, BytesMut};
use paceline_testing::messages::Wire;
use paceline_testing::messages::server::closed;
use paceline_testing::read_out;
use paceline_wire::Frames;

/// The names of functions that change settings unknown to the text contain this.
const UNTRACKED_FUNCTION: &str = "sneaky";

/// A client on one server after another.
pub(super) struct TestRelay {
    pub(super) session: ClientSession,
    /// The session of another client of the server.
    pub(super) other: ClientSession,
    pub(super) server: ServerSide,
    pub(super) templates: Templates,
    pub(super) interner: SettingsInterner,
    pub(super) relay: RelayState,
    pub(super) policy: StatePolicy,
    /// The requests to the shared connection, and its next answer.
    pub(super) needs: Vec<ListenNeed>,
    pub(super) outcome: Result<(), Bytes>,
    /// The names of statements on servers, in order of appearance.
    names: Vec<String>,
    /// Messages of the client that the relay has not processed.
    pending: Vec<u8>,
    input: BytesMut,
    /// Paceline's messages to the server while it processed the server's messages.
    own: BytesMut,
}

impl TestRelay {
    pub(super) fn new() -> Self {
        Self::wrapped(Wrap::No)
    }

    /// A relay whose first request has this wrap.
    pub(super) fn wrapped(wrap: Wrap) -> Self {
        let interner = SettingsInterner::default();
        let (mut session, mut server) = (
            ClientSession::new(interner.none()),
            fresh_server(&interner, 100),
        );
        let templates = Templates::default();
        let mut own = BytesMut::new();
        let mut context = RelayContext {
            session: &mut session,
            server: &mut server,
            templates: &templates,
            interner: &interner,
            show_source: &TestShowSource,
            may_change_session: &may_change_session,
            policy: &StatePolicy::default(),
            query: None,
        };
        let relay = RelayState::start(&mut context, wrap, &mut own);
        Self {
            relay,
            policy: StatePolicy::default(),
            session,
            other: ClientSession::new(interner.none()),
            server,
            templates,
            interner,
            needs: Vec::new(),
            outcome: Ok(()),
            names: Vec::new(),
            input: BytesMut::new(),
            pending: Vec::new(),
            own,
        }
    }

    /// The relay has ended, and the next one starts on the same server. Returns what the server receives first.
    pub(super) fn next_relay(&mut self) -> Vec<String> {
        assert!(
            self.relay.is_over(),
            "the relay has not ended: {:?}",
            self.relay
        );
        let mut out = BytesMut::new();
        self.with_context(|relay, context| *relay = RelayState::start(context, Wrap::No, &mut out));
        self.read_to_server(&out)
    }

    /// Another client, the same each time, has the server meanwhile. Both clients are idle.
    pub(super) fn as_other<T>(&mut self, act: impl FnOnce(&mut Self) -> T) -> T {
        std::mem::swap(&mut self.session, &mut self.other);
        let closes = self.next_relay().len();
        self.server_bytes(&vec![closed(); closes].concat());
        let result = act(self);
        std::mem::swap(&mut self.session, &mut self.other);
        self.next_relay();
        result
    }

    /// The next relay is on a server that the client has not used. It keeps this many prepared statements.
    pub(super) fn on_another_server(&mut self, prepared_max: usize) {
        self.server = fresh_server(&self.interner, prepared_max);
        self.next_relay();
    }

    pub(super) fn with_context<T>(
        &mut self,
        act: impl FnOnce(&mut RelayState, &mut RelayContext<'_>) -> T,
    ) -> T {
        let mut context = RelayContext {
            session: &mut self.session,
            server: &mut self.server,
            templates: &self.templates,
            interner: &self.interner,
            show_source: &TestShowSource,
            may_change_session: &may_change_session,
            policy: &self.policy,
            query: None,
        };
        act(&mut self.relay, &mut context)
    }

    /// The client sends these messages. Returns what the server receives.
    pub(super) fn client<const N: usize>(&mut self, messages: [Wire; N]) -> Vec<String> {
        let sent = self.client_bytes(messages.concat());
        self.read_to_server(&sent)
    }

    /// As [`TestRelay::client`], in bytes.
    pub(super) fn client_bytes(&mut self, messages: Vec<u8>) -> Vec<u8> {
        let mut out = BytesMut::new();
        self.pending.extend(messages);
        self.take_pending(&mut out);
        out.to_vec()
    }

    /// Processes the client's messages as far as possible now. Parses texts that must be parsed first.
    fn take_pending(&mut self, out: &mut BytesMut) {
        let pending = std::mem::take(&mut self.pending);
        let mut frames = Frames::new(&pending).peekable();
        while let Some(frame) = frames.peek() {
            match self.with_context(|relay, context| relay.client_message(*frame, context, out)) {
                Ok(()) => drop(frames.next()),
                Err(NotYet::Unparsed(unparsed)) => self.templates.parse(&unparsed),
                Err(NotYet::Describing) => break,
                Err(NotYet::Listening(need)) => {
                    self.needs.push(need.clone());
                    let outcome = std::mem::replace(&mut self.outcome, Ok(()));
                    self.relay.listen_done(need, outcome);
                }
            }
        }
        self.pending = frames.flat_map(|frame| frame.bytes).copied().collect();
    }

    /// The server sends these messages. Returns what the client receives.
    pub(super) fn server<const N: usize>(&mut self, messages: [Wire; N]) -> Vec<String> {
        let out = self.server_bytes(&messages.concat());
        self.shorten(read_out::to_client(&out))
    }

    /// As [`TestRelay::server`], in bytes. Only the last message may be incomplete.
    pub(super) fn server_bytes(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.input.extend_from_slice(bytes);
        let (mut input, mut own) = (self.input.split(), self.own.split());
        let mut out = BytesMut::new();
        let taken = self.with_context(|relay, context| {
            relay.answer_done(&mut out);
            relay.server_bytes(&mut input, context, &mut out, &mut own)
        });
        taken.expect("messages that can be read");
        self.take_pending(&mut own);
        (self.input, self.own) = (input, own);
        out.to_vec()
    }

    /// Processes a part of the server's messages. Returns whether there are more.
    pub(super) fn server_part(&mut self, input: &mut BytesMut, out: &mut BytesMut) -> bool {
        let taken = self.with_context(|relay, context| {
            relay.server_bytes(input, context, out, &mut BytesMut::new())
        });
        taken.expect("messages that can be read")
    }

    /// Paceline's messages to the server since the last call.
    pub(super) fn own(&mut self) -> Vec<String> {
        let own = self.own.split();
        self.read_to_server(&own)
    }

    pub(super) fn read_to_server(&mut self, bytes: &[u8]) -> Vec<String> {
        self.shorten(read_out::to_server(bytes))
    }

    /// Shortens `paceline_17_0` to `s1` if it is the first such name, and so on.
    fn shorten(&mut self, lines: Vec<String>) -> Vec<String> {
        lines
            .into_iter()
            .map(|line| self.shorten_line(&line))
            .collect()
    }

    fn shorten_line(&mut self, line: &str) -> String {
        let Some((before, rest)) = line.split_once(crate::server::NAME_PREFIX) else {
            return line.to_owned();
        };
        let end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '_')
            .unwrap_or(rest.len());
        let (id, after) = rest.split_at(end);
        let seen = self.names.iter().position(|name| name == id);
        let number = seen.unwrap_or_else(|| {
            self.names.push(id.to_owned());
            self.names.len() - 1
        });
        format!("{before}s{}{after}", number + 1)
    }
}

fn fresh_server(interner: &SettingsInterner, prepared_max: usize) -> ServerSide {
    ServerSide::new(interner.none(), prepared_max)
}

fn may_change_session(template: &Template) -> bool {
    template.text.contains(UNTRACKED_FUNCTION)
}
