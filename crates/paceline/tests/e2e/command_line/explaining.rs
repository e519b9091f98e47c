//! `paceline explain` against a real PostgreSQL: every strategy, every kind of refusal, and its exit codes. Its forecast for a statement is
//! compared with the execution.

use std::process::Command;

use crate::harness::caretaker;
use crate::harness::message::{query, unit};
use crate::harness::stage::{REASON, Target};
use crate::harness::{Gate, Stage};

const SETUP: &str = "
    CREATE TABLE stock (id int PRIMARY KEY, qty int NOT NULL CHECK (qty >= 0), code text UNIQUE, at timestamptz);
    INSERT INTO stock SELECT i, 10, i::text FROM generate_series(1, 9) i;
    CREATE TABLE job (id bigserial PRIMARY KEY, lane int NOT NULL, done bool NOT NULL DEFAULT false);
    CREATE TABLE money (amount numeric PRIMARY KEY, n int);
    CREATE TABLE audited (id int PRIMARY KEY, n int);
    CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
    CREATE TRIGGER audit BEFORE INSERT OR UPDATE ON audited FOR EACH ROW EXECUTE FUNCTION audit();
    CREATE FUNCTION own(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1';
    CREATE VIEW seen AS SELECT id, qty FROM stock;";

const POP: &str = "DELETE FROM job WHERE id = (SELECT id FROM job WHERE lane = $1 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id";
const CLAIM: &str = "UPDATE job SET done = true, lane = $3 WHERE id IN (SELECT id FROM job WHERE lane = $1 AND NOT done ORDER BY id LIMIT $2) RETURNING id";

/// The program's exit code, its output, and its complaints.
fn explain(arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
    let output = command.arg("explain").args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

fn stage() -> Stage {
    let stage = Stage::for_groups();
    stage.direct().ok(SETUP);
    stage
}

/// The answer's lines without `catalog` and `in words`.
#[track_caller]
fn explained(stage: &Stage, sql: &str, more: &[&str]) -> Vec<String> {
    let url = stage.direct_url();
    let arguments = [&[sql, "--upstream", &url], more].concat();
    let (code, explained, complaint) = explain(&arguments);
    assert_eq!((code, complaint.as_str()), (Some(0), ""), "{sql}");
    let lines = explained
        .lines()
        .filter(|line| !line.starts_with("catalog") && !line.starts_with("in words"));
    lines.map(str::to_owned).collect()
}

const UNHINTED: &str = "as it is    solo: it has no hint, and hotspot_for_autocommit is off";

#[test]
fn each_strategy_is_explained_with_what_members_share() {
    let stage = stage();
    let sell = "UPDATE stock SET qty = qty - 2 WHERE id = 7 AND qty >= 1 RETURNING qty";
    let expected = [
        "template    UPDATE stock SET qty = qty - $1 WHERE id = $2 AND qty >= $3 RETURNING qty",
        "literals    $1 = 2, $2 = 7, $3 = 1",
        UNHINTED,
        "hint        fold; with /*+ COMMIT_ON_SUCCESS */",
        "switch      fold; with hotspot_for_autocommit",
        "key         id = $2",
        "own         $1, $3",
    ];
    assert_eq!(explained(&stage, sell, &[]), expected);
    let expected = [
        UNHINTED,
        "hint        take; with /*+ COMMIT_ON_SUCCESS */",
        "switch      take; with hotspot_for_autocommit",
        "limit       $2",
        "shared      $1",
        "own         $3",
    ];
    assert_eq!(explained(&stage, CLAIM, &[])[1..], expected);
    let on = ["--set", "hotspot_for_autocommit=on"];
    let expected = ["as it is    merge", "own         $1, $2"];
    let insert = "INSERT INTO stock (id, qty, code) VALUES ($1, $2, 'x')";
    assert_eq!(explained(&stage, insert, &on)[1..], expected);
    let expected = [
        "as it is    merge",
        "key         id = $1",
        "own         $1, $2, $3",
    ];
    let upsert = "INSERT INTO stock (id, qty) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET qty = stock.qty + $3";
    assert_eq!(explained(&stage, upsert, &on)[1..], expected);
    let upsert_several = "INSERT INTO stock (id, qty) VALUES ($1, $2), ($3, $4) ON CONFLICT (id) DO UPDATE SET qty = stock.qty + $5 * EXCLUDED.qty";
    let expected = [
        "as it is    merge",
        "key         id = $1",
        "key         id = $3",
        "shared      $5",
        "own         $1, $3, $2, $4",
    ];
    assert_eq!(explained(&stage, upsert_several, &on)[1..], expected);
    let expected = [
        "as it is    fold",
        "key         amount = $1",
        "            only PostgreSQL can compare such keys: a group is of one key",
    ];
    let opaque = "UPDATE money SET n = n + 1 WHERE amount = $1";
    assert_eq!(explained(&stage, opaque, &on)[1..], expected);
    for read in [
        "SELECT qty FROM stock WHERE id = $1",
        "SELECT to_tsvector('english', code) @@ plainto_tsquery($1), pg_column_size(code) FROM stock",
    ] {
        let read = explained(&stage, read, &[]);
        assert_eq!(
            read[1],
            "as it is    share, with identical reads; pipeline, once it is known to be short"
        );
    }
}

#[test]
fn verbose_shows_the_statements_of_a_group() {
    let stage = stage();
    let labels = |sql: &str| -> Vec<String> {
        let lines = explained(&stage, sql, &["--verbose"]);
        let statements = lines.iter().filter(|line| line.contains("WITH "));
        statements
            .map(|line| line[..12].trim().to_owned())
            .collect()
    };
    let fold = labels("UPDATE stock SET qty = 1 WHERE id = $1");
    assert_eq!(fold, ["one row", "many rows", "one each"]);
    assert_eq!(labels(POP), ["few rows", "statement"]);
    let upsert =
        "INSERT INTO stock (id, qty) VALUES ($1, 1) ON CONFLICT (id) DO UPDATE SET qty = 2";
    assert_eq!(
        labels(upsert),
        ["insert", "one each", "one row", "many rows"]
    );
    assert!(labels("UPDATE stock SET qty = 1").is_empty());
}

const CHAIN: &str =
    "hint        chain, once it is known to be short; with /*+ COMMIT_ON_SUCCESS */";
const SHAPE: &str = "no strategy rewrites statements of this form";
const FOREIGN: &str = "functions, operators, types, foreign keys or unique columns by which rows may depend on one another";

/// With hotspot_for_autocommit on, so that only the statement can prevent a group.
#[test]
fn each_refusal_has_its_reason() {
    let stage = stage();
    let on = ["--set", "hotspot_for_autocommit=on"];
    for (sql, why) in [
        ("UPDATE stock SET qty = 0 WHERE qty > $1", SHAPE),
        ("DELETE FROM stock WHERE id = $1", SHAPE),
        (
            "UPDATE stock SET qty = 0 WHERE at = $1",
            "no equality on a unique key",
        ),
        (
            "UPDATE stock SET id = 2 WHERE id = $1",
            "column id is part of a key, an index or a foreign key",
        ),
        (
            "UPDATE job SET lane = 1 WHERE lane = (SELECT lane FROM job WHERE NOT done LIMIT $1)",
            "lane is not a unique key",
        ),
    ] {
        let lines = explained(&stage, sql, &on);
        assert_eq!(
            lines[1..],
            [format!("as it is    solo: {why}"), CHAIN.to_owned()],
            "{sql}"
        );
    }
    for (sql, why, calls) in [
        (
            "UPDATE audited SET n = 1 WHERE id = $1",
            "table: triggers",
            "triggers",
        ),
        (
            "INSERT INTO audited VALUES ($1, 2)",
            "table audited: triggers",
            "triggers",
        ),
        (
            "UPDATE stock SET qty = own(1) WHERE id = $1",
            FOREIGN,
            "functions",
        ),
    ] {
        let hint = format!(
            "hint        solo: {why}; no chain: {calls} that are not declared may notify or change settings; with /*+ COMMIT_ON_SUCCESS */"
        );
        let lines = explained(&stage, sql, &on);
        assert_eq!(
            lines[1..],
            [format!("as it is    solo: {why}"), hint],
            "{sql}"
        );
    }
    let target =
        "UPDATE /*+ COMMIT_ON_SUCCESS TARGET_AFFECT_ROW(2) */ stock SET qty = 1 WHERE id = $1";
    let why = "as it is    solo: whether TARGET_AFFECT_ROW is met is known only after it ran";
    assert_eq!(explained(&stage, target, &[])[1], why);
    for sql in ["SELECT random()", "SELECT own(1)", "SELECT * FROM seen"] {
        let lines = explained(&stage, sql, &[]);
        let line = lines
            .iter()
            .find(|line| line.starts_with("as it is"))
            .unwrap();
        assert!(
            line.contains("solo: it reads something else than plain tables"),
            "{sql}: {line}"
        );
    }
    for sql in [
        "BEGIN",
        "SELECT 1; SELECT 2",
        "SET a.b = 'c'",
        "CREATE TABLE x ()",
    ] {
        let lines = explained(&stage, sql, &[]);
        assert!(
            lines.last().unwrap().starts_with("as it is    lease: "),
            "{lines:?}"
        );
    }
}

/// The forecast is true: the requests that it calls grouped are grouped, and others are not.
#[test]
fn the_forecast_is_what_happens() {
    let stage = stage();
    if stage.target() == Target::Bare {
        return;
    }
    let on = ["--set", "hotspot_for_autocommit=on"];
    for (sql, strategy) in [
        ("UPDATE stock SET qty = qty + 1 WHERE id = $1", "fold"),
        (POP, "take"),
        ("INSERT INTO job (lane) VALUES ($1)", "merge"),
        ("INSERT INTO job (lane) VALUES ($1), ($1)", "merge"),
        (
            "INSERT INTO stock (id, qty) VALUES ($1, 1) ON CONFLICT (id) DO UPDATE SET qty = stock.qty + 1",
            "merge",
        ),
        ("UPDATE audited SET n = 1 WHERE id = $1", "solo"),
        ("DELETE FROM stock WHERE id = $1", "solo"),
    ] {
        let explained = &explained(&stage, sql, &on)[1..];
        let line = explained
            .iter()
            .find(|line| line.starts_with("as it is"))
            .unwrap();
        assert!(line[12..].starts_with(strategy), "{sql}: {line}");
        let ask = || unit(sql, &[Some("7")]);
        stage.client().ask(&ask());
        let mut clients = stage.clients(3);
        let mut gate = Gate::close(&stage);
        for client in &mut clients {
            gate.submit(client, &ask());
        }
        gate.open();
        clients.iter_mut().for_each(|client| drop(client.reply()));
        let rows = stage.client().ok("SHOW GROUPS").rows();
        let of_template = rows.iter().filter(|row| row[0].as_deref() == Some(sql));
        let how: Vec<_> = of_template
            .map(|row| (row[1].clone().unwrap(), row[2].clone().unwrap()))
            .collect();
        let expected = match strategy {
            "solo" => vec![("solo".to_owned(), "4".to_owned())],
            other => vec![
                (other.to_owned(), "3".to_owned()),
                ("solo".to_owned(), "1".to_owned()),
            ],
        };
        assert_eq!(how, expected, "{sql}");
    }
}

#[test]
fn what_cannot_be_explained_ends_with_1_and_one_line() {
    let stage = stage();
    let url = stage.direct_url();
    let no_server = "postgres://postgres@127.0.0.1:1/postgres";
    for (arguments, complaint) in [
        (vec!["SELCT 1"], "syntax error at or near \"SELCT\""),
        (
            vec!["SELECT * FROM nothing", "--upstream", &url],
            "relation \"nothing\" does not exist",
        ),
        (
            vec!["SELECT nothing FROM stock", "--upstream", &url],
            "column \"nothing\" does not exist",
        ),
        (
            vec!["SELECT 1", "--upstream", no_server],
            "cannot connect to 127.0.0.1:1/postgres: Connection refused",
        ),
        (
            vec!["SELECT 1", "--upstream", "postgres://127.0.0.1:1"],
            "names no user",
        ),
        (vec!["SELECT 1", "--upstream", "db"], "not a PostgreSQL URL"),
        (
            vec!["SELECT 1", "--set", "hotspt=on"],
            "did you mean \"hotspot\"?",
        ),
    ] {
        let (code, printed, complaints) = explain(&arguments);
        assert_eq!((code, printed.as_str()), (Some(1), ""), "{arguments:?}");
        assert_eq!(complaints.lines().count(), 1, "{complaints}");
        let whole = complaints.starts_with("paceline: ") && complaints.contains(complaint);
        assert!(whole, "{arguments:?}: {complaints}");
    }
    assert_eq!(explain(&[]).0, Some(2));
}

/// The statement is described, not run, and the table is not locked for long.
#[test]
fn nothing_is_run() {
    let stage = stage();
    let mut direct = stage.direct();
    explained(&stage, "DELETE FROM stock", &[]);
    explained(&stage, "UPDATE stock SET qty = 0 WHERE id = 1", &[]);
    assert_eq!(direct.number("SELECT sum(qty) FROM stock"), 90);
    direct.ok("BEGIN; LOCK TABLE stock");
    let url = stage.direct_url();
    let (code, _, complaint) =
        explain(&["UPDATE stock SET qty = 0 WHERE id = 1", "--upstream", &url]);
    assert_eq!(code, Some(1));
    assert!(complaint.contains("lock timeout"), "{complaint}");
    direct.ok("ROLLBACK");
}

const FUNCTIONS: &str = "
    CREATE SCHEMA q;
    CREATE FUNCTION q.read(lane int, qty int) RETURNS SETOF job LANGUAGE sql AS 'DELETE FROM job WHERE id IN (SELECT id FROM job WHERE job.lane = read.lane ORDER BY id LIMIT qty FOR UPDATE SKIP LOCKED) RETURNING *';
    CREATE FUNCTION q.vague(lane int, qty numeric) RETURNS SETOF job LANGUAGE sql AS 'SELECT * FROM job';
    CREATE FUNCTION buy(item int) RETURNS int LANGUAGE sql AS 'UPDATE stock SET qty = qty - 1 WHERE id = item RETURNING qty';
    CREATE FUNCTION sell(item int) RETURNS int LANGUAGE sql AS 'UPDATE stock SET qty = qty + 1 WHERE id = item RETURNING qty';";

const DECLARED: &str = r#"
    [[take]]
    function = "q.read"
    limit_argument = 2
    [[take]]
    function = "q.vague"
    limit_argument = 2
    [[group]]
    function = "buy"
    "#;

/// The file of a front end before this stage's server, with the lines `more`.
fn config(stage: &Stage, more: &str) -> String {
    let file = caretaker::folder("x").join("paceline.toml");
    let url = stage.direct_url();
    let text = format!(
        "{more}\n{DECLARED}\n[databases.app]\nprimary = \"{url}\"\n[databases.app.users.fast]\nhotspot_for_autocommit = true"
    );
    std::fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

/// The forecast for the statement as it is.
#[track_caller]
fn as_it_is(arguments: &[&str]) -> String {
    let (code, explained, complaint) = explain(arguments);
    assert_eq!((code, complaint.as_str()), (Some(0), ""), "{arguments:?}");
    let line = explained
        .lines()
        .find_map(|line| line.strip_prefix("as it is"));
    line.unwrap().trim().to_owned()
}

#[test]
fn a_configuration_file_tells_servers_switches_and_functions() {
    let stage = stage();
    stage.direct().ok(FUNCTIONS);
    let file = config(&stage, "");
    let explained =
        |sql: &str, more: &[&str]| as_it_is(&[&[sql, "--config", &file], more].concat());
    let chain = "chain, once it is known to be short";
    assert_eq!(explained("SELECT id FROM q.read(1, 2)", &[]), "take");
    assert_eq!(explained("SELECT buy(1)", &[]), chain);
    let update = "UPDATE stock SET qty = 1 WHERE id = 1";
    assert_eq!(explained(update, &[]), UNHINTED[12..]);
    assert_eq!(explained(update, &["--user", "fast"]), "fold");
    let (_, whole, _) = explain(&[update, "--config", &file]);
    let place = format!(
        "asked at 127.0.0.1:{}/{} as postgres",
        stage.cluster.port(),
        stage.database
    );
    assert!(whole.contains(&place), "{whole}");
    // Another server, by the same file; there is no such table.
    let elsewhere = format!(
        "postgres://postgres@127.0.0.1:{}/postgres",
        stage.cluster.port()
    );
    let (code, _, complaint) = explain(&[update, "--config", &file, "--upstream", &elsewhere]);
    assert_eq!(code, Some(1));
    assert!(
        complaint.contains("\"stock\" does not exist"),
        "{complaint}"
    );
    let (code, _, complaint) = explain(&["SELECT 1", "--config", "/nothing.toml"]);
    assert_eq!(
        (code, complaint.lines().count()),
        (Some(1), 1),
        "{complaint}"
    );
    assert!(
        complaint.starts_with("paceline: cannot read /nothing.toml"),
        "{complaint}"
    );
}

/// The reasons of explain and of SHOW GROUPS are the same.
#[test]
fn explain_says_why_declared_functions_are_not_grouped() {
    let stage = Stage::on_shared().declare(DECLARED).open();
    stage.direct().ok(SETUP);
    stage.direct().ok(FUNCTIONS);
    let file = config(&stage, "");
    let other =
        "it calls the declared function otherwise than by SELECT … FROM f(…) and nothing else";
    let vague = "the declared function is not one that returns rows, or one of several of its name, or its limit is no integer";
    let volatile = "it reads something else than plain tables, or calls what may be volatile or is not PostgreSQL's own";
    for (sql, why) in [
        ("SELECT max(id) FROM q.read(1, 2)", FOREIGN),
        ("SELECT id FROM q.read(1, 2) WHERE id > 3", other),
        ("SELECT id FROM q.vague(1, 2)", vague),
        ("SELECT id FROM q.read(own(1), 2)", FOREIGN),
        ("SELECT sell(1)", volatile),
    ] {
        let explained = as_it_is(&[sql, "--config", &file]);
        let explained = explained
            .strip_prefix("solo: ")
            .unwrap_or_else(|| panic!("{sql}: {explained}"));
        assert_eq!(explained, why, "{sql}");
        if stage.target() == Target::Paceline {
            assert_eq!(reason(&stage, sql), explained, "{sql}");
        }
    }
    let (_, explained, _) = explain(&["SELECT sell(1)", "--config", &file]);
    assert!(
        explained.contains("hint        solo: ") && explained.contains("not declared"),
        "a hint would change nothing: {explained}"
    );
    let off = config(&stage, "[paceline]\nhotspot = false");
    let explained = as_it_is(&["SELECT buy(1)", "--config", &off]);
    assert_eq!(
        explained,
        "solo: its declaration does not count: hotspot is off"
    );
}

/// Runs it once, and returns its reason in SHOW GROUPS.
#[track_caller]
fn reason(stage: &Stage, sql: &str) -> String {
    let (_, explained, _) = explain(&[sql]);
    let template = explained.lines().next().unwrap()[12..].to_owned();
    let mut client = stage.client();
    client.ask(&query(sql));
    stage.await_analysis();
    let rows = client.ok("SHOW GROUPS").rows();
    let row = rows.iter().find(|row| row[0].as_ref() == Some(&template));
    row.unwrap()[REASON].clone().unwrap()
}
