//! A shared read on its way: its answer is kept for all members, or handed over to one of them when it becomes too long.

use super::{Owed, Trip, Way, call_back, exchange, receive};
use crate::pool::{Delivery, Pool, Seat, Waiter};
use crate::room::Room;
use crate::server::{ServerConn, ServerError};
use bytes::BytesMut;
use paceline_batch::line::WaitEntry;
use paceline_batch::strategy::Strategy;
use paceline_batch::strategy::share::ANSWER_BYTES_MAX;
use paceline_batch::strategy::{MemberOutcome, MemberResult, Retry};
use paceline_batch::template_stats::Fallback;
use paceline_relay::request::Underway;
use std::io;

impl Trip {
    /// Reads the answer to its end, or until there is no room for more of it.
    pub(super) async fn travel_shared(
        &mut self,
        pool: &Pool,
        conn: &mut ServerConn,
        out: &mut BytesMut,
    ) -> Result<Way, ServerError> {
        let Some(mut batch) = self.batch.take() else {
            return Ok(Way::Arrived(self.all_alone(Fallback::Unfit)));
        };
        let mut room = Room::new(&pool.proxy.rooms);
        let mut dealt = Vec::new();
        let mut given_up = false;
        while !receive(&mut *batch, conn, &mut dealt)? {
            let kept = batch.buffered_len() + conn.input.len();
            let fits = kept <= ANSWER_BYTES_MAX;
            if !(fits && room.grow_to(kept)) {
                match batch.hand_over(&conn.input) {
                    Some(underway) => return Ok(Way::HandedOver(underway, room)),
                    None if fits => {}
                    None => return Err(io::Error::other("too much in front of the rows").into()),
                }
            }
            tokio::select! {
                biased;
                read = exchange(conn, out) => read?,
                () = nobody_waits(&mut self.entries), if !given_up => {
                    given_up = true;
                    // Boxed: it is rare, and every trip would pay for its state.
                    Box::pin(call_back(pool, conn)).await?;
                }
            }
        }
        self.batch = Some(batch);
        keep(&mut dealt, room);
        Ok(Way::Arrived(dealt))
    }

    /// One member takes over what has come, and the connection; the others have got nothing and go again.
    pub(super) fn hand_over(
        self,
        owed: Owed,
        conn: Box<ServerConn>,
        underway: Underway,
        room: Room,
    ) {
        let entries = self.entries.into_iter().flatten();
        let mut waiting = entries.filter(|entry| !entry.request.answer.is_closed());
        let leader = waiting.next();
        let others: Vec<_> = waiting.map(|entry| (entry, Retry::Alone)).collect();
        for (entry, _) in &others {
            let unit = entry.request.unit.as_ref();
            if let Some(tally) = unit.and_then(|unit| unit.stats.as_ref()) {
                tally.count_fallback(Strategy::Share, Fallback::TooLong);
            }
        }
        owed.pool.reroute(others);
        let seat = Seat::underway(&owed.settle(), conn, underway, room);
        if let Some(leader) = leader {
            // With a client that has gone the seat is lost, and its connection is closed.
            let _ = leader.request.answer.send(Delivery::Seat(seat));
        }
    }
}

/// The answers are copies of one, which takes its room until the last member has it.
fn keep(dealt: &mut [MemberResult], room: Room) {
    let mut answers = dealt
        .iter_mut()
        .filter_map(|dealt| match &mut dealt.outcome {
            MemberOutcome::Answer(answer) => Some(answer),
            MemberOutcome::Retry(..) => None,
        });
    let Some(first) = answers.next() else {
        return;
    };
    let kept = room.keep(first.clone());
    answers
        .chain([first])
        .for_each(|answer| *answer = kept.clone());
}

/// Returns when all members have left or cancelled.
async fn nobody_waits(entries: &mut [Option<WaitEntry<Waiter>>]) {
    for entry in entries.iter_mut().flatten() {
        entry.request.answer.closed().await;
    }
}
