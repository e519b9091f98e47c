//! The task that asks one host for its position in the log, whenever a read needs it.

use super::DatabaseHosts;
use super::probe::{ask_within, open_monitor, unreadable};
use crate::address::Address;
use crate::server::{ServerConn, ServerError};
use crate::shared::Shared;
use paceline_cluster::{HostId, Lsn, WalSizes};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The position of a primary includes every commit that a session may have seen, also one that is not flushed yet
/// (`synchronous_commit = off`).
const POSITION: &str = "SELECT r.in_recovery, CASE WHEN r.in_recovery THEN pg_catalog.pg_last_wal_replay_lsn() ELSE pg_catalog.pg_current_wal_insert_lsn() END \
     FROM (SELECT pg_catalog.pg_is_in_recovery() AS in_recovery OFFSET 0) r";

const SIZES: &str = "SELECT pg_catalog.max(s.setting) FILTER (WHERE s.name = 'wal_block_size'), \
     pg_catalog.max(s.setting) FILTER (WHERE s.name = 'wal_segment_size') FROM pg_catalog.pg_settings s";

/// Minimum time between two questions to a replica: reads ask until it has replayed the position that they need.
const REPLICA_PAUSE: Duration = Duration::from_millis(1);

/// Time after a failed question: the probes find out what is wrong.
const FAILURE_PAUSE: Duration = Duration::from_millis(100);

/// A connection for the questions to one host.
struct Asker {
    conn: Box<ServerConn>,
    sizes: WalSizes,
    /// [`Address::moves`] when the connection was opened.
    moves: u64,
}

/// The answer of a host.
struct Answer {
    in_recovery: bool,
    /// `None` on a replica that has replayed nothing.
    position: Option<Lsn>,
}

/// Asks one host whenever its position is wanted. Ends when the hosts are dropped.
pub(super) async fn answer_questions(hosts: Weak<DatabaseHosts>, shared: Arc<Shared>, id: HostId) {
    let wanted = hosts.upgrade().and_then(|hosts| hosts.positions.wanted(id));
    let Some(mut wanted) = wanted else {
        return;
    };
    let mut asker: Option<Asker> = None;
    while wanted.changed().await.is_ok() {
        let Some(present) = hosts.upgrade() else {
            return;
        };
        let Some(address) = present.config.monitored.get(id.0).cloned() else {
            return;
        };
        let limit = present.config.connect_timeout;
        let question = present.positions.begin();
        // After the question has begun: the change of the primary that follows a move begins a question, too.
        let address = present.monitored_at_location(id, &address);
        asker = asker.filter(|asker| asker.moves == address.moves());
        // If tasks held the hosts while they wait for servers, each could keep the others from ending.
        drop(present);
        let answer = ask(&mut asker, &address, limit, &shared).await;
        let Some(present) = hosts.upgrade() else {
            return;
        };
        let pause = match answer {
            Ok(Answer {
                in_recovery: false,
                position: Some(position),
            }) => {
                present.positions.primary_answered(id, question, position);
                Duration::ZERO
            }
            Ok(Answer { position, .. }) => {
                position
                    .into_iter()
                    .for_each(|replayed| present.positions.replica_answered(id, replayed));
                REPLICA_PAUSE
            }
            Err(error) => {
                tracing::debug!(%error, "a host was asked for its position in vain");
                asker = None;
                present.suspect();
                FAILURE_PAUSE
            }
        };
        drop(present);
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
    }
}

async fn ask(
    asker: &mut Option<Asker>,
    address: &Arc<Address>,
    connect_timeout: Duration,
    shared: &Shared,
) -> Result<Answer, ServerError> {
    let open = match asker {
        Some(open) => open,
        None => asker.insert(Asker::open(address, connect_timeout, shared).await?),
    };
    open.ask().await
}

impl Asker {
    async fn open(
        address: &Arc<Address>,
        connect_timeout: Duration,
        shared: &Shared,
    ) -> Result<Self, ServerError> {
        let moves = address.moves();
        let mut conn = open_monitor(address, connect_timeout, shared).await?;
        let answer = ask_within(&mut conn, SIZES).await?;
        let row = answer.first().and_then(|rows| rows.first());
        let size = |column: usize| row?.get(column)?.as_deref()?.parse().ok();
        let sizes = size(0).zip(size(1));
        let (block, segment) = sizes.ok_or_else(unreadable)?;
        Ok(Self {
            conn,
            sizes: WalSizes { block, segment },
            moves,
        })
    }

    async fn ask(&mut self) -> Result<Answer, ServerError> {
        let answer = ask_within(&mut self.conn, POSITION).await?;
        let row = answer
            .first()
            .and_then(|rows| rows.first())
            .ok_or_else(unreadable)?;
        let value = |column: usize| row.get(column).and_then(Option::as_deref);
        let in_recovery = value(0) == Some("t");
        let position = value(1).and_then(|text| text.parse::<Lsn>().ok());
        Ok(Answer {
            in_recovery,
            position: match in_recovery {
                true => position,
                false => position.map(|insert| insert.end_of_last_record(self.sizes)),
            },
        })
    }
}
