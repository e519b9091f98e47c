//! Prepared statements by name: they survive moving between server connections and eviction, and obey PostgreSQL's rules.

use crate::harness::message::{bind, close, execute, parse, query, sync, unit};
use crate::harness::raw::RawClient;
use crate::harness::stage::Target;
use crate::harness::{Reply, Stage, assert_same};

fn stage(servers: usize) -> Stage {
    Stage::on_shared()
        .set(&format!("default_pool_size={servers}"))
        .open()
}

fn run(name: &str, value: &str) -> Vec<u8> {
    [bind("", name, &[Some(value)]), execute("", 0), sync()].concat()
}

/// Two clients with the same names for different statements, moved around between two servers by transactions.
#[test]
fn named_statements_move_between_servers() {
    let stage = stage(2);
    let mut clients = stage.clients(4);
    for (number, client) in clients.iter_mut().enumerate() {
        let sql = format!("SELECT $1::int + {number}, pg_backend_pid()");
        client
            .ask(&[parse("same", &sql, &[]), sync()].concat())
            .expect_ok("parse");
    }
    let mut servers = std::collections::BTreeSet::new();
    for round in 0..20 {
        let lessee = round % clients.len();
        clients[lessee].ok("BEGIN");
        for (number, client) in clients.iter_mut().enumerate() {
            let row = client
                .ask(&run("same", "100"))
                .expect_ok("bind")
                .rows()
                .remove(0);
            assert_eq!(row[0].as_deref(), Some((100 + number).to_string().as_str()));
            servers.insert(row[1].clone());
        }
        clients[lessee].ok("COMMIT");
    }
    assert!(
        stage.target() == Target::Bare || servers.len() == 2,
        "{servers:?}"
    );
}

/// More statements than a server connection may keep.
#[test]
fn statements_survive_eviction() {
    let stage = Stage::on_shared()
        .set("default_pool_size=1")
        .set("max_prepared_statements=2")
        .open();
    let mut client = stage.client();
    for number in 0..6 {
        let sql = format!("SELECT $1::int * {number}");
        client
            .ask(&[parse(&format!("s{number}"), &sql, &[]), sync()].concat())
            .expect_ok("parse");
    }
    for round in [1, 2, 3] {
        for number in 0..6 {
            let reply = client.ask(&run(&format!("s{number}"), &round.to_string()));
            assert_eq!(
                reply.expect_ok("bind").value(),
                (round * number).to_string()
            );
        }
    }
    // Several of them in one unit, more than fit.
    let mut unit: Vec<u8> = (0..6)
        .flat_map(|number| {
            [
                bind("", &format!("s{number}"), &[Some("1")]),
                execute("", 0),
            ]
            .concat()
        })
        .collect();
    unit.extend(sync());
    let values: Vec<_> = client.ask(&unit).expect_ok("one unit").rows().concat();
    assert_eq!(
        values,
        ["0", "1", "2", "3", "4", "5"].map(|value| Some(value.to_owned()))
    );
    // PostgreSQL itself keeps no more than that, plus what Paceline needs for itself.
    if stage.target() == Target::Paceline {
        let kept = client.number("SELECT count(*) FROM pg_prepared_statements");
        assert!(kept <= 8, "{kept} statements are kept on the server");
    }
}

/// Close, DEALLOCATE, parsing a name twice: as PostgreSQL, on whatever server.
#[test]
fn statement_names_obey_postgresqls_rules() {
    let stage = stage(2);
    let mut client = stage.client();
    let mut neighbour = stage.client();
    let mut ask = |bytes: &[u8]| -> Reply {
        // The neighbour's transaction takes the server that the client used last.
        neighbour.ok("BEGIN");
        let reply = client.ask(bytes);
        neighbour.ok("COMMIT");
        reply
    };
    let prepare = |name: &str| [parse(name, "SELECT $1::int", &[]), sync()].concat();
    ask(&prepare("a")).expect_ok("first");
    ask(&prepare("a")).expect_error("42P05");
    ask(&run("a", "1")).expect_ok("still there");
    ask(&[close(b'S', "a"), sync()].concat()).expect_ok("close");
    ask(&run("a", "1")).expect_error("26000");
    ask(&prepare("a")).expect_ok("again");
    ask(&query("DEALLOCATE a")).expect_ok("deallocate");
    ask(&run("a", "1")).expect_error("26000");
    ask(&prepare("a")).expect_ok("third");
    ask(&prepare("b")).expect_ok("another");
    ask(&query("DEALLOCATE ALL")).expect_ok("deallocate all");
    ask(&run("b", "1")).expect_error("26000");
    ask(&prepare("c")).expect_ok("after deallocate all");
    ask(&query("DISCARD ALL")).expect_ok("discard all");
    ask(&run("c", "1")).expect_error("26000");
    ask(&query("DEALLOCATE missing")).expect_error("26000");
}

