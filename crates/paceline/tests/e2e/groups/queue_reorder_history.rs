//! Generated histories of a queue with `queue_reorder_time`, in orders of several columns and both directions: each answer is
//! the one that a model predicts. Late commits, rollbacks, rows that other programs lock, keys older than the position.

use crate::harness::message::unit;
use crate::harness::raw::RawClient;
use crate::harness::stage::Target;
use crate::harness::{Rng, Stage};

const STEPS: usize = 150;
const LANES: i64 = 2;
/// Transactions of other programs.
const OUTSIDERS: usize = 3;

/// The columns by which the queue is ordered: index in [`Row::key`], and whether descending.
const ORDERS: [&[(usize, bool)]; 7] = [
    &[(3, false)],
    &[(3, true)],
    &[(0, false), (1, false), (3, false)],
    &[(0, true), (2, true), (3, true)],
    &[(0, true), (3, false)],
    &[(1, true), (2, false), (3, false)],
    &[(0, false), (2, true), (1, true), (3, false)],
];
const COLUMNS: [&str; 4] = ["a", "b", "c", "id"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Inserted, locked or deleted by the transaction of this outsider.
    Inserted(usize),
    Held(usize),
    Deleted(usize),
    Free,
}

#[derive(Debug, Clone)]
struct Row {
    lane: i64,
    /// The values of [`COLUMNS`]; `c` is the number of an hour.
    key: [i64; 4],
    state: State,
}

struct History {
    order: &'static [(usize, bool)],
    rng: Rng,
    direct: RawClient,
    client: RawClient,
    outsiders: Vec<RawClient>,
    rows: Vec<Row>,
    /// The position of the queue of each lane.
    positions: [Option<Vec<i64>>; LANES as usize],
    ids: i64,
}

/// The place of a row in an order.
fn place(row: &Row, order: &[(usize, bool)]) -> Vec<i64> {
    let value = |(column, descending): &(usize, bool)| match descending {
        true => -row.key[*column],
        false => row.key[*column],
    };
    order.iter().map(value).collect()
}

fn take(order: &[(usize, bool)]) -> String {
    let columns: Vec<String> = order
        .iter()
        .map(|(column, descending)| {
            let direction = if *descending { " DESC" } else { "" };
            format!("{}{direction}", COLUMNS[*column])
        })
        .collect();
    format!(
        "DELETE FROM h WHERE id IN (SELECT id FROM h WHERE lane = $1 ORDER BY {} LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING id",
        columns.join(", ")
    )
}

impl History {
    fn step(&mut self) {
        match self.rng.below(10) {
            0..3 => self.insert(),
            3 => self.change(),
            4 => self.end_outsider(),
            _ => self.take(),
        }
    }

    fn insert(&mut self) {
        self.ids += 1;
        // Some numbers are older than those before.
        let id = self.ids * 10 - self.rng.between(0, 5) * 10 * i64::from(self.rng.chance(20));
        if self.rows.iter().any(|row| row.key[3] == id) {
            return;
        }
        let mut small = || self.rng.between(-2, 2);
        let key = [small(), small(), small(), id];
        let lane = self.rng.between(0, LANES - 1);
        let outsider = self.rng.below(2 * OUTSIDERS);
        let [a, b, c, id] = key;
        let sql = format!(
            "INSERT INTO h VALUES ({lane}, {a}, {b}, '2026-01-01'::timestamptz + {c} * interval '1 hour', {id})"
        );
        let state = match self.outsiders.get_mut(outsider) {
            Some(client) => {
                client.ok(&sql);
                State::Inserted(outsider)
            }
            None => {
                self.direct.ok(&sql);
                State::Free
            }
        };
        self.rows.push(Row { lane, key, state });
    }

    /// An outsider locks a row, or deletes it.
    fn change(&mut self) {
        let outsider = self.rng.below(OUTSIDERS);
        let deletes = self.rng.chance(50);
        let mut free = self.rows.iter_mut().filter(|row| row.state == State::Free);
        let Some(row) = free.nth(self.rng.below(4)) else {
            return;
        };
        let id = row.key[3];
        let client = &mut self.outsiders[outsider];
        if deletes {
            client.ok(&format!("DELETE FROM h WHERE id = {id}"));
            row.state = State::Deleted(outsider);
        } else {
            client.ok(&format!("SELECT FROM h WHERE id = {id} FOR UPDATE"));
            row.state = State::Held(outsider);
        }
    }

