//! A client that carries out plans and records the answers.

use super::plan::{Does, Plan, Request, is_register, sql_name};
use crate::harness::message::query;
use crate::harness::raw::RawClient;
use crate::harness::{Message, Reply};
use paceline_testing::histories::{
    Effect, Key, Level, Operation, Outcome, State, Tick, Transaction, Value,
};
use std::sync::atomic::{AtomicU64, Ordering};

/// The clock of a history.
#[derive(Default)]
pub(super) struct Clock(AtomicU64);

impl Clock {
    pub(super) fn tick(&self) -> Tick {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

/// SQLSTATEs of transactions that PostgreSQL refuses because of others, or of an earlier error.
const REFUSED: [&str; 3] = ["40001", "40P01", "25P02"];

/// The answer to a statement.
enum Answer {
    /// Its rows, and the tag of CommandComplete.
    Done(Vec<Message>, String),
    Refused,
    /// The connection to the server, or to the client, was lost.
    Lost,
}

/// A transaction while it is recorded.
pub(super) struct Recorder<'a> {
    clock: &'a Clock,
    plan: &'a Plan,
    operations: Vec<Operation>,
    outcome: Option<Outcome>,
}

/// Carries out a plan. `None` for the client if its connection is lost.
pub(super) fn carry_out(
    client: RawClient,
    plan: &Plan,
    clock: &Clock,
) -> (Option<RawClient>, Transaction) {
    let mut recorder = Recorder::new(clock, plan);
    let client = if plan.pipelined {
        recorder.all_at_once(client)
    } else {
        recorder.one_by_one(client)
    };
    (client, recorder.transaction())
}

impl<'a> Recorder<'a> {
    pub(super) fn new(clock: &'a Clock, plan: &'a Plan) -> Self {
        Self {
            clock,
            plan,
            operations: Vec::new(),
            outcome: None,
        }
    }

    fn one_by_one(&mut self, mut client: RawClient) -> Option<RawClient> {
        for request in &self.plan.requests {
            let status = self.step(&mut client, request)?;
            if self.outcome.is_none() {
                continue;
            }
            if status != 'I' {
                client.try_send(&query("ROLLBACK")).ok()?;
                reply(&mut client)?;
            }
            break;
        }
        Some(client)
    }

    /// Sends a request and records its answer. Returns the status of ReadyForQuery; `None` if the connection is lost.
    pub(super) fn step(&mut self, client: &mut RawClient, request: &Request) -> Option<char> {
        let began = self.clock.tick();
        let sent = client.try_send(&request.bytes).is_ok();
        let reply = if sent { reply(client) } else { None };
        self.record(request, began, reply.as_ref());
        reply.map(|reply| reply.status())
    }

    fn all_at_once(&mut self, mut client: RawClient) -> Option<RawClient> {
        let began = self.clock.tick();
        let bytes: Vec<_> = self
            .plan
            .requests
            .iter()
            .map(|request| &request.bytes[..])
            .collect();
        let mut is_open = client.try_send(&bytes.concat()).is_ok();
        for request in &self.plan.requests {
            let reply = if is_open { reply(&mut client) } else { None };
            is_open = reply.is_some();
            self.record(request, began, reply.as_ref());
        }
        is_open.then_some(client)
    }

    /// Records the answers to the statements of a request; `None` if there was none.
    fn record(&mut self, request: &Request, began: Tick, reply: Option<&Reply>) {
        let ended = reply.map_or(Tick::MAX, |_| self.clock.tick());
        let (answers, at_the_end) = answers(reply, request.statements.len());
        for (does, answer) in request.statements.iter().zip(&answers) {
            let effect = self.effect(does, answer);
            self.operations.extend(effect.map(|effect| Operation {
                began,
                ended,
                effect,
            }));
        }
        if let Some(failure) = at_the_end {
            self.fail(&Does::Commit, matches!(failure, Answer::Lost));
        }
        if self.plan.requests.len() == 1 {
            self.outcome.get_or_insert(Outcome::Committed);
        }
    }

    /// Learns from an answer how the transaction ends.
    fn effect(&mut self, does: &Does, answer: &Answer) -> Option<Effect> {
        let (rows, tag) = match answer {
            Answer::Done(rows, tag) => (rows, tag),
            failed => {
                let is_lost = matches!(failed, Answer::Lost);
                self.fail(does, is_lost);
                let Does::Write(key, value) = does else {
                    return None;
                };
                return Some(Effect::Write(*key, *value, None));
            }
        };
        assert_ne!(
            self.outcome,
            Some(Outcome::Unknown),
            "{does:?} was executed after the connection was lost"
        );
        match does {
            Does::Begin => None,
            Does::Rollback => {
                self.outcome.get_or_insert(Outcome::Aborted);
                None
            }
            Does::Commit => {
                let committed = tag == "COMMIT";
                let outcome = if committed {
                    Outcome::Committed
                } else {
                    Outcome::Aborted
                };
                self.outcome.get_or_insert(outcome);
                None
            }
            Does::Write(key, value) => Some(written(*key, *value, rows, tag)),
            Does::Read(keys) => Some(Effect::Read(states(keys, rows))),
        }
    }

