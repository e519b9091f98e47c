//! Clients that write and read until they are stopped, each by operations of every kind, and record the answers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio_postgres::error::Severity;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, SimpleQueryMessage, Statement};

use super::copies::Copies;
use super::ledger::{Entry, KEYS, Kind, Ledger, Outcome, parse_tags};
use super::notices::Notices;
use crate::harness::Rng;
use crate::harness::driver::{connect, is_connection_failure, sqlstate};
use crate::harness::wait::LIMIT;

const HINT: &str = "/*+ COMMIT_ON_SUCCESS */";
/// The percentage of clients that use the usual form.
const USUAL: usize = 80;
/// Between two attempts to connect.
pub(crate) const RETRY: Duration = Duration::from_millis(5);

/// The state that clients share.
pub(crate) struct Load {
    pub(crate) ledger: Ledger,
    pub(crate) copies: Copies,
    pub(crate) notices: Notices,
    /// The number of notifications that have arrived.
    pub(crate) heard: AtomicUsize,
    pub(crate) stop: AtomicBool,
    /// Of 1,000 operations, this many end because the client is killed.
    pub(crate) kills: usize,
    /// The form that most clients use, so that their requests have the same templates.
    pub(crate) usual: Form,
}

/// The form of a client's single statements.
#[derive(Clone, Copy)]
pub(crate) struct Form {
    simple: bool,
    hinted: bool,
}

impl Form {
    pub(crate) fn any(rng: &mut Rng) -> Self {
        Self {
            simple: rng.chance(50),
            hinted: rng.chance(50),
        }
    }
}

/// A connection and the statements that it has prepared.
struct Session {
    client: Client,
    statements: Mutex<HashMap<String, Statement>>,
}

impl Session {
    /// Prepared once, as applications do.
    async fn statement(&self, sql: &str) -> Result<Statement, Error> {
        let known = self.statements.lock().unwrap().get(sql).cloned();
        if let Some(statement) = known {
            return Ok(statement);
        }
        let statement = self.client.prepare(sql).await?;
        let mut statements = self.statements.lock().unwrap();
        statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }
}

/// One client. All its single statements have one form.
pub(crate) async fn work(load: Arc<Load>, url: String, mut rng: Rng) {
    let form = match rng.chance(USUAL) {
        true => load.usual,
        false => Form::any(&mut rng),
    };
    let mut session = None;
    while !load.stop.load(Ordering::SeqCst) {
        let Some(connected) = &session else {
            // An attempt may wait for a server that is away, but not for ever.
            session = match tokio::time::timeout(LIMIT, connect(&url)).await {
                Ok(connected) => connected.ok().map(|client| Session {
                    client,
                    statements: Mutex::default(),
                }),
                Err(_) => {
                    note_hung(&load.ledger);
                    None
                }
            };
            if session.is_none() {
                tokio::time::sleep(RETRY).await;
            }
            continue;
        };
        let kinds = [
            Kind::Update,
            Kind::Update,
            Kind::Update,
            Kind::Upsert,
            Kind::Upsert,
            Kind::Take,
            Kind::Take,
            Kind::Insert,
            Kind::InsertSelect,
            Kind::InsertSelect,
            Kind::InsertSelect,
            Kind::Transaction,
            Kind::Read,
            Kind::Read,
            Kind::LongRead,
        ];
        let mut entry = Entry {
            kind: *rng.pick(&kinds),
            tag: load.ledger.tag(),
            key: rng.between(1, i64::from(KEYS)) as i32,
            begun: load.ledger.tick(),
            ended: 0,
            outcome: Outcome::Unknown,
        };
        let operation = perform(connected, &entry, form);
        let killed = rng.below(1_000) < load.kills;
        let patience = if killed {
            Duration::from_micros(rng.below(3_000) as u64)
        } else {
            LIMIT
        };
        let done = tokio::time::timeout(patience, operation).await;
        entry.ended = load.ledger.tick();
        entry.outcome = match done {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(error)) => failure(&error),
            Err(_) if killed => Outcome::Unknown,
            Err(_) => Outcome::Hung,
        };
        if matches!(entry.outcome, Outcome::Unknown | Outcome::Hung) {
            session = None;
        } else if matches!(entry.kind, Kind::Transaction)
            && matches!(entry.outcome, Outcome::Refused(_))
        {
            // The transaction may still be open: its end ends it.
            session = None;
        }
        load.ledger.add(entry);
    }
}

