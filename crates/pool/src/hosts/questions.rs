//! The questions to a subscriber and to its primary, and how their answers are read. They change nothing.

use crate::hosts::probe::{QUESTION, read, unreadable};
use crate::server::{ResultRows, ServerConn, ServerError};
use paceline_cluster::{
    CatalogFacts, ColumnFacts, HostReport, PublicationFacts, SUBSCRIBER_VERSION_MIN, SlotFacts,
    SubscribedState, SubscriberReport, SubscriptionFacts, TableFacts, UserDefinedNames, UserFacts,
};
use paceline_config::Subscriber;
use paceline_sql::facts::{self, SubscriptionSide};
use std::collections::{BTreeMap, HashSet};
use std::io;

/// Asks a subscriber, and then the primary, what decides whether reads of these users may run on the subscriber. The fingerprint is
/// asked for first: what changes after that changes the fingerprint.
///
/// # Errors
/// A server answers with an error, or a connection is lost.
pub async fn ask_both(
    own: &mut ServerConn,
    primary: &mut ServerConn,
    subscriber: &Subscriber,
    users: &[String],
) -> Result<SubscriberReport, ServerError> {
    let (slot, tables) = (&subscriber.slot, &subscriber.tables);
    let (mut fingerprint, mut subscription) = (String::new(), None);
    let mut publications = Vec::new();
    let version = major_version(own);
    if version >= SUBSCRIBER_VERSION_MIN {
        let questions = [
            facts::fingerprint_sql(slot, tables),
            facts::subscription_sql(slot, version),
            facts::subscribed_states_sql(slot, tables),
        ];
        let answers = own.query(&questions.join("; ")).await?;
        let [found, subscriptions, states] = answers.as_slice() else {
            return Err(unreadable());
        };
        fingerprint = text(found.first(), 0);
        publications = subscriptions.iter().map(|row| text(Some(row), 3)).collect();
        subscription = read_subscription(subscriptions, states, tables.len());
    }
    let (own, _) = ask_catalog(own, subscriber, users, SubscriptionSide::Subscriber).await?;
    let (catalog, host) =
        ask_catalog(primary, subscriber, users, SubscriptionSide::Primary).await?;
    let (mut slot_facts, mut published) = (None, Vec::new());
    if catalog.version >= SUBSCRIBER_VERSION_MIN {
        let questions = [
            facts::publications_sql(&publications, tables),
            facts::slot_sql(slot),
        ];
        let answers = primary.query(&questions.join("; ")).await?;
        let [found, slots] = answers.as_slice() else {
            return Err(unreadable());
        };
        published = read_publications(found);
        slot_facts = slots.first().map(|row| SlotFacts {
            active: is_true(row, 0),
            fits: is_true(row, 1),
            confirmed: text(Some(row), 2).parse().ok(),
        });
    }
    Ok(SubscriberReport {
        primary: catalog,
        slot: slot_facts,
        written: host.written,
        publications: published,
        own,
        subscription,
        fingerprint,
        last_ddl: 0,
    })
}

/// Without a primary there is nothing to compare with.
pub(super) fn no_primary() -> ServerError {
    let why = "there is no primary to compare the subscriber with";
    ServerError::Io(io::Error::new(io::ErrorKind::InvalidData, why))
}

