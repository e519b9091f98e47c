//! The spans of requests that replicas and shards execute: they name the server that answered.

use super::{Behaviour, TRACE, comment, is_traced};
use crate::failover::Pair;
use crate::harness::collector::{Collector, ReceivedSpan};
use crate::harness::message::query;
use crate::harness::stage::Target;
use crate::harness::until;
use crate::sharding::{ShardedAccounts, await_shard, on_shards};

/// The port of the server and the strategy of each span, in the order of the clients' spans.
fn executions(spans: &[ReceivedSpan]) -> Vec<[String; 2]> {
    let mut spans: Vec<_> = spans.iter().filter(|span| is_traced(span)).collect();
    spans.sort_by_key(|span| span.field("parentSpanId").to_owned());
    let execution = |span: &&ReceivedSpan| {
        ["server.port", "paceline.strategy"].map(|name| span.attribute(name))
    };
    spans.iter().map(execution).collect()
}

#[test]
fn a_read_names_the_replica_that_answered() {
    let collector = Collector::start(Behaviour::Accepts);
    let Some(pair) = Pair::reading(&["reads=session", &collector.setting()]) else {
        return;
    };
    let [primary, replica] = [&pair.primary, &pair.replica].map(|server| server.port().to_string());
    let mut client = pair.client();
    let read = "SELECT n FROM t WHERE id = 1";
    let mut number = 0;
    let mut ports = Vec::new();
    until("the replica answers", || {
        number += 1;
        let before = pair.reads();
        client.ok(&format!("{read} {}", comment(number, "01")));
        let on_replica = pair.reads() > before;
        ports.push(if on_replica { &replica } else { &primary });
        on_replica
    });
    let write = "UPDATE t SET n = 7 WHERE id = 1";
    // The replica does not have it yet, so the primary answers.
    pair.pause_replay();
    client.ok(&format!("{write} {}", comment(number + 1, "01")));
    client.ok(&format!("{read} {}", comment(number + 2, "01")));
    pair.resume_replay();
    ports.extend([&primary, &primary]);
    let spans = collector.await_spans(number + 2, is_traced);
    let found: Vec<_> = executions(&spans)
        .into_iter()
        .map(|[port, _]| port)
        .collect();
    assert_eq!(found, ports.into_iter().cloned().collect::<Vec<_>>());
}

#[test]
fn a_statement_names_the_shard_that_executed_it() {
    if Target::chosen() == Target::Bare {
        return;
    }
    let collector = Collector::start(Behaviour::Accepts);
    let setting = collector.setting().replacen('=', " = \"", 1);
    let sharded = ShardedAccounts::serving(&format!("{setting}\""));
    let (mut client, mut whole) = (sharded.client(), sharded.whole());
    let update = "UPDATE accounts SET balance = balance + 1 WHERE id = ";
    await_shard(&mut client, &format!("{update}1"));
    let mut expected = Vec::new();
    for id in 1..=8_usize {
        let before = on_shards(&mut client);
        client.ok(&format!("{update}{id} {}", comment(id, "01")));
        assert_eq!(on_shards(&mut client), before + 1, "id {id}");
        let partition =
            format!("SELECT right(tableoid::regclass::text, 1) FROM accounts WHERE id = {id}");
        let place = whole.number(&partition) as usize % sharded.shards.len();
        expected.push((sharded.shards[place].port(), "solo"));
    }
    // Only the coordinator can execute these.
    client.ok(&format!(
        "SELECT count(*) FROM accounts {}",
        comment(9, "01")
    ));
    client.ok(&format!("BEGIN {}", comment(10, "01")));
    client.ok(&format!("{update}1 {}", comment(11, "01")));
    let failing = query(&format!("SELECT 1 / 0 {}", comment(12, "01")));
    client.ask(&failing).expect_error("22012");
    client.ok(&format!("ROLLBACK {}", comment(13, "01")));
    let coordinator = sharded.coordinator.port();
    expected.push((coordinator, "solo"));
    expected.extend([(coordinator, "lease"); 4]);
    let spans = collector.await_spans(13, is_traced);
    let found: Vec<_> = executions(&spans)
        .into_iter()
        .map(|[port, strategy]| (port, strategy))
        .collect();
    let expected: Vec<_> = expected
        .into_iter()
        .map(|(port, strategy)| (port.to_string(), strategy.to_owned()))
        .collect();
    assert_eq!(found, expected);
    assert!(spans.iter().all(|span| span.field("traceId") == TRACE));
}
