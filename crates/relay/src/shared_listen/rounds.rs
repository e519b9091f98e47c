//! The rounds of messages on the shared connection, and the requests that they answer.

use super::state::{
    ChannelState, ListenAnswer, ListenGoal, ListenRequest, ListenRequestId, ListenerId, Round,
    RoundStep, SharedChannel, SharedListen,
};
use bytes::Bytes;
use foldhash::{HashMap, HashMapExt};
use paceline_sql::Listening;
use std::sync::Arc;

/// Maximum number of channels in a round. The cost of a LISTEN in PostgreSQL depends on the number of channels, and a client
/// that waits for its own notifications waits for the current round.
pub const STEPS_MAX: usize = 32;

impl SharedListen {
    pub(super) fn request(&mut self, listener: ListenerId, goal: ListenGoal) -> ListenRequestId {
        let id = ListenRequestId(self.next_id());
        self.waiting.push(ListenRequest { id, listener, goal });
        id
    }

    /// The steps of the next round. `None` if a round is under way, nothing must be sent, or there is no connection.
    pub fn next_round(&mut self) -> Option<Vec<RoundStep>> {
        if self.round.is_some() || !self.connected {
            return None;
        }
        let (mut steps, mut channels) = (Vec::new(), Vec::new());
        while steps.len() < STEPS_MAX
            && let Some(name) = self.to_listen.pop_front()
        {
            let Some(channel) = self.channels.get_mut(&name) else {
                continue;
            };
            if !channel.is_wanted() {
                self.channels.remove(&name);
                continue;
            }
            channel.state = ChannelState::Asked;
            steps.push(RoundStep::Query(format!(
                "LISTEN {}",
                paceline_sql::quote_ident(&name)
            )));
            channels.push(Some(name));
        }
        while steps.len() < STEPS_MAX
            && let Some(name) = self.to_unlisten.pop_first()
        {
            let is_on = |channel: &SharedChannel| channel.state == ChannelState::On;
            let channel = self.channels.get(&name);
            if channel.is_some_and(|channel| is_on(channel) && !channel.is_wanted()) {
                self.channels.remove(&name);
                steps.push(RoundStep::Query(format!(
                    "UNLISTEN {}",
                    paceline_sql::quote_ident(&name)
                )));
                channels.push(None);
            }
        }
        let known = &self.channels;
        let is_asked = |name: &Arc<str>| {
            let state = known.get(name).map(|channel| channel.state);
            matches!(state, Some(ChannelState::Asked | ChannelState::On))
        };
        let answered = |request: &mut ListenRequest| request.goal.channels().iter().all(is_asked);
        let requests: Vec<_> = self.waiting.extract_if(.., answered).collect();
        if steps.is_empty() {
            if requests.is_empty() {
                return None;
            }
            steps.push(RoundStep::Sync);
            channels.push(None);
        }
        self.round = Some(Round {
            requests,
            steps: channels,
            answered: 0,
            refused: HashMap::new(),
        });
        Some(steps)
    }

    /// Whether a round is under way.
    pub fn awaits_answer(&self) -> bool {
        self.round.is_some()
    }

    /// The server has rejected the current step.
    pub fn refused(&mut self, error: Bytes) {
        if let Some(round) = &mut self.round
            && let Some(Some(channel)) = round.steps.get(round.answered)
        {
            round.refused.insert(Arc::clone(channel), error);
        }
    }

    /// The server has sent ReadyForQuery for the current step. If it was the last step, returns the answers of the round.
    pub fn ready(&mut self) -> Vec<ListenAnswer> {
        let Some(mut round) = self.round.take() else {
            return Vec::new();
        };
        if let Some(Some(name)) = round.steps.get(round.answered)
            && let Some(channel) = self.channels.get_mut(name)
        {
            channel.state = match round.refused.contains_key(name) {
                true => ChannelState::Off,
                false => ChannelState::On,
            };
            // During the round, the channel may have become unwanted, or wanted again.
            self.follow(name);
        }
        round.answered += 1;
        if round.answered < round.steps.len() {
            self.round = Some(round);
            return Vec::new();
        }
        let Round {
            requests, refused, ..
        } = round;
        let answers = requests.into_iter();
        answers
            .map(|request| self.answer(request, &refused))
            .collect()
    }

    fn answer(
        &mut self,
        request: ListenRequest,
        refused: &HashMap<Arc<str>, Bytes>,
    ) -> ListenAnswer {
        let ListenRequest { id, listener, goal } = request;
        let channels = goal.channels();
        let error = channels.iter().find_map(|name| refused.get(name));
        if let (ListenGoal::Listen(channel), None) = (&goal, error) {
            self.apply(listener, &Listening::Listen(channel.as_ref().to_owned()));
        }
        self.release(listener, channels);
        (id, error.map_or(Ok(()), |error| Err(error.clone())))
    }

    /// There is a connection.
    pub fn connected(&mut self) {
        self.connected = true;
    }

    /// The connection is lost. Answers the requests to catch up. Requests for channels wait for the next connection.
    pub fn disconnected(&mut self) -> Vec<ListenAnswer> {
        self.connected = false;
        self.end_run();
        self.channels.retain(|_, channel| channel.is_wanted());
        self.to_unlisten.clear();
        self.to_listen = self.channels.keys().map(Arc::clone).collect();
        self.to_listen.make_contiguous().sort_unstable();
        for channel in self.channels.values_mut() {
            channel.state = ChannelState::Queued;
        }
        let sent = self
            .round
            .take()
            .map_or_else(Vec::new, |round| round.requests);
        let all = sent.into_iter().chain(std::mem::take(&mut self.waiting));
        let (ended, stay) =
            all.partition(|r: &ListenRequest| matches!(r.goal, ListenGoal::CatchUp));
        self.waiting = stay;
        let ended: Vec<ListenRequest> = ended;
        ended.into_iter().map(|r| (r.id, Ok(()))).collect()
    }

    /// No connection can be opened. Rejects all requests with this error.
    pub fn fail(&mut self, error: &Bytes) -> Vec<ListenAnswer> {
        let mut answers = self.disconnected();
        for request in std::mem::take(&mut self.waiting) {
            self.release(request.listener, request.goal.channels());
            answers.push((request.id, Err(error.clone())));
        }
        answers
    }
}
