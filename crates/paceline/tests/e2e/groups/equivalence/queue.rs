//! Generated queues: the table that consumers take from, the one that orders are moved to, and the orders at first.
//!
//! Every order has a name of its own, which is also in PostgreSQL's errors about its row. It shows which consumer got which order.

use crate::harness::Rng;
use crate::harness::raw::RawClient;
use crate::harness::reply::Reply;

/// Removes a case's tables.
pub(super) const DROP: &str = "DROP TABLE q, done, q_start";

const COLUMNS: &str = "job text NOT NULL, id bigint PRIMARY KEY, lane int NOT NULL, prio int, state text NOT NULL, \
    worker int, note varchar(8), score int CHECK (score >= 0), at timestamptz DEFAULT '2024-02-29 12:00+00'";
const CONTENT: &str = "
    SELECT 'q', job, id, lane, prio, state, worker, note, score, at FROM q
    UNION ALL SELECT 'done', job, id, lane, NULL, NULL, worker, note, score, NULL FROM done ORDER BY 1, 2";

/// The beginning of an order's name; a number follows.
const NAME: &str = "job-";

/// The rows of both tables.
pub(super) type Content = Vec<Vec<Option<String>>>;

/// A queue named `q`; finished orders may be moved to `done`.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) partitioned: bool,
    index: &'static str,
    orders: Vec<Order>,
}

/// An order; its id makes its name.
#[derive(Debug, Clone)]
pub(super) struct Order {
    pub(super) id: usize,
    lane: usize,
    prio: Option<usize>,
    ready: bool,
}

impl Queue {
    pub(super) fn generate(rng: &mut Rng) -> Queue {
        let mut ids: Vec<usize> = (1..=3 + rng.below(14)).map(|number| 10 * number).collect();
        ids.retain(|_| rng.chance(85));
        // In the table they are not in order.
        for place in (1..ids.len()).rev() {
            ids.swap(place, rng.below(place + 1));
        }
        Queue {
            partitioned: rng.chance(25),
            index: match rng.below(4) {
                0 => "; CREATE INDEX ON q (prio, id)",
                1 => "; CREATE INDEX ON q (lane, id) WHERE state = 'ready'",
                _ => "",
            },
            orders: ids.into_iter().map(|id| Order::generate(id, rng)).collect(),
        }
    }

    /// An order that finds its place somewhere in the middle; `number` is unique in a history.
    pub(super) fn latecomer(number: usize, rng: &mut Rng) -> Order {
        let mut order = Order::generate(10 * rng.below(18) + 1 + number, rng);
        order.ready = true;
        order
    }

    pub(super) fn sql(&self) -> String {
        let partitions = match self.partitioned {
            true => {
                " PARTITION BY HASH (id); \
                CREATE TABLE q_0 PARTITION OF q FOR VALUES WITH (MODULUS 2, REMAINDER 0); \
                CREATE TABLE q_1 PARTITION OF q FOR VALUES WITH (MODULUS 2, REMAINDER 1)"
            }
            false => "",
        };
        let orders: Vec<String> = self.orders.iter().map(Order::insert).collect();
        format!(
            "CREATE TABLE q ({COLUMNS}){partitions}{index};\n\
             CREATE TABLE done (job text PRIMARY KEY, id bigint, lane int, worker int, note varchar(8), score int CHECK (score >= 0));\n\
             {orders};\nCREATE TABLE q_start AS TABLE q",
            index = self.index,
            orders = orders.join(";\n"),
        )
    }

    /// The tables from which consumers may take, as `q`.
    pub(super) fn tables(&self) -> &'static [&'static str] {
        match self.partitioned {
            true => &["q", "q_1 AS q"],
            false => &["q"],
        }
    }

    pub(super) fn create(&self, client: &mut RawClient) {
        client.ok(&self.sql());
    }

    /// Restores its first state, without changing the catalog.
    pub(super) fn refill(&self, client: &mut RawClient) {
        client.ok("DELETE FROM q; DELETE FROM done; INSERT INTO q SELECT * FROM q_start");
    }

    pub(super) fn content(&self, client: &mut RawClient) -> Content {
        client.ok(CONTENT).rows()
    }

    /// The first of them by their ids, at most this many.
    pub(super) fn head(&self, count: usize) -> Vec<usize> {
        let mut ids: Vec<usize> = self.orders.iter().map(|order| order.id).collect();
        ids.sort_unstable();
        ids.truncate(count);
        ids
    }

    /// The names of its orders.
    pub(super) fn names(&self) -> impl Iterator<Item = String> {
        self.orders.iter().map(Order::name)
    }
}

impl Order {
    fn generate(id: usize, rng: &mut Rng) -> Order {
        Order {
            id,
            lane: 1 + usize::from(rng.chance(35)),
            prio: rng.chance(80).then(|| 1 + rng.below(3)),
            ready: rng.chance(85),
        }
    }

    pub(super) fn name(&self) -> String {
        format!("{NAME}{}", self.id)
    }

    pub(super) fn insert(&self) -> String {
        let prio = self.prio.map_or("NULL".to_owned(), |prio| prio.to_string());
        let state = if self.ready { "ready" } else { "held" };
        format!(
            "INSERT INTO q (job, id, lane, prio, state) VALUES ('{}', {}, {}, {prio}, '{state}')",
            self.name(),
            self.id,
            self.lane,
        )
    }
}

/// A row of the content that no consumer will change any more, if rows that are `taken` do not change.
pub(super) fn is_for_good(row: &[Option<String>], taken_stay: bool) -> bool {
    row[0].as_deref() == Some("done") || taken_stay && row[5].as_deref() == Some("taken")
}

/// The orders that a reply contains, in rows or in an error.
pub(super) fn named_in(reply: &Reply) -> Vec<String> {
    let mut names = Vec::new();
    for message in &reply.0 {
        let text = String::from_utf8_lossy(&message.body);
        for rest in text.split(NAME).skip(1) {
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            names.push(format!("{NAME}{digits}"));
        }
    }
    names
}
