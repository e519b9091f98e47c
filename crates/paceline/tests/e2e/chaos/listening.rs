//! Clients that notify, and clients that listen and also notify; they record the answers and the notifications.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_postgres::{AsyncMessage, Client, Error, NoTls, Notification};

use super::clients::{Load, RETRY, is_unknown};
use super::notices::{CHANNELS, Heard, LAST, Notice, Outcome, Session};
use crate::harness::Rng;
use crate::harness::driver::sqlstate;
use crate::harness::wait::LIMIT;

/// The longest time between two transactions of a client that notifies, so that the others have the server connections most of the time.
const THINKING_MS: usize = 150;

/// A connection, and the notifications that arrive.
struct Line {
    client: Client,
    notifications: UnboundedReceiver<Notification>,
}

/// Connects; `None` if that fails.
async fn connect(url: &str) -> Option<Line> {
    let connected = tokio::time::timeout(LIMIT, tokio_postgres::connect(url, NoTls)).await;
    let (client, mut connection) = connected.unwrap().ok()?;
    let (sender, notifications) = unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(notification) = message {
                // If the client is gone, so is the receiver.
                let _ = sender.send(notification);
            }
        }
    });
    Some(Line {
        client,
        notifications,
    })
}

/// A client that notifies until the load stops.
pub(crate) async fn notify(load: Arc<Load>, url: String, sender: i32, mut rng: Rng) {
    let mut line = None;
    while !load.stop.load(Ordering::SeqCst) {
        let Some(connected) = &line else {
            line = connect(&url).await;
            if line.is_none() {
                tokio::time::sleep(RETRY).await;
            }
            continue;
        };
        let notice = send(&load, &connected.client, sender, &mut rng).await;
        if !matches!(notice.outcome, Outcome::Committed | Outcome::RolledBack) {
            line = None;
        }
        load.notices.add(notice);
        tokio::time::sleep(think(&mut rng)).await;
    }
}

/// The time to the next transaction.
fn think(rng: &mut Rng) -> Duration {
    Duration::from_millis(rng.below(THINKING_MS) as u64)
}

/// A transaction of one to three notifications, or a single one in autocommit. The client may be killed meanwhile.
async fn send(load: &Load, client: &Client, sender: i32, rng: &mut Rng) -> Notice {
    let count = if rng.chance(50) {
        1
    } else {
        rng.between(1, 3) as i32
    };
    let mut notice = Notice {
        sender,
        channel: rng.pick::<&str>(&CHANNELS),
        first: load.ledger.tags(count),
        count,
        begun: load.ledger.tick(),
        ended: 0,
        asked: false,
        outcome: Outcome::Unknown,
    };
    let asked = AtomicBool::new(false);
    let killed = rng.below(1_000) < load.kills;
    let patience = match killed {
        true => Duration::from_micros(rng.below(3_000) as u64),
        false => LIMIT,
    };
    let done = tokio::time::timeout(patience, perform(client, &notice, &asked, rng)).await;
    notice.ended = load.ledger.tick();
    notice.asked = asked.load(Ordering::SeqCst);
    notice.outcome = match done {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(error)) if is_unknown(&error) => Outcome::Unknown,
        Ok(Err(error)) => Outcome::Refused(sqlstate(&error)),
        Err(_) if killed => Outcome::Unknown,
        Err(_) => Outcome::Hung,
    };
    notice
}

async fn perform(
    client: &Client,
    notice: &Notice,
    asked: &AtomicBool,
    rng: &mut Rng,
) -> Result<Outcome, Error> {
    let by_function = rng.chance(50);
    let channel = notice.channel;
    let text = |number| match by_function {
        true => format!("SELECT pg_notify('{channel}', '{number}')"),
        false => format!("NOTIFY {channel}, '{number}'"),
    };
    let texts: Vec<String> = notice.numbers().map(text).collect();
    if rng.chance(50) {
        // One text is one transaction.
        asked.store(true, Ordering::SeqCst);
        client.simple_query(&texts.join("; ")).await?;
        return Ok(Outcome::Committed);
    }
    client.batch_execute("BEGIN").await?;
    for text in &texts {
        client.simple_query(text).await?;
    }
    if rng.chance(30) {
        client.batch_execute("ROLLBACK").await?;
        return Ok(Outcome::RolledBack);
    }
    asked.store(true, Ordering::SeqCst);
    client.batch_execute("COMMIT").await?;
    Ok(Outcome::Committed)
}