/// A statement whose result changes its shape under a prepared statement, and a table that is made anew.
#[test]
fn prepared_statements_follow_the_tables() {
    let stage = stage(1);
    let mut direct = stage.direct();
    direct.ok("CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 5)");
    let (mut client, mut bare) = (stage.client(), stage.direct());
    let prepare = [parse("s", "SELECT * FROM t WHERE id = $1", &[]), sync()].concat();
    let mut both = |bytes: &[u8]| {
        let replies = [bare.ask(bytes), client.ask(bytes)];
        assert_same("prepared", &replies[0].0, &replies[1].0);
    };
    both(&prepare);
    both(&run("s", "1"));
    direct.ok("ALTER TABLE t ADD COLUMN more text DEFAULT 'new'");
    // PostgreSQL repeats the error until the client prepares anew; Paceline prepares anew.
    bare.ask(&run("s", "1")).expect_error("0A000");
    let healed = client.ask(&run("s", "1"));
    let healed = healed.expect_ok("the plan was made anew");
    assert_eq!(healed.rows()[0].len(), 3);
    let mut both = |bytes: &[u8]| {
        let replies = [bare.ask(bytes), client.ask(bytes)];
        assert_same("prepared", &replies[0].0, &replies[1].0);
    };
    both(&[close(b'S', "s"), sync()].concat());
    both(&prepare);
    both(&run("s", "1"));
    direct.ok("DROP TABLE t");
    both(&run("s", "1"));
    direct.ok(
        "CREATE TABLE t (id int PRIMARY KEY, n int, more text); INSERT INTO t VALUES (1, 6, 'x')",
    );
    both(&run("s", "1"));
}

/// A column has another type than when the statement was prepared for another client.
#[test]
fn a_parameter_whose_type_has_changed_is_prepared_anew() {
    let stage = stage(1);
    stage
        .direct()
        .ok("CREATE TABLE t (id int PRIMARY KEY, a int)");
    let prepare = [
        parse("p", "UPDATE t SET a = $1 WHERE id = 1 RETURNING a", &[]),
        sync(),
    ]
    .concat();
    let mut early = stage.client();
    early.ask(&prepare).expect_ok("parse");
    early.ask(&run("p", "7")).expect_ok("an int");
    stage.direct().ok(
        "DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY, a text); INSERT INTO t VALUES (1, '')",
    );
    let mut late = stage.client();
    late.ask(&prepare).expect_ok("parse");
    assert_eq!(
        late.ask(&run("p", "seven")).expect_ok("a text").value(),
        "seven"
    );
}

/// PostgreSQL reads the constant when it parses the statement: each client's has the moment of its own Parse.
#[test]
fn a_constant_that_means_a_moment_is_not_shared() {
    let stage = stage(1);
    let sql = "SELECT 'now'::timestamptz";
    let run = [bind("", "s", &[]), execute("", 0), sync()].concat();
    let prepare = [parse("s", sql, &[]), run.clone()].concat();
    let [mut first, mut second] = [stage.client(), stage.client()];
    let ask = |client: &mut RawClient, bytes: &[u8]| client.ask(bytes).expect_ok(sql).value();
    let began = ask(&mut first, &prepare);
    let unnamed = ask(&mut first, &unit(sql, &[]));
    let mut direct = stage.direct();
    let between = direct.value("SELECT clock_timestamp()");
    let later = [
        ask(&mut second, &prepare),
        ask(&mut second, &unit(sql, &[])),
        ask(&mut first, &unit(sql, &[])),
    ];
    for time in later {
        let is_later = format!("SELECT '{time}'::timestamptz > '{between}'::timestamptz");
        assert_eq!(direct.value(&is_later), "t", "{unnamed} {between} {time}");
    }
    assert_eq!(ask(&mut first, &run), began);
}
