//! Everything that a backend remembers of its last user, one row each of the table in docs/session-state.md: the client finds the state
//! that it would find in a session of its own, or the one in the table, and no other client finds any of it.

mod cases;

use crate::harness::message::query;
use crate::harness::raw::RawClient;
use crate::harness::stage::Target;
use crate::harness::{Reply, Stage};
use cases::Fate::{Copied, Followed, Pinned, Reset};
use cases::{CASES, Case};

const SETUP: &str = "
    CREATE TABLE numbered (id serial);
    CREATE FUNCTION runs(sql text) RETURNS text LANGUAGE plpgsql AS
        $$ BEGIN EXECUTE sql; RETURN 'done'; END $$;
    CREATE TABLE tenants (name text);
    INSERT INTO tenants VALUES ('seven');
    CREATE SCHEMA app";

type Outcome = (String, Vec<Vec<Option<String>>>);

fn outcome(reply: &Reply) -> Outcome {
    (reply.sqlstate(), reply.rows())
}

fn say(client: &mut RawClient, said: &[&str]) {
    said.iter().for_each(|sql| drop(client.simple(sql)));
}

/// The state that a new session finds after these statements.
fn found(stage: &Stage, case: &Case, said: &[&str]) -> Outcome {
    let mut bare = stage.direct();
    say(&mut bare, said);
    outcome(&bare.simple(case.look))
}

fn check(case: &Case) {
    let stage = Stage::on_shared().set("default_pool_size=1").open();
    stage.direct().ok(SETUP);
    if case.fate == Copied {
        return check_copied(case);
    }
    let (own, strangers) = (found(&stage, case, case.said), found(&stage, case, &[]));
    let (mut client, mut neighbour) = (stage.client(), stage.client());
    say(&mut client, case.said);
    match case.fate {
        Copied => unreachable!("looked at on another connection"),
        Followed => {
            assert_eq!(
                outcome(&neighbour.simple(case.look)),
                strangers,
                "another client"
            );
            assert_eq!(outcome(&client.simple(case.look)), own, "the client");
        }
        Pinned(end) => {
            neighbour.send(&query(case.look));
            assert_eq!(outcome(&client.simple(case.look)), own, "the client");
            match end {
                Some(sql) => drop(client.ok(sql)),
                None => drop(client),
            }
            assert_random_or_equal(case, &outcome(&neighbour.reply()), &strangers);
        }
        Reset => {
            assert_eq!(
                outcome(&neighbour.simple(case.look)),
                strangers,
                "another client"
            );
            assert_eq!(outcome(&client.simple(case.look)), strangers, "the client");
        }
    }
}

/// The client looks on a new server connection.
fn check_copied(case: &Case) {
    let stage = Stage::on_shared()
        .set("default_pool_size=1")
        .set("admin_users=postgres")
        .open();
    stage.direct().ok(SETUP);
    let own = found(&stage, case, case.said);
    let mut client = stage.client();
    say(&mut client, case.said);
    if stage.target() == Target::Paceline {
        let operator = [("user", "postgres"), ("database", "pgbouncer")];
        RawClient::connect(stage.port(), &operator).ok("RECONNECT");
    }
    assert_eq!(outcome(&client.simple(case.look)), own, "the client");
}

/// An unseeded session may find any random numbers, but they must be its own.
fn assert_random_or_equal(case: &Case, reply: &Outcome, strangers: &Outcome) {
    match case.row {
        "seeds" => assert_ne!(reply, strangers),
        _ => assert_eq!(reply, strangers, "another client"),
    }
}

/// Roles belong to the whole server, which tests share.
fn make_role(stage: &Stage) {
    let made = stage.direct().simple("CREATE ROLE paceline_walk");
    assert!(matches!(made.sqlstate().as_str(), "" | "42710" | "23505"));
}

#[test]
fn a_session_finds_what_is_its_own_and_nothing_else() {
    let stage = Stage::on_shared().open();
    make_role(&stage);
    let mut direct = stage.direct();
    direct.simple("SELECT pg_replication_origin_create('paceline_walk')");
    let mut wrong = Vec::new();
    for case in CASES {
        let what = format!("{}: {:?}, {:?}", case.row, case.fate, case.said);
        println!("{what}");
        if std::panic::catch_unwind(|| check(case)).is_err() {
            wrong.push(what);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Rows that unit tests of `paceline-sql` hold: backups wait for a checkpoint of the whole server, and extensions need not be installed.
const BY_UNIT_TESTS: [&str; 2] = ["backups", "extensions"];

#[test]
fn the_table_in_the_documentation_has_these_rows() {
    let page = include_str!("../../../../../docs/session-state.md");
    let table = page.split("walk -->").nth(1).unwrap();
    let rows = table.lines().filter(|line| line.starts_with('|')).skip(2);
    let mut rows: Vec<&str> = rows
        .map(|row| row.split('|').nth(1).unwrap().trim())
        .collect();
    let mut cases: Vec<&str> = CASES.iter().map(|case| case.row).collect();
    cases.extend(BY_UNIT_TESTS);
    rows.sort_unstable();
    cases.sort_unstable();
    cases.dedup();
    assert_eq!(rows, cases);
}

/// The trace that the documentation names: PostgreSQL cannot make a connection forget a name.
#[test]
fn a_name_that_another_client_has_used_is_empty_instead_of_null() {
    let stage = Stage::on_shared().set("default_pool_size=1").open();
    let (mut client, mut neighbour) = (stage.client(), stage.client());
    client.ok("BEGIN; SET LOCAL app.flag = 'secret'; COMMIT");
    client.ok("SET app.flag = 'secret'");
    let value = "SELECT coalesce(current_setting('app.flag', true), '')";
    assert_eq!(neighbour.value(value), "");
    neighbour.ok("CREATE TABLE tenants (name text); INSERT INTO tenants VALUES ('secret')");
    neighbour.ok("ALTER TABLE tenants ENABLE ROW LEVEL SECURITY; ALTER TABLE tenants FORCE ROW LEVEL SECURITY");
    neighbour.ok(
        "CREATE POLICY own ON tenants USING (name = nullif(current_setting('app.flag', true), ''))",
    );
    neighbour.ok("GRANT SELECT ON tenants TO PUBLIC");
    make_role(&stage);
    for (client, seen) in [(&mut neighbour, 0), (&mut client, 1)] {
        client.ok("SET ROLE paceline_walk");
        assert_eq!(client.number("SELECT count(*) FROM tenants"), seen);
    }
}