    fn fail(&mut self, does: &Does, is_lost: bool) {
        // A COMMIT that was not sent cannot have been executed.
        let commit_was_sent =
            *does == Does::Commit || self.plan.pipelined || self.plan.requests.len() == 1;
        let outcome = match is_lost && commit_was_sent {
            true => Outcome::Unknown,
            false => Outcome::Aborted,
        };
        // The answer to COMMIT of a transaction that had failed does not matter.
        self.outcome.get_or_insert(outcome);
    }

    pub(super) fn transaction(self) -> Transaction {
        let outcome = self.outcome.unwrap_or(Outcome::Aborted);
        let ended = match outcome {
            Outcome::Unknown => Tick::MAX,
            Outcome::Committed | Outcome::Aborted => self.clock.tick(),
        };
        Transaction {
            level: self.plan.level,
            outcome,
            operations: self.operations,
            ended,
        }
    }
}

/// Sets the level of transactions that name none; `None` if the connection is lost.
pub(super) fn set_level(client: &mut RawClient, level: Level) -> Option<()> {
    if level == Level::ReadCommitted {
        return Some(());
    }
    let level = sql_name(level).to_lowercase();
    let set = query(&format!("SET default_transaction_isolation = '{level}'"));
    client.try_send(&set).ok()?;
    let reply = reply(client)?;
    reply.error().is_none().then_some(())
}

/// The answer to a request; `None` if the connection is closed instead.
fn reply(client: &mut RawClient) -> Option<Reply> {
    let mut messages = Vec::new();
    loop {
        let message = client.try_receive().ok()?;
        let last = message.tag == b'Z';
        messages.push(message);
        if last {
            return Some(Reply(messages));
        }
    }
}

/// The answers to this many statements of one request, and an error of their commit.
fn answers(reply: Option<&Reply>, statements: usize) -> (Vec<Answer>, Option<Answer>) {
    let mut answers = Vec::new();
    let mut rows = Vec::new();
    for message in reply.into_iter().flat_map(|reply| &reply.0) {
        match message.tag {
            b'D' => rows.push(message.clone()),
            b'C' => {
                let tag = Reply(vec![message.clone()]).tag();
                answers.push(Answer::Done(std::mem::take(&mut rows), tag));
            }
            b'E' => answers.push(failure(message)),
            _ => {}
        }
    }
    if answers.len() > statements {
        let at_the_end = answers.pop();
        return (answers, at_the_end);
    }
    // No statement is executed after one that has failed.
    let refused = answers
        .iter()
        .any(|answer| matches!(answer, Answer::Refused));
    let missing = || {
        if refused {
            Answer::Refused
        } else {
            Answer::Lost
        }
    };
    answers.resize_with(statements, missing);
    (answers, None)
}

fn failure(message: &Message) -> Answer {
    let fields = message.fields();
    let state = fields.sqlstate();
    if state.starts_with("08") || state.starts_with("57P") {
        return Answer::Lost;
    }
    assert!(REFUSED.contains(&state), "{message:?}");
    Answer::Refused
}

/// An update of a row that does not exist has only seen that.
fn written(key: Key, value: Value, rows: &[Message], tag: &str) -> Effect {
    if tag.ends_with(" 0") {
        return Effect::Read(states(&[key], &[]));
    }
    let state = rows.first().map(|_| states(&[key], rows).remove(0).1);
    Effect::Write(key, value, state)
}

/// The states of keys, from rows of key, number and content.
pub(super) fn states(keys: &[Key], rows: &[Message]) -> Vec<(Key, State)> {
    let rows: Vec<Vec<Option<String>>> = rows.iter().map(Message::values).collect();
    let number = |text: &Option<String>| text.as_ref().unwrap().parse::<u32>().unwrap();
    let state = |key: &Key| {
        let row = rows.iter().find(|row| number(&row[0]) == *key);
        let state = match (row, is_register(*key)) {
            (None, true) => State::Register(0, None),
            (None, false) => State::List(Vec::new()),
            (Some(row), true) => State::Register(number(&row[1]) as usize, Some(number(&row[2]))),
            (Some(row), false) => {
                let text = row[2].as_deref().unwrap().trim_matches(['{', '}']);
                State::List(
                    text.split(',')
                        .map(|value| value.parse().unwrap())
                        .collect(),
                )
            }
        };
        (*key, state)
    };
    keys.iter().map(state).collect()
}