fn note_hung(ledger: &Ledger) {
    let now = ledger.tick();
    ledger.add(Entry {
        kind: Kind::Read,
        tag: ledger.tag(),
        key: 0,
        begun: now,
        ended: now,
        outcome: Outcome::Hung,
    });
}

fn failure(error: &Error) -> Outcome {
    if is_unknown(error) {
        Outcome::Unknown
    } else {
        Outcome::Refused(sqlstate(error))
    }
}

/// Whether the operation may have been done. A server that panics ends the connection, whatever the error's class.
pub(crate) fn is_unknown(error: &Error) -> bool {
    let severity = error
        .as_db_error()
        .and_then(|error| error.parsed_severity());
    let ends = matches!(severity, Some(Severity::Panic | Severity::Fatal));
    ends || is_connection_failure(error)
}

async fn perform(session: &Session, entry: &Entry, form: Form) -> Result<Outcome, Error> {
    let hint = if form.hinted { HINT } else { "" };
    let ask = async |sql: String| run(session, &sql, entry, form.simple).await;
    let update = "hot SET n = n + 1, seen = seen || $1::int WHERE id = $2::int RETURNING n";
    let answer = match entry.kind {
        Kind::Update => ask(format!("UPDATE {hint} {update}")).await?,
        Kind::Upsert => {
            ask(format!(
                "INSERT {hint} INTO counts VALUES ($2::int, 1, ARRAY[$1::int]) ON CONFLICT (id) DO UPDATE \
                 SET n = counts.n + 1, seen = counts.seen || EXCLUDED.seen RETURNING n"
            ))
            .await?
        }
        Kind::Take => {
            ask(format!(
                "UPDATE {hint} queue SET taken_by = $1::int WHERE id = (SELECT id FROM queue \
                 WHERE taken_by IS NULL ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id"
            ))
            .await?
        }
        Kind::Insert => {
            ask(format!("INSERT {hint} INTO journal VALUES ($1::int) RETURNING 1")).await?
        }
        Kind::InsertSelect => {
            ask(format!("INSERT {hint} INTO journal SELECT $1::int RETURNING 1")).await?
        }
        Kind::Transaction => {
            session.client.batch_execute("BEGIN").await?;
            let answer = ask(format!("UPDATE {update}")).await?;
            ask("INSERT INTO journal VALUES ($1::int) RETURNING 1".to_owned()).await?;
            session.client.batch_execute("COMMIT").await?;
            answer
        }
        Kind::Read => ask("SELECT seen::text FROM hot WHERE id = $2::int".to_owned()).await?,
        Kind::LongRead => {
            ask(
                "SELECT seen::text FROM hot CROSS JOIN generate_series(1, 40000) WHERE id = $2::int \
                 GROUP BY seen"
                    .to_owned(),
            )
            .await?
        }
    };
    let answer = answer.unwrap_or_else(|| panic!("{entry:?} got no row"));
    Ok(match entry.kind {
        Kind::Read | Kind::LongRead => Outcome::Found(parse_tags(&answer)),
        _ => Outcome::Acknowledged(answer.parse().unwrap()),
    })
}

/// The first value of the answer, as text. `$1` is the tag and `$2` the row.
async fn run(
    session: &Session,
    sql: &str,
    entry: &Entry,
    simple: bool,
) -> Result<Option<String>, Error> {
    if simple {
        let sql = sql
            .replace("$1::int", &entry.tag.to_string())
            .replace("$2::int", &entry.key.to_string());
        let messages = session.client.simple_query(&sql).await?;
        return Ok(messages.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        }));
    }
    // A statement without the tag has the row as its only parameter.
    let (sql, parameters): (_, Vec<&(dyn ToSql + Sync)>) = if !sql.contains("$1") {
        (sql.replace("$2", "$1"), vec![&entry.key])
    } else if sql.contains("$2") {
        (sql.to_owned(), vec![&entry.tag, &entry.key])
    } else {
        (sql.to_owned(), vec![&entry.tag])
    };
    let statement = session.statement(&sql).await?;
    let row = session.client.query_opt(&statement, &parameters).await?;
    Ok(row.map(|row| {
        let number = row.try_get::<_, i32>(0).map(|number| number.to_string());
        number.unwrap_or_else(|_| row.get::<_, String>(0))
    }))
}
