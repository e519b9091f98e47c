//! The statement that a group gets, and its position, without a server.

use crate::strategy::{BuildContext, PlannedRequest, Prelude, Strategy};
use crate::testing::fold_statement::{INT4, INT8, table};
use crate::testing::group_run::{GroupRun, unchanged};
use crate::testing::planned_statement::PlannedStatement;
use paceline_relay::server::ServerSide;
use paceline_relay::settings::SettingsInterner;
use paceline_relay::template::Templates;
use paceline_testing::messages::Wire;
use paceline_testing::messages::server::*;
use paceline_wire::Frames;
use paceline_wire::frontend::{BindNames, BindValues, tag};
use std::time::{Duration, Instant};

const REORDER_TIME: Duration = Duration::from_secs(1);

/// Takes rows of lane `$1`, the most urgent first.
fn pops() -> PlannedStatement {
    let columns = [("id", INT8), ("lane", INT4), ("priority", INT4)];
    let mut queue = table(&columns, &["id"]);
    for column in &mut queue.columns {
        column.never_null = true;
    }
    let text = "DELETE FROM t WHERE id IN (SELECT id FROM t WHERE lane = $1 \
        ORDER BY priority DESC, id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id";
    PlannedStatement::taking(text, &queue, &[INT4], vec![column("id", 20)])
}

/// A queue and the server, at one moment.
struct Scene {
    prelude: Prelude,
    server: ServerSide,
    begin: Instant,
    now: Instant,
    reorder_time: Duration,
}

/// The sent messages: the values after the lane, and the formats of the result columns.
type Sent = (Vec<Vec<u8>>, Vec<i16>);

impl Scene {
    fn new() -> Self {
        let now = Instant::now();
        Self {
            prelude: Prelude::new(&Templates::default()),
            server: ServerSide::new(SettingsInterner::default().none(), 100),
            begin: now,
            now,
            reorder_time: REORDER_TIME,
        }
    }

    /// Sends a group, and answers it. Returns what was sent, and the results.
    fn run<const N: usize>(
        &mut self,
        members: &[PlannedRequest],
        answer: [Wire; N],
    ) -> (Sent, Vec<String>) {
        let context = BuildContext {
            prelude: &self.prelude,
            now: self.now,
            queue_reorder_time: self.reorder_time,
            on_replica: false,
        };
        let run = GroupRun::send_in(&context, Strategy::Take, members, &mut self.server);
        let mut run = run.expect("these members share a group");
        let sent = sent(&run.sent);
        let results = run.answer([answer.concat()]);
        (sent, results)
    }
}

fn sent(messages: &[u8]) -> Sent {
    let bind = Frames::new(messages).find(|frame| frame.tag == tag::BIND);
    let rest = BindNames::read(bind.expect("a Bind").body()).expect("names");
    let read = BindValues::read(rest.rest, 0).expect("values");
    let values = read.values.iter().skip(3).cloned();
    let values = values.map(|value| rest.rest[value.expect("not NULL")].to_vec());
    (values.collect(), read.result_formats)
}

/// A row of the result: its number, the position of the first one, and its id.
fn taken(number: i32, position: [Option<&[u8]>; 2], id: &str) -> Wire {
    let number = number.to_be_bytes();
    let [priority, first] = position;
    let row = [
        unchanged(true),
        Some(&number[..]),
        priority,
        first,
        Some(id.as_bytes()),
    ];
    values(&row)
}

fn nothing() -> Wire {
    values(&[unchanged(true), None, None, None, None])
}

fn end() -> Wire {
    [complete("SELECT 1"), ready('I')].concat()
}

#[test]
fn a_group_starts_at_the_first_row_of_the_last_one() {
    let (mut pops, mut scene) = (pops(), Scene::new());
    let lane = [pops.texts(&["7"]), pops.texts(&["7"])];
    let (nine, five): (&[u8], &[u8]) = (&[0, 0, 0, 9], &[0, 0, 0, 0, 0, 0, 0, 5]);
    let position = [Some(nine), Some(five)];
    let rows = [taken(1, position, "5"), taken(2, position, "6")].concat();
    let (sent, results) = scene.run(&lane, [parsed(), bound(), rows, end()]);
    assert_eq!(sent, (vec![], vec![1, 1, 1, 1, 0]), "the whole queue");
    assert_eq!(
        results,
        [
            "0: parsed, bound, columns id, row 5, DELETE 1, ready I",
            "1: parsed, bound, columns id, row 6, DELETE 1, ready I",
        ]
    );
    let (sent, _) = scene.run(&lane, [parsed(), bound(), nothing(), end()]);
    let from = vec![nine.to_vec(), five.to_vec()];
    assert_eq!(sent, (from.clone(), vec![1, 1, 1, 1, 0]));
    // Another lane is another queue.
    let other = [pops.texts(&["8"])];
    let (sent, _) = scene.run(&other, [bound(), nothing(), end()]);
    assert_eq!(sent.0, Vec::<Vec<u8>>::new());
    let (sent, _) = scene.run(&lane, [bound(), nothing(), end()]);
    assert_eq!(sent.0, from, "nothing was found");
    scene.now = scene.begin + REORDER_TIME;
    let (sent, _) = scene.run(&lane, [bound(), nothing(), end()]);
    assert_eq!(sent.0, Vec::<Vec<u8>>::new(), "the time is over");
    let (sent, _) = scene.run(&lane, [bound(), nothing(), end()]);
    assert_eq!(sent.0, from);
}

#[test]
fn only_committed_groups_move_the_position() {
    let (mut pops, mut scene) = (pops(), Scene::new());
    let lane = [pops.texts(&["7"])];
    let position = [Some(&[0, 0, 0, 9][..]), Some(&[0, 0, 0, 0, 0, 0, 0, 5][..])];
    let row = || taken(1, position, "5");
    let failed = [error("23514", "a check"), ready('I')].concat();
    let (_, results) = scene.run(&lane, [parsed(), bound(), row(), failed]);
    assert_eq!(results, ["0: retry FirstHalf"]);
    let changed = values(&[unchanged(false), None, None, None, None]);
    let (sent, _) = scene.run(&lane, [bound(), row(), changed, end()]);
    assert!(sent.0.is_empty());
    let (sent, _) = scene.run(&lane, [bound(), row(), end()]);
    assert!(sent.0.is_empty());
    let (sent, _) = scene.run(&lane, [parsed(), bound(), row(), end()]);
    assert_eq!(sent.0.len(), 2);
}

#[test]
fn without_the_setting_the_statement_and_its_result_have_no_position() {
    let (mut pops, mut scene) = (pops(), Scene::new());
    scene.reorder_time = Duration::ZERO;
    let lane = [pops.texts(&["7"])];
    for answer in [[parsed(), bound()].concat(), bound()] {
        let row = values(&[unchanged(true), Some(&1_i32.to_be_bytes()), Some(b"5")]);
        let (sent, results) = scene.run(&lane, [answer, row, end()]);
        assert_eq!(sent, (vec![], vec![1, 1, 0]));
        assert!(results[0].ends_with("bound, columns id, row 5, DELETE 1, ready I"));
    }
}
