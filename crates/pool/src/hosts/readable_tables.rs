//! Subscribers for reads: their tables, and the question that each read adds.

use crate::address::host_address;
use paceline_cluster::{
    HostId, ReadableReplica, ReadableSubscriber, StatementNames, SubscribedTable, SubscriberSpec,
    TableName,
};
use paceline_config::Subscriber;
use paceline_relay::server::PrimaryColumns;
use paceline_sql::{Name, Statement, facts};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use tokio::sync::watch;

/// The inputs of the probes of subscribers.
pub(super) struct Subscribers {
    /// The users of pools, for whose privileges the primary is asked.
    pub(super) users: Mutex<BTreeSet<String>>,
    /// Changed when subscribers should be probed now.
    pub(super) wanted: watch::Sender<()>,
}

/// A subscriber that may serve reads.
#[derive(Debug)]
pub(crate) struct ReadableTables {
    pub(super) found: ReadableSubscriber,
    /// The places of the columns on the primary.
    pub(crate) columns: Arc<PrimaryColumns>,
    /// The question whose answer must be the fingerprint.
    pub(crate) question: String,
}

impl Subscribers {
    pub(super) fn new() -> Self {
        Self {
            users: Mutex::default(),
            wanted: watch::Sender::new(()),
        }
    }
}

impl ReadableTables {
    pub(super) fn new(found: ReadableSubscriber, subscriber: &Subscriber) -> Self {
        let tables = found.tables.tables().iter();
        let columns = tables.flat_map(|table: &SubscribedTable| {
            let places = table.columns.iter();
            places.map(|(own, primary)| ((table.own, *own), (table.primary, *primary)))
        });
        Self {
            columns: Arc::new(PrimaryColumns::new(columns)),
            question: facts::fingerprint_sql(&subscriber.slot, &subscriber.tables),
            found,
        }
    }

    pub(super) fn id(&self) -> HostId {
        self.found.replica.id
    }

    /// Its lag.
    pub(super) fn replica(&self) -> &ReadableReplica {
        &self.found.replica
    }

    /// The expected answer to the question.
    pub(crate) fn fingerprint(&self) -> &str {
        &self.found.tables.fingerprint
    }
}

/// A read that a subscriber may answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SubscriberRead<'a> {
    pub(crate) user: &'a str,
    pub(crate) statement: &'a Statement,
}

pub(crate) fn names_of(statement: &Statement) -> StatementNames<'_> {
    fn bare(names: &[Name]) -> Vec<&str> {
        names.iter().map(|name| name.name.as_str()).collect()
    }
    let relations = statement.relations.iter();
    let relations = relations.map(|name| (name.schema.as_deref(), name.name.as_str()));
    StatementNames {
        relations: relations.collect(),
        functions: bare(&statement.functions),
        operators: bare(&statement.operators),
        types: bare(&statement.casts_to),
        fields: bare(&statement.fields),
    }
}

/// A subscriber in the cluster's types.
pub fn spec(subscriber: &Subscriber) -> SubscriberSpec {
    let table = |name: &Name| TableName {
        schema: name.schema.clone().unwrap_or_default(),
        name: name.name.clone(),
    };
    SubscriberSpec {
        address: host_address(&subscriber.at.host, subscriber.at.port),
        slot: subscriber.slot.clone(),
        tables: subscriber.tables.iter().map(table).collect(),
    }
}
