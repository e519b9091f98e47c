//! The states of the shards of its database that a client has seen, and the choice of a replica for its next read.
//!
//! The coordinator changes shards, too, and so does the move of a partition from one shard to another. So a client has a position on each
//! shard, and none of them is known after the coordinator has served the client: then its next read on a shard needs a position that the
//! shard's primary reports after that. In the same way, each read, whatever its freshness, needs the position that the primary had when the
//! map was read by which the read was routed: before that position, a replica may have other tables than those of the map, or not the rows
//! of a partition that was moved to the shard.

use super::{ChosenReplica, Freshness, Replicas, Seen, WantedRead};
use paceline_cluster::Lsn;
use paceline_config::Servers;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The states of the shards of its database that a client has seen.
#[derive(Debug, Default)]
pub struct ShardsSeen {
    /// The map by which the last statement on a shard with replicas was routed; 0 for none.
    map: u64,
    /// The larger of two numbers of questions for positions that had begun: when a server outside `shards` last served the client, and
    /// when the map was read.
    others_at: u64,
    /// By the names of foreign servers.
    shards: FxHashMap<Arc<str>, SeenOfShard>,
}

/// The state of a shard that a client has seen.
#[derive(Debug)]
struct SeenOfShard {
    seen: Seen,
    /// The state of the shard when the map was read.
    map: Seen,
}

impl Seen {
    /// All that the primary had when so many questions had begun.
    fn at(question: u64) -> Self {
        Self {
            primary_at: Some(question),
            ..Self::default()
        }
    }
}

impl ShardsSeen {
    /// A server has served the client that may have changed any shard, or that shows any of them. So many questions for positions
    /// have begun.
    pub(crate) fn all_served(&mut self, questions: u64) {
        self.others_at = questions;
        // A later position of a primary includes those that it had.
        self.shards.clear();
    }

    /// The shard with this name, by the map with this number.
    fn of(&mut self, name: &Arc<str>, map: u64) -> &mut SeenOfShard {
        if self.map != map {
            self.map = map;
            self.others_at = self.others_at.max(map);
            for shard in self.shards.values_mut() {
                shard.seen.primary_at = shard.seen.primary_at.max(Some(map));
                shard.map = Seen::at(map);
            }
        }
        let known = self.shards.entry(Arc::clone(name));
        known.or_insert_with(|| SeenOfShard {
            seen: Seen::at(self.others_at),
            map: Seen::at(map),
        })
    }
}

impl Replicas {
    /// As [`Replicas::choose`], for a read on a shard that the map with this number has routed.
    pub async fn choose_on_shard(
        &self,
        freshness: Freshness,
        map: u64,
        seen: &mut ShardsSeen,
        settings: &Servers,
    ) -> Option<ChosenReplica> {
        let of_shard = seen.of(&self.shard, map);
        self.begin_term(&mut of_shard.seen);
        let (freshness, seen) = match freshness {
            Freshness::Any => (Freshness::Session, &mut of_shard.map),
            Freshness::Session | Freshness::Global => (freshness, &mut of_shard.seen),
        };
        let read = WantedRead {
            freshness,
            statement: None,
        };
        self.choose(read, seen, settings).await
    }

    /// The client has seen the state of the shard at this position.
    pub fn raise_on_shard(&self, map: u64, seen: &mut ShardsSeen, position: Lsn) {
        seen.of(&self.shard, map).seen.raise(position);
    }

    /// The primary of the shard has served a statement of the client.
    pub fn shard_served(&self, map: u64, seen: &mut ShardsSeen) {
        self.primary_served(&mut seen.of(&self.shard, map).seen);
    }
}