    fn end_outsider(&mut self) {
        let outsider = self.rng.below(OUTSIDERS);
        let commits = self.rng.chance(60);
        let end = if commits { "COMMIT" } else { "ROLLBACK" };
        self.outsiders[outsider].ok(&format!("{end}; BEGIN"));
        let gone = |row: &Row| match row.state {
            State::Inserted(by) => by == outsider && !commits,
            State::Deleted(by) => by == outsider && commits,
            _ => false,
        };
        self.rows.retain(|row| !gone(row));
        for row in &mut self.rows {
            if let State::Inserted(by) | State::Held(by) | State::Deleted(by) = row.state
                && by == outsider
            {
                row.state = State::Free;
            }
        }
    }

    /// The orders that the next group of a lane must get.
    fn predicted(&mut self, lane: i64, limit: usize) -> Vec<i64> {
        let free = |row: &&Row| row.state == State::Free && row.lane == lane;
        let mut rows: Vec<&Row> = self.rows.iter().filter(free).collect();
        rows.sort_by_key(|row| place(row, self.order));
        let position = &mut self.positions[lane as usize];
        let (earlier, later): (Vec<&Row>, Vec<&Row>) = rows.into_iter().partition(|row| {
            let before = |position: &Vec<i64>| place(row, self.order) < *position;
            position.as_ref().is_some_and(before)
        });
        let later = &later[..limit.min(later.len())];
        let missing = (limit - later.len()).min(earlier.len());
        let picked: Vec<&Row> = earlier[..missing].iter().chain(later).copied().collect();
        if let Some(first) = picked.first() {
            *position = Some(place(first, self.order));
        }
        picked.iter().map(|row| row.key[3]).collect()
    }

    fn take(&mut self) {
        let lane = self.rng.between(0, LANES - 1);
        let limit = self.rng.between(1, 3);
        let expected = self.predicted(lane, limit as usize);
        let (lane, limit) = (lane.to_string(), limit.to_string());
        let sql = take(self.order);
        let request = unit(&sql, &[Some(&lane), Some(&limit)]);
        let rows = self.client.ask(&request).expect_ok(&sql).rows();
        let ids: Vec<i64> = rows
            .into_iter()
            .flatten()
            .map(|id| id.unwrap().parse().unwrap())
            .collect();
        assert_eq!(ids, expected, "lane {lane}, limit {limit}: {sql}");
        self.rows.retain(|row| !ids.contains(&row.key[3]));
    }
}

#[test]
fn each_answer_is_that_of_the_model() {
    let seed = paceline_testing::seed();
    for (number, order) in (0..).zip(ORDERS) {
        let stage = Stage::on_shared()
            .set("default_pool_size=1")
            .set("hotspot_for_autocommit=true")
            .set("queue_reorder_time=1h")
            .open();
        if stage.target() == Target::Bare {
            return;
        }
        let sql = take(order);
        println!("{sql}");
        stage.direct().ok(
            "CREATE TABLE h (lane int, a smallint NOT NULL, b numeric NOT NULL, c timestamptz NOT NULL, id bigint PRIMARY KEY)",
        );
        let mut client = stage.client();
        client
            .ask(&unit(&sql, &[Some("0"), Some("1")]))
            .expect_ok(&sql);
        stage.await_analysis();
        let mut outsiders: Vec<RawClient> = (0..OUTSIDERS).map(|_| stage.direct()).collect();
        for outsider in &mut outsiders {
            outsider.ok("BEGIN");
        }
        let mut history = History {
            order,
            rng: Rng::new(seed.wrapping_add(number)),
            direct: stage.direct(),
            client,
            outsiders,
            rows: Vec::new(),
            positions: Default::default(),
            ids: 0,
        };
        (0..STEPS).for_each(|_| history.step());
        let groups = stage.client().ok("SHOW GROUPS").rows();
        let takes = |row: &Vec<Option<String>>| row[1].as_deref() == Some("take");
        assert!(
            groups.iter().any(takes),
            "no request was grouped: {groups:#?}"
        );
    }
}
