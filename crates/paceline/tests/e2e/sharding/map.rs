//! The map in force: the times at which it is read, and its validity until it is read again.

use super::{await_shard, on_shards};
use crate::failover::console;
use crate::harness::paceline::Paceline;
use crate::harness::raw::RawClient;
use crate::harness::{At, Sharded, assert_same, until};

/// The map is read only once, unless something asks for it.
const ONCE: &str = "shard_map_max_age = \"1h\"";

const READ: &str = "SELECT * FROM t WHERE id = 1";

/// A table `t` with partitions by hash on both shards, and a row.
fn sharded() -> Sharded {
    let sharded = Sharded::new();
    sharded.hash_table("t", "id int NOT NULL, n int, secret int", "", "id", 4);
    sharded
        .on_coordinator()
        .ok("INSERT INTO t VALUES (1, 10, 100)");
    sharded
}

fn client(sharded: &Sharded, paceline: &Paceline, user: &str) -> RawClient {
    let parameters = [("user", user), ("database", sharded.database.as_str())];
    RawClient::connect(paceline.port(), &parameters)
}

#[track_caller]
fn assert_on_shard(client: &mut RawClient, sql: &str) {
    let before = on_shards(client);
    client.ok(sql);
    assert_eq!(on_shards(client), before + 1, "{sql}");
}

#[track_caller]
fn assert_on_coordinator(client: &mut RawClient, sql: &str) {
    let before = on_shards(client);
    for _ in 0..5 {
        client.simple(sql);
    }
    assert_eq!(on_shards(client), before, "{sql}");
}

#[test]
fn changes_of_the_coordinator_count_from_a_reload_on() {
    let sharded = sharded();
    let paceline = sharded.paceline(ONCE).spawn();
    let mut client = client(&sharded, &paceline, "postgres");
    await_shard(&mut client, READ);
    let mut coordinator = sharded.on_coordinator();
    coordinator.ok("ALTER TABLE t ENABLE ROW LEVEL SECURITY");
    assert_on_shard(&mut client, READ);
    let mut console = console(&paceline);
    console.ok("RELOAD");
    assert_on_coordinator(&mut client, READ);
    coordinator.ok("ALTER TABLE t DISABLE ROW LEVEL SECURITY");
    assert_on_coordinator(&mut client, READ);
    let database = &sharded.database;
    console.ok(&format!("PAUSE {database}"));
    console.ok(&format!("RESUME {database}"));
    await_shard(&mut client, READ);
}

#[test]
fn changes_of_a_shards_table_count_at_once() {
    let sharded = sharded();
    let paceline = sharded.paceline(ONCE).spawn();
    let mut client = client(&sharded, &paceline, "postgres");
    await_shard(&mut client, READ);
    for number in 0..2 {
        sharded.on_shard(number).ok(
            "DO $$ DECLARE name text; BEGIN FOR name IN SELECT relname FROM pg_class WHERE relname ~ '^t_[0-9]$' LOOP \
               EXECUTE format('ALTER TABLE %I ADD COLUMN more int', name); END LOOP; END $$",
        );
    }
    let expected = sharded.on_coordinator().ok(READ);
    for _ in 0..3 {
        let before = on_shards(&mut client);
        assert_same(READ, &expected.0, &client.ok(READ).0);
        assert_eq!(on_shards(&mut client), before);
    }
}

