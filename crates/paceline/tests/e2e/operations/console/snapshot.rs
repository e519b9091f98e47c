//! `SHOW SNAPSHOT`: what `paceline top` and the web console show.

use super::{console, operator, stage};
use crate::harness::Stage;
use crate::harness::message::query;
use crate::harness::raw::RawClient;
use crate::harness::until;
use serde_json::Value;

fn snapshot(client: &mut RawClient) -> Value {
    serde_json::from_str(&client.value("SHOW SNAPSHOT")).unwrap()
}

#[test]
fn hot_rows_have_values_for_administrators_only() {
    let Some(stage) = stage(Stage::on_shared().set("hotspot_for_autocommit=true")) else {
        return;
    };
    let mut direct = stage.direct();
    direct
        .ok("CREATE TABLE stock (id int PRIMARY KEY, qty int); INSERT INTO stock VALUES (7, 100)");
    let update = "UPDATE stock SET qty = qty - 1 WHERE id = 7";
    stage.client().ok(update);
    stage.await_analysis();
    direct.ok("BEGIN; SELECT FROM stock WHERE id = 7 FOR UPDATE");
    let mut clients = stage.clients(5);
    clients
        .iter_mut()
        .for_each(|client| client.send(&query(update)));
    let mut boss = operator(&stage);
    let mut first = Value::Null;
    until("requests wait for the row", || {
        first = snapshot(&mut boss)["hot_rows"][0].clone();
        first["waiting"].as_u64() > Some(1)
    });
    assert_eq!(first["values"], "7");
    assert!(first["template"].as_str().unwrap().contains("UPDATE stock"));
    let seen = snapshot(&mut console(&stage, "pgbouncer", "watch"));
    assert!(seen["hot_rows"][0]["waiting"].as_u64() > Some(1));
    assert_eq!(seen["hot_rows"][0].get("values"), None);
    direct.ok("COMMIT");
    for client in &mut clients {
        assert_eq!(client.reply().sqlstate(), "");
    }
}

#[test]
fn the_slowest_templates_come_first_and_rates_are_those_since_the_last_snapshot() {
    let Some(stage) = stage(Stage::on_shared()) else {
        return;
    };
    let mut client = stage.client();
    let mut boss = operator(&stage);
    for sql in ["SELECT 1", "SELECT pg_sleep(0.2)"] {
        client.ok(sql);
    }
    let first = snapshot(&mut boss);
    assert_eq!(first["units"]["solo"], 0.0, "there was no snapshot before");
    assert_eq!(first["slowest"].as_array().unwrap().len(), 0);
    for sql in ["SELECT 1", "SELECT 1", "SELECT pg_sleep(0.2)"] {
        client.ok(sql);
    }
    let second = snapshot(&mut boss);
    assert!(second["units"]["solo"].as_f64() > Some(0.0));
    let slowest = &second["slowest"][0];
    assert!(slowest["template"].as_str().unwrap().contains("pg_sleep"));
    assert!(slowest["mean_ms"].as_f64() >= Some(200.0), "{slowest}");
    assert_eq!(second["slowest"].as_array().unwrap().len(), 2);
    let groups = boss.ok("SHOW GROUPS");
    let rows = super::table(&groups);
    let row = rows.iter().find(|row| row["template"].contains("pg_sleep"));
    let mean: f64 = row.unwrap()["mean_ms"].parse().unwrap();
    assert!((200.0..).contains(&mean), "{mean}");
}