/// The major version, as the server has reported it.
fn major_version(conn: &ServerConn) -> u32 {
    let reported = conn.side.reported.get("server_version");
    let digits = reported.and_then(|text| text.split(|c: char| !c.is_ascii_digit()).next());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

async fn ask_catalog(
    conn: &mut ServerConn,
    subscriber: &Subscriber,
    users: &[String],
    side: SubscriptionSide,
) -> Result<(CatalogFacts, HostReport), ServerError> {
    let version = major_version(conn);
    let system = conn.system().await?;
    let tables = &subscriber.tables;
    let mut questions = vec![QUESTION.to_owned()];
    if version >= SUBSCRIBER_VERSION_MIN {
        questions.extend([
            facts::DATABASE_SQL.to_owned(),
            facts::user_defined_sql(),
            facts::subscribed_columns_sql(tables, side),
            facts::readers_sql(tables, users),
        ]);
    }
    let answers = conn.query(&questions.join("; ")).await?;
    let host = read(&answers, system).ok_or_else(unreadable)?;
    let mut catalog = CatalogFacts {
        system,
        in_recovery: host.in_recovery,
        version,
        answer_settings: host.answer_settings.clone().unwrap_or_default(),
        ..CatalogFacts::default()
    };
    if let [_, database, names, columns, readers] = answers.as_slice() {
        catalog.encoding = text(database.first(), 0);
        catalog.collation = text(database.first(), 1);
        catalog.converts = database.first().is_some_and(|row| is_true(row, 2));
        catalog.names = read_names(names);
        catalog.tables = read_tables(columns, tables.len());
        catalog.users = read_users(readers);
    }
    Ok((catalog, host))
}

type Row = Vec<Option<String>>;

/// The text of a column; empty for NULL.
fn text(row: Option<&Row>, column: usize) -> String {
    let value = row.and_then(|row| row.get(column));
    value.cloned().flatten().unwrap_or_default()
}

fn is_true(row: &Row, column: usize) -> bool {
    text(Some(row), column) == "t"
}

fn place(row: &Row, column: usize) -> Option<usize> {
    text(Some(row), column).parse().ok()
}

fn read_names(rows: &ResultRows) -> UserDefinedNames {
    let of_kind = |kind: &str| -> HashSet<String> {
        let rows = rows.iter().filter(|row| text(Some(row), 0) == kind);
        rows.map(|row| text(Some(row), 1)).collect()
    };
    UserDefinedNames {
        functions: of_kind("f"),
        operators: of_kind("o"),
        types: of_kind("t"),
    }
}

fn read_tables(rows: &ResultRows, count: usize) -> Vec<TableFacts> {
    let mut tables = vec![TableFacts::default(); count];
    for row in rows {
        let Some(table) = place(row, 0).and_then(|place| tables.get_mut(place)) else {
            continue;
        };
        table.oid = text(Some(row), 1).parse().ok();
        table.unfit = row.get(2).cloned().flatten();
        table.ambiguous = is_true(row, 3);
        let number = text(Some(row), 4).parse();
        table.columns.extend(number.map(|number| ColumnFacts {
            number,
            definition: text(Some(row), 5),
        }));
    }
    tables
}

fn read_users(rows: &ResultRows) -> BTreeMap<String, UserFacts> {
    let mut users = BTreeMap::<String, UserFacts>::new();
    for row in rows {
        let user = users.entry(text(Some(row), 0)).or_default();
        user.settings = text(Some(row), 1);
        user.may_read.extend(place(row, 2));
    }
    users
}

fn read_publications(rows: &ResultRows) -> Vec<PublicationFacts> {
    let mut publications = BTreeMap::<String, PublicationFacts>::new();
    for row in rows {
        let publication = publications.entry(text(Some(row), 0)).or_default();
        publication.all_changes = is_true(row, 1);
        let tables = match is_true(row, 3) {
            true => &mut publication.whole,
            false => &mut publication.partial,
        };
        tables.extend(place(row, 2));
    }
    publications.into_values().collect()
}

/// `None` if there is none, or if several use the slots of this name of several servers.
fn read_subscription(
    rows: &ResultRows,
    states: &ResultRows,
    tables: usize,
) -> Option<SubscriptionFacts> {
    let first = rows.first()?;
    let oids: HashSet<String> = rows.iter().map(|row| text(Some(row), 0)).collect();
    if oids.len() > 1 {
        return None;
    }
    let mut found = vec![SubscribedState::default(); tables];
    for row in states {
        if let Some(state) = place(row, 0).and_then(|place| found.get_mut(place)) {
            *state = SubscribedState {
                subscriptions: place(row, 1).unwrap_or_default(),
                ready: is_true(row, 2),
                copied: is_true(row, 3),
            };
        }
    }
    Some(SubscriptionFacts {
        enabled: is_true(first, 1),
        skips: is_true(first, 2),
        tables: found,
    })
}