#[test]
fn the_privileges_are_those_on_the_coordinator() {
    let sharded = sharded();
    let (database, port) = (&sharded.database, sharded.coordinator.port());
    let mut coordinator = sharded.on_coordinator();
    let role = format!("reader_of_{database}");
    coordinator.ok(&format!(
        "CREATE ROLE {role} LOGIN; GRANT SELECT (id, n) ON t TO {role}"
    ));
    let text = format!(
        "[paceline]\nmonitor_user = \"postgres\"\n{ONCE}\nadmin_users = \"postgres\"\n\
         [databases.{database}]\nprimary = \"postgres://127.0.0.1:{port}/{database}\"\nshards = \"auto\"\n"
    );
    let paceline = Paceline::configured(&text).spawn();
    let mut client = client(&sharded, &paceline, &role);
    let allowed = "SELECT n FROM t WHERE id = 1";
    await_shard(&mut client, allowed);
    assert_on_coordinator(&mut client, READ);
    client.simple(READ).expect_error("42501");
    let update = "UPDATE t SET n = 11 WHERE id = 1";
    client.simple(update).expect_error("42501");
    coordinator.ok(&format!("REVOKE SELECT (n) ON t FROM {role}"));
    console(&paceline).ok("RELOAD");
    assert_on_coordinator(&mut client, allowed);
    client.simple(allowed).expect_error("42501");
    coordinator.ok(&format!("GRANT SELECT, UPDATE ON t TO {role}"));
    console(&paceline).ok("RELOAD");
    await_shard(&mut client, allowed);
    await_shard(&mut client, READ);
    assert_eq!(client.ok(update).tag(), "UPDATE 1");
    assert_eq!(coordinator.number(allowed), 11);
    drop((client, paceline));
    coordinator.ok(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
}

#[test]
fn nothing_is_read_without_shards() {
    let sharded = sharded();
    let monitors = |of: &mut RawClient| {
        of.number("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'paceline: monitor' AND datname = current_database()")
    };
    let text = sharded.configured().replace("\"auto\"", "\"off\"");
    let off = Paceline::configured(&text).spawn();
    let mut client = client(&sharded, &off, "postgres");
    assert_on_coordinator(&mut client, READ);
    let mut coordinator = sharded.on_coordinator();
    assert_eq!(monitors(&mut coordinator), 0);
    off.reload(&sharded.configured(), "Reload: done");
    until("the map is read", || {
        let shards = (0..2).all(|number| monitors(&mut sharded.on_shard(number)) == 1);
        shards && monitors(&mut coordinator) == 1
    });
    await_shard(&mut client, READ);
}

/// Each database that a client names has a map of its own, from its first client on.
#[test]
fn a_database_without_an_entry_has_shards_too() {
    let (one, other) = (sharded(), sharded());
    let port = one.coordinator.port();
    assert_eq!(port, other.coordinator.port(), "databases of one server");
    let paceline = Paceline::start(&format!("postgres://postgres@127.0.0.1:{port}/"))
        .set("shards=auto")
        .set("server_idle_timeout=1s")
        .set("autodb_idle_timeout=1s")
        .spawn();
    let mut of_one = client(&one, &paceline, "postgres");
    await_shard(&mut of_one, READ);
    let monitors = |sharded: &Sharded| {
        sharded.on_coordinator().number(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'paceline: monitor' AND datname = current_database()",
        )
    };
    assert_eq!((monitors(&one), monitors(&other)), (1, 0));
    let mut of_other = client(&other, &paceline, "postgres");
    await_shard(&mut of_other, READ);
    drop(of_one);
    until(
        "the map of a database without clients is read no more",
        || monitors(&one) == 0,
    );
    assert_on_shard(&mut of_other, READ);
}

#[test]
fn negative_and_boolean_literals_are_keys() {
    let sharded = sharded();
    let lists = [
        ("FOR VALUES IN (true)", At::Shard(0)),
        ("FOR VALUES IN (false)", At::Shard(1)),
    ];
    sharded.table(
        "b",
        "flag boolean NOT NULL, n int",
        "",
        "LIST (flag)",
        &lists,
    );
    sharded.on_coordinator().ok(
        "INSERT INTO b VALUES (true, 1), (false, 2); INSERT INTO t VALUES (-7, 70), (7, -70), (-9223372, 5)",
    );
    let paceline = sharded.paceline("").spawn();
    let mut client = client(&sharded, &paceline, "postgres");
    await_shard(&mut client, "SELECT n FROM t WHERE id = 7");
    for (sql, expected) in [
        ("SELECT n FROM t WHERE id = -7", "70"),
        ("SELECT n FROM t WHERE - 7 = id", "70"),
        ("SELECT n FROM t WHERE id = -9223372", "5"),
        ("SELECT n FROM b WHERE flag = true", "1"),
        ("SELECT n FROM b WHERE flag = FALSE", "2"),
    ] {
        await_shard(&mut client, sql);
        assert_eq!(client.value(sql), expected, "{sql}");
        assert_on_shard(&mut client, sql);
    }
    assert_on_shard(&mut client, "INSERT INTO t (id, n) VALUES (-8, 80)");
    assert_on_shard(&mut client, "UPDATE b SET n = n + 1 WHERE flag = true");
    let mut coordinator = sharded.on_coordinator();
    assert_eq!(coordinator.number("SELECT n FROM t WHERE id = -8"), 80);
    assert_eq!(coordinator.number("SELECT n FROM b WHERE flag"), 2);
    // PostgreSQL chooses the type of a number that is not an integer, and that of a parameter behind the sign.
    assert_on_coordinator(&mut client, "SELECT n FROM t WHERE id = -7.0");
}