/// A client that listens until it gets one of the last notifications; if its connection is lost, it connects again.
pub(crate) struct Listener {
    pub(crate) load: Arc<Load>,
    pub(crate) url: String,
    pub(crate) sender: i32,
    pub(crate) is_direct: bool,
    pub(crate) rng: Rng,
}

impl Listener {
    pub(crate) async fn work(mut self) {
        loop {
            let Some(mut line) = connect(&self.url).await else {
                tokio::time::sleep(RETRY).await;
                continue;
            };
            let Ok(mut session) = self.listen(&line.client).await else {
                continue;
            };
            let has_last = self.hear(&mut line, &mut session).await;
            // Notifications that have arrived before the connection was lost.
            self.take(&mut line, &mut session);
            self.load.notices.add_session(session);
            if has_last {
                return;
            }
        }
    }

    /// Begins to listen, in autocommit or in a transaction.
    async fn listen(&mut self, client: &Client) -> Result<Session, Error> {
        let channels = match self.rng.below(3) {
            2 => CHANNELS.to_vec(),
            place => vec![CHANNELS[place]],
        };
        let begun = self.load.ledger.tick();
        let is_transaction = self.rng.chance(50);
        if is_transaction {
            client.simple_query("BEGIN").await?;
        }
        for channel in &channels {
            client.simple_query(&format!("LISTEN {channel}")).await?;
        }
        if is_transaction {
            client.simple_query("COMMIT").await?;
        }
        Ok(Session {
            is_direct: self.is_direct,
            channels,
            begun,
            listens_since: self.load.ledger.tick(),
            heard: Vec::new(),
            late: Vec::new(),
        })
    }

    /// Gets notifications, and sends some, until the connection is lost or one of the last notifications has arrived.
    async fn hear(&mut self, line: &mut Line, session: &mut Session) -> bool {
        let mut late = Vec::new();
        loop {
            let pause = tokio::time::sleep(think(&mut self.rng));
            let waits = self.load.stop.load(Ordering::SeqCst);
            tokio::select! {
                notification = line.notifications.recv() => match notification {
                    Some(notification) => self.note(&notification, session),
                    None => return false,
                },
                () = pause, if !waits => {
                    let notice = send(&self.load, &line.client, self.sender, &mut self.rng).await;
                    let is_answered = matches!(notice.outcome, Outcome::Committed | Outcome::RolledBack);
                    self.take(line, session);
                    if is_answered {
                        session.late.append(&mut late);
                    }
                    if notice.outcome == Outcome::Committed {
                        late = missing(&notice, session);
                    }
                    self.load.notices.add(notice);
                    if !is_answered {
                        return false;
                    }
                }
            }
            let last = session.heard.last().map(|heard| heard.number);
            if last.is_some_and(|number| number >= LAST) {
                session.late.append(&mut late);
                return true;
            }
        }
    }

    /// The notifications that have arrived so far.
    fn take(&self, line: &mut Line, session: &mut Session) {
        while let Ok(notification) = line.notifications.try_recv() {
            self.note(&notification, session);
        }
    }

    fn note(&self, notification: &Notification, session: &mut Session) {
        self.load.heard.fetch_add(1, Ordering::SeqCst);
        session.heard.push(Heard {
            channel: notification.channel().to_owned(),
            number: notification.payload().parse().unwrap(),
            at: self.load.ledger.tick(),
        });
    }
}

/// The numbers of its own notice that the session should have got and has not.
fn missing(notice: &Notice, session: &Session) -> Vec<i32> {
    let has = |number: &i32| session.heard.iter().any(|heard| heard.number == *number);
    let listens = session.channels.contains(&notice.channel);
    let missing = notice.numbers().filter(|number| listens && !has(number));
    missing.collect()
}
