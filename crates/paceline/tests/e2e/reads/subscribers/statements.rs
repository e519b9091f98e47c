//! Statements that a subscriber does not answer.

use super::{READ, Subscribed};
use crate::harness::raw::RawClient;

#[test]
fn the_primary_serves_what_may_differ_on_a_subscriber() {
    let subscribed = Subscribed::serving("reads = \"any\"");
    let mut client = subscribed.client();
    client.ok("CREATE VIEW v AS SELECT id FROM orders;
         CREATE FUNCTION own(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1 + 1';
         CREATE TYPE mood AS ENUM ('ok');
         CREATE SCHEMA app; CREATE TABLE app.other AS SELECT 1 AS id;");
    subscribed.await_serving();
    subscribed.await_answer(&mut client, READ);
    for sql in [
        "SELECT count(*) FROM orders JOIN other ON other.id = orders.id",
        "SELECT id FROM other",
        "SELECT count(*) FROM orders WHERE id IN (SELECT id FROM app.other)",
        "SELECT id FROM v",
        "SELECT own(id) FROM orders",
        "SELECT ctid FROM orders",
        "SELECT o.xmin FROM orders o",
        "SELECT tableoid::regclass FROM orders",
        "SELECT orders FROM orders",
        "SELECT row(id, n) FROM items",
        "SELECT array_agg(items) FROM items",
        "SELECT current_user, id FROM orders",
        "SELECT current_database(), id FROM orders",
        "SELECT current_schema FROM orders",
        "SELECT pg_column_size(customer) FROM orders",
        "SELECT has_table_privilege('orders', 'SELECT') FROM orders",
        "SELECT 'orders'::regclass FROM orders",
        "SELECT 'ok'::mood FROM orders",
        "SELECT customer FROM orders ORDER BY customer COLLATE \"C\"",
        "SELECT to_tsvector(customer) FROM orders",
        "SELECT id FROM orders WHERE customer @@ 'x'",
        "SELECT version(), id FROM orders",
        "SELECT random() > 2 FROM orders",
        "SELECT id FROM orders FOR UPDATE",
        "SELECT id FROM orders TABLESAMPLE SYSTEM (100)",
        "EXPLAIN (COSTS OFF) SELECT id FROM orders",
        "SELECT 1",
        "SELECT relname FROM pg_class WHERE relname = 'orders'",
        "TABLE pg_catalog.pg_database",
    ] {
        subscribed.assert_elsewhere(&mut client, sql);
    }
    // These are answered, so that it is not for another reason that those are not.
    for sql in [
        "SELECT count(*) FROM orders WHERE at < now()",
        "SELECT date_trunc('day', at), upper(customer), amount::text FROM orders WHERE id BETWEEN 2 AND 4",
        "WITH o AS (SELECT id FROM public.orders) SELECT count(*) FROM o JOIN items ON items.order_id = o.id",
        "SELECT row_to_json(o) FROM orders o WHERE id = 1",
    ] {
        subscribed.await_answer(&mut client, sql);
    }
}

/// If users define an object on one of the servers, the subscriber answers no statement with its name.
#[test]
fn a_name_with_another_meaning_is_not_answered() {
    let subscribed = Subscribed::serving("reads = \"any\"");
    let mut client = subscribed.client();
    let (upper, plain) = ("SELECT upper(customer) FROM orders WHERE id = 1", READ);
    let plus = "SELECT id + 1 FROM orders WHERE id = 1";
    for sql in [upper, plus, plain] {
        subscribed.await_answer(&mut client, sql);
    }
    let mut copy = subscribed.subscriber.client("postgres");
    copy.ok("CREATE FUNCTION upper(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT 1'");
    copy.ok("CREATE OPERATOR + (LEFTARG = text, RIGHTARG = int, FUNCTION = repeat)");
    subscribed.await_probe();
    subscribed.assert_elsewhere(&mut client, upper);
    subscribed.assert_elsewhere(&mut client, plus);
    subscribed.await_answer(&mut client, plain);
    // A table of the same name in another schema.
    copy.ok("CREATE SCHEMA app; CREATE TABLE app.orders (id int)");
    subscribed.await_probe();
    subscribed.assert_elsewhere(&mut client, plain);
    subscribed.await_answer(&mut client, "SELECT count(*) FROM public.orders");
}

/// The settings of a client are in force on the subscriber, and the role is the client's.
#[test]
fn settings_of_clients_are_in_force() {
    let subscribed = Subscribed::serving("reads = \"any\"");
    let mut client = subscribed.client();
    client.ok("SET TimeZone = 'Asia/Tokyo'; SET DateStyle = 'German'");
    let at = "SELECT at FROM orders WHERE id = 1";
    let expected = client.value(at);
    let before = subscribed.reads();
    subscribed.await_answer(&mut client, at);
    assert!(subscribed.reads() > before);
    assert_eq!(client.value(at), expected);
    for server in [&subscribed.primary, &subscribed.subscriber] {
        let mut server = server.client("postgres");
        server.ok("CREATE ROLE someone; GRANT SELECT ON orders TO someone");
    }
    client.ok("SET ROLE someone");
    subscribed.assert_elsewhere(&mut client, READ);
    client.ok("RESET ROLE");
    subscribed.await_answer(&mut client, READ);
}

/// The privilege counts that the user has on the primary, whatever it has on the subscriber.
#[test]
fn a_user_reads_what_it_may_read_on_the_primary() {
    let subscribed = Subscribed::as_themselves("reads = \"any\"\nmonitor_user = \"mon\"");
    let mut publisher = subscribed.primary.client("postgres");
    let mut copy = subscribed.subscriber.client("postgres");
    for server in [&mut publisher, &mut copy] {
        server.ok("CREATE ROLE app LOGIN; GRANT SELECT ON orders TO app");
    }
    let login = [("user", "app"), ("database", "postgres")];
    let mut app = RawClient::connect(subscribed.paceline.port(), &login);
    assert_eq!(app.value("SELECT current_user"), "app");
    subscribed.await_answer(&mut app, READ);
    publisher.ok("REVOKE SELECT ON orders FROM app");
    subscribed.await_probe();
    let before = subscribed.reads();
    let refused = app.simple(READ);
    assert_eq!(refused.error().unwrap().sqlstate(), "42501");
    publisher.ok("GRANT SELECT ON orders TO app");
    subscribed.await_probe();
    // Without the privilege on the subscriber, the primary answers.
    copy.ok("REVOKE SELECT ON orders FROM app");
    subscribed.assert_elsewhere(&mut app, READ);
    assert_eq!(subscribed.reads(), before);
    copy.ok("GRANT SELECT ON orders TO app");
    subscribed.await_answer(&mut app, READ);
    // Other defaults of the user on one of the servers.
    copy.ok("ALTER ROLE app SET search_path = public");
    subscribed.await_probe();
    subscribed.assert_elsewhere(&mut app, READ);
}
