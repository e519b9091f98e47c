//! Settings: under each of them a group is exact, or there is none. The
//! table of docs/group-settings.md has the reasons, setting by setting.

use std::collections::BTreeSet;

use super::Together;
use crate::harness::cluster::Cluster;
use crate::harness::message::{bind, bind_formats, execute, parse, query, sync};
use crate::harness::raw::RawClient;
use crate::harness::stage::Target;
use crate::harness::together::Tables;
use crate::harness::{Gate, Reply, Stage, assert_same, until};
use paceline_sql::facts::session::COMPARED;

const TABLE: &str = include_str!("../../../../../docs/group-settings.md");

/// The names between backticks in the first column of the tables, with the rest of their rows.
fn listed() -> Vec<(String, String)> {
    let rows = TABLE.lines().filter_map(|line| line.strip_prefix("| `"));
    let mut listed = Vec::new();
    for row in rows {
        let (names, rest) = row.split_once(" | ").unwrap();
        let names = names.split('`').step_by(2).filter(|name| !name.is_empty());
        listed.extend(names.map(|name| (name.to_owned(), rest.to_owned())));
    }
    listed
}

/// Each setting of the version at hand, but those of extensions.
#[test]
fn every_setting_is_listed() {
    let listed = listed();
    let names: BTreeSet<&str> = listed.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names.len(), listed.len(), "a setting is listed twice");
    let stage = Stage::on_shared().open();
    let rows = stage
        .direct()
        .ok("SELECT name FROM pg_settings WHERE name NOT LIKE '%.%'");
    let rows = rows.rows().concat();
    let settings = rows.iter().flatten().map(String::as_str);
    let missing: Vec<&str> = settings.filter(|name| !names.contains(name)).collect();
    assert!(
        missing.is_empty(),
        "not in docs/group-settings.md: {missing:?}"
    );
}

#[test]
fn what_is_compared_is_listed_so() {
    let listed = listed();
    for name in COMPARED {
        let row = listed.iter().find(|(known, _)| known == name);
        let (_, row) = row.unwrap_or_else(|| panic!("{name} is not listed"));
        assert!(row.contains("compared"), "{name}: {row}");
    }
    let compared = listed.iter().filter(|(_, row)| row.contains("compared"));
    // The search path is compared by the schemas that it leads to; what it takes to be in a transaction, in that transaction.
    let others: Vec<&str> = compared
        .map(|(name, _)| name.as_str())
        .filter(|name| !COMPARED.contains(name))
        .collect();
    assert_eq!(others, ["search_path", "default_transaction_isolation"]);
}

const SETUP: &str = "
    CREATE TABLE v (id int PRIMARY KEY, n int DEFAULT 0, d date, ts timestamptz, iv interval, f float8, b bytea, x xml, t text,
        a text[], tsv tsvector, nothing int, checked date CHECK (checked > '2001-02-03'))";
const FILL: &str = "DELETE FROM v; INSERT INTO v (id, d, ts, iv, f, b, t) SELECT i, '2024-03-04', '2024-07-01 10:00+00', '1 day 02:03:04', 0.1, 'abc', 'a' FROM generate_series(1, 3) i";
const CONTENT: &str =
    "SELECT id, n, d, ts, iv, f, b, x::text, t, a, tsv, nothing, checked FROM v ORDER BY id";

/// Statements whose values, constants and answers are texts that settings give a meaning.
const TEXTS: [&str; 6] = [
    "UPDATE v SET n = n + ?, d = '01/02/03', ts = '2024-07-01 10:00 EST', iv = '1 2:03', f = f + 0.1 WHERE id = 1 RETURNING n, d, ts, iv, f, b, t",
    "UPDATE v SET d = d + ?, checked = '03/04/05' WHERE id = 1 RETURNING d, checked, d::text || ts::text || iv::text || f::text AS all",
    "UPDATE v SET n = n + ? WHERE id = 1 AND nothing = NULL RETURNING n",
    "INSERT INTO v (id, d, ts, iv, a, x) VALUES (?, '01/02/03', '10/11/2012 13:14 PST', '-1 2:03:04', '{a,NULL}', '<a/>') ON CONFLICT (id) DO UPDATE SET n = v.n + 1 RETURNING id, n, d, ts, iv, a, x::text",
    "INSERT INTO v (id, f, b, t) VALUES (?, 0.1 + 0.2, 'xyz', to_char(1234.5, 'FM9G999D0') || 1.5::float8::text) ON CONFLICT DO NOTHING RETURNING f, b, t",
    "DELETE FROM v WHERE id IN (SELECT id FROM v WHERE d > '01/02/03' ORDER BY id LIMIT 1) RETURNING id, d, ts, iv, f, b",
];

fn compare_all(stage: &Stage, begin: &str) -> usize {
    let together = Together {
        stage,
        tables: Tables {
            fill: FILL,
            content: CONTENT,
        },
        begin,
    };
    let mut grouped = 0;
    for sql in TEXTS {
        for prepared in [true, false] {
            grouped += usize::from(together.compare(sql, prepared));
        }
    }
    grouped
}

#[test]
fn texts_mean_in_a_group_what_they_mean_alone() {
    let stage = Stage::for_groups();
    stage.direct().ok(SETUP);
    for begin in [
        "SET DateStyle = 'SQL, DMY'",
        "SET DateStyle = 'German, YMD'; SET IntervalStyle = iso_8601",
        "SET IntervalStyle = sql_standard; SET TimeZone = 'Asia/Tokyo'",
        "SET timezone_abbreviations = 'Australia'; SET DateStyle = 'Postgres, MDY'",
        "SET extra_float_digits = -3; SET bytea_output = escape",
        "SET xmloption = document; SET xmlbinary = hex; SET quote_all_identifiers = on",
        "SET transform_null_equals = on; SET default_text_search_config = 'simple'",
        "SET session_replication_role = replica; SET client_min_messages = error",
    ] {
        let grouped = compare_all(&stage, begin);
        assert!(grouped * 2 > TEXTS.len(), "{begin}: {grouped}");
    }
}

/// Under these there is no group.
#[test]
fn settings_that_refuse() {
    let stage = Stage::for_groups();
    stage.direct().ok(SETUP);
    let mut refusing = vec![
        "SET array_nulls = off",
        "SET default_transaction_isolation = 'repeatable read'",
        "SET default_transaction_isolation = serializable",
        "SET client_min_messages = log",
        "SET exit_on_error = off; SET client_encoding = 'LATIN1'",
    ];
    if stage.direct().number("SHOW server_version_num") >= 170_000 {
        refusing.push("SET transaction_timeout = '5s'");
    }
    for begin in refusing {
        let grouped = compare_all(&stage, begin);
        assert!(grouped == 0 || stage.target() == Target::Bare, "{begin}");
        let groups = format!("{:?}", stage.client().ok("SHOW GROUPS").rows());
        let named = begin.contains("exit_on_error") || groups.contains("setting: ");
        assert!(named || stage.target() == Target::Bare, "{groups}");
    }
}

/// NULL and the text `NULL` differ in arrays, too.
#[test]
fn a_null_is_no_text() {
    let stage = Stage::for_groups();
    stage.direct().ok(SETUP);
    for setting in ["SET array_nulls = off", "SET array_nulls = on"] {
        for sql in [
            "INSERT INTO v (id, t) VALUES ($1, $2) RETURNING t, t IS NULL",
            "INSERT INTO v (id, t) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET t = EXCLUDED.t RETURNING t, t IS NULL",
            "UPDATE v SET t = $2 WHERE id = $1 RETURNING t, t IS NULL",
        ] {
            println!("{setting}: {sql}");
            let fill = "DELETE FROM v; INSERT INTO v (id) SELECT generate_series(10, 20) WHERE $$UPDATE$$ = $$";
            let fill = format!("{fill}{}$$", &sql[..6]);
            let unit = |number: usize| {
                let value = [None, Some("NULL"), Some("null"), Some("x")][number % 4];
                crate::harness::message::unit(sql, &[Some(&(10 + number).to_string()), value])
            };
            let begun = |mut client: RawClient| {
                client.ok(setting);
                client
            };
            let (mut direct, mut bare) = (stage.direct(), begun(stage.direct()));
            let mut teacher = begun(stage.client());
            direct.ok(&fill);
            teacher.ask(&unit(0));
            teacher.ok("BEGIN; COMMIT");
            let mut clients: Vec<RawClient> = (0..8).map(|_| begun(stage.client())).collect();
            let mut gate = Gate::close(&stage);
            direct.ok(&fill);
            for (number, client) in clients.iter_mut().enumerate() {
                gate.submit(client, &unit(number));
            }
            gate.open();
            let together: Vec<Reply> = clients.iter_mut().map(RawClient::reply).collect();
            direct.ok(&fill);
            for (number, reply) in together.iter().enumerate() {
                let label = format!("{setting}: client {number} of {sql}");
                assert_same(&label, &bare.ask(&unit(number)).0, &reply.0);
            }
        }
    }
    stage.assert_grouped(24, 8);
}

/// PostgreSQL sends a NOTICE about a truncated identifier to each client that uses it.
#[test]
fn a_notice_about_a_text_reaches_every_client() {
    let stage = Stage::for_groups();
    stage.direct().ok(SETUP);
    let together = Together {
        stage: &stage,
        tables: Tables {
            fill: FILL,
            content: CONTENT,
        },
        begin: "SELECT 1",
    };
    let long = "x".repeat(70);
    for prepared in [true, false] {
        let sql = format!("UPDATE v SET n = n + ? WHERE id = 1 RETURNING n AS {long}");
        let grouped = together.compare(&sql, prepared);
        assert!(!grouped || stage.target() == Target::Bare);
    }
}

/// A client whose errors end its session ends no other one.
#[test]
fn an_error_that_ends_a_session_ends_only_its_own() {
    let stage = Stage::for_groups();
    stage.direct().ok(SETUP);
    stage.direct().ok(FILL);
    let mut clients: Vec<RawClient> = (0..4)
        .map(|_| {
            let mut client = stage.client();
            client.ok("SET exit_on_error = on");
            client
        })
        .collect();
    let update = |by: &str| {
        query(&format!(
            "UPDATE v SET n = n + 100 / {by} WHERE id = 1 RETURNING n"
        ))
    };
    clients[0].ask(&update("1")).expect_ok("a lesson");
    clients[0].ok("BEGIN; COMMIT");
    let mut gate = Gate::close(&stage);
    for (number, client) in clients.iter_mut().enumerate() {
        gate.submit(client, &update(if number == 2 { "0" } else { "1" }));
    }
    gate.open();
    for (number, client) in clients.iter_mut().enumerate() {
        if number == 2 {
            let told = client.receive_to_end();
            let error = told.iter().find(|message| message.tag == b'E').unwrap();
            assert_eq!(error.fields().sqlstate(), "22012");
        } else {
            client.reply().expect_ok("its own update");
        }
    }
}

/// Two backends of one server may have grown up under different defaults.
#[test]
fn a_default_that_changes_between_two_connections() {
    let stage = Stage::for_groups();
    let (database, mut direct) = (&stage.database, stage.direct());
    direct.ok(SETUP);
    for (setting, sql) in [
        ("array_nulls = off", TEXTS[3]),
        ("DateStyle = 'SQL, DMY'", TEXTS[0]),
        ("TimeZone = 'Asia/Tokyo'", TEXTS[3]),
        ("transform_null_equals = on", TEXTS[2]),
        ("search_path = pg_temp, public, pg_catalog", TEXTS[0]),
        ("default_transaction_isolation = serializable", TEXTS[0]),
    ] {
        let together = Together {
            stage: &stage,
            tables: Tables {
                fill: FILL,
                content: CONTENT,
            },
            begin: "SELECT 1",
        };
        for prepared in [true, false] {
            assert!(together.compare(sql, prepared), "{sql}");
        }
        direct.ok(&format!("ALTER DATABASE {database} SET {setting}"));
        Stage::end_other_sessions(&mut direct);
        for prepared in [true, false] {
            // The templates of this round were analyzed under the other default.
            together.compare(sql, prepared);
        }
        direct.ok(&format!("ALTER DATABASE {database} RESET ALL"));
        Stage::end_other_sessions(&mut direct);
        direct = stage.direct();
    }
}

/// A reload of the configuration applies to existing connections.
#[test]
fn a_reload_reaches_what_was_prepared() {
    let stage = Stage::for_groups_on(Cluster::private());
    let mut direct = stage.direct();
    direct.ok(SETUP);
    // The constants of a simple query are read when it is sent.
    let sql = "UPDATE v SET n = n + 1, ts = $$2024-07-01 10:00$$, d = $$01/02/03$$ WHERE id = 1 RETURNING n, ts, d";
    let together = Together {
        stage: &stage,
        tables: Tables {
            fill: FILL,
            content: CONTENT,
        },
        begin: "SELECT 1",
    };
    assert!(together.compare(sql, false));
    for (setting, value) in [
        ("TimeZone", "Asia/Tokyo"),
        ("DateStyle", "ISO, DMY"),
        ("TimeZone", "Europe/Berlin"),
    ] {
        direct.ok(&format!("ALTER SYSTEM SET {setting} = '{value}'"));
        direct.ok("SELECT pg_reload_conf()");
        let mut client = stage.client();
        until("the reload has come", || {
            client.value(&format!("SHOW {setting}")) == value
        });
        together.compare(sql, false);
        assert!(together.compare(sql, false), "{setting} has been analyzed");
    }
}

/// PostgreSQL reports a new value once, with the end of whatever the connection executes next.
#[test]
fn a_reload_is_reported_to_the_members_of_a_group() {
    let stage = Stage::for_groups_on(Cluster::private());
    if stage.target() == Target::Bare {
        return;
    }
    let mut direct = stage.direct();
    direct.ok("CREATE TABLE t (id int PRIMARY KEY, n int DEFAULT 0); INSERT INTO t VALUES (1)");
    // Paceline analyzes the statement of the gate.
    Gate::close(&stage).open();
    let update = "UPDATE t SET n = n + 1 WHERE id = 1";
    for (setting, value, sql, reports) in [
        // The group compares this one, so each member runs again alone, after the report.
        ("TimeZone", "Europe/Paris", update, false),
        ("application_name", "reloaded", update, true),
        ("TimeZone", "Asia/Tokyo", "SELECT id FROM t", true),
    ] {
        let ask = query(sql);
        stage.client().ask(&ask).expect_ok(sql);
        stage.await_analysis();
        let (mut follower, mut bare) = (stage.client(), stage.direct());
        let mut clients = stage.clients(3);
        let mut gate = Gate::close(&stage);
        for client in &mut clients {
            gate.submit(client, &ask);
        }
        direct.ok(&format!("ALTER SYSTEM SET {setting} = '{value}'"));
        direct.ok("SELECT pg_reload_conf()");
        let show = format!("SHOW {setting}");
        until("the reload has come", || direct.value(&show) == value);
        gate.open();
        let alone = bare.ask(&ask);
        assert_eq!(bare.parameters[setting], value);
        for client in &mut clients {
            let reply = client.reply().expect_ok(sql);
            if reports {
                assert_same(sql, &alone.0, &reply.0);
            }
        }
        // PostgreSQL does not report the value again.
        follower.ok(&format!("SET {setting} = '{value}'"));
        assert_eq!(stage.client().value("SELECT 7"), "7");
        assert_eq!(follower.value(&show), value, "{setting}: {sql}");
    }
    stage.assert_grouped(6, 3);
}

/// The answers to the text for two clients in one zone: one has prepared it in an earlier zone, the other one in this zone. `first` is the
/// place of the client that sends first.
fn of_two_zones(stage: &Stage, sql: &str, first: usize) -> [Reply; 2] {
    let prepare = [parse("p", sql, &[]), sync()].concat();
    let run = [bind("", "p", &[]), execute("", 0), sync()].concat();
    let mut clients = [stage.client(), stage.client()];
    clients[0].ok("SET TimeZone = 'UTC'");
    clients[0].ask(&prepare).expect_ok(sql);
    for client in &mut clients {
        client.ok("SET TimeZone = 'America/New_York'");
    }
    clients[1].ask(&prepare).expect_ok(sql);
    clients[1].ask(&run).expect_ok(sql);
    stage.await_analysis();
    let mut gate = Gate::close(stage);
    for place in [first, 1 - first] {
        gate.submit(&mut clients[place], &run);
    }
    gate.open();
    clients.map(|mut client| client.reply().expect_ok(sql))
}

const TWO_ZONES: &str = "CREATE TABLE t (id int PRIMARY KEY, n int DEFAULT 0, at timestamptz); INSERT INTO t VALUES (1, 0, '2026-01-01 02:00+00')";

#[test]
fn a_read_has_the_constants_of_its_own_client() {
    let stage = Stage::on_shared().set("default_pool_size=1").open();
    stage.direct().ok(TWO_ZONES);
    let sql = "SELECT count(*) FROM t WHERE at >= '2026-01-01 00:00'::timestamptz";
    for first in [0, 1] {
        let counts = of_two_zones(&stage, sql, first).map(|reply| reply.value());
        assert_eq!(counts, ["1", "0"], "client {first} first");
    }
}

#[test]
fn a_write_has_the_constants_of_its_own_client() {
    let stage = Stage::for_groups();
    stage.direct().ok(TWO_ZONES);
    let sql = "UPDATE t SET n = n + 1 WHERE id = 1 AND at >= '2026-01-01 00:00'::timestamptz";
    for first in [0, 1] {
        let tags = of_two_zones(&stage, sql, first).map(|reply| reply.tag());
        assert_eq!(tags, ["UPDATE 1", "UPDATE 0"], "client {first} first");
    }
}

/// A letter of SJIS whose second byte is that of a backslash.
#[test]
fn letters_in_an_encoding_of_clients() {
    let stage = Stage::for_groups();
    let (database, mut direct) = (&stage.database, stage.direct());
    direct.ok(SETUP);
    direct.ok(&format!(
        "ALTER DATABASE {database} SET client_encoding = 'SJIS'"
    ));
    direct.ok(FILL);
    let so = b"\x83\x5c".to_vec();
    let update = [
        parse(
            "",
            "UPDATE v SET t = $1, n = n + 1 WHERE id = 1 RETURNING n, t",
            &[],
        ),
        bind_formats("", "", &[], &[Some(so)], &[]),
        execute("", 0),
        sync(),
    ]
    .concat();
    stage.client().ask(&update).expect_ok("a lesson");
    stage.await_analysis();
    let mut clients = stage.clients(4);
    let mut gate = Gate::close(&stage);
    direct.ok(FILL);
    for client in &mut clients {
        gate.submit(client, &update);
    }
    gate.open();
    let together: Vec<Reply> = clients.iter_mut().map(RawClient::reply).collect();
    direct.ok(FILL);
    let mut bare = stage.direct();
    for reply in &together {
        assert_same("in SJIS", &bare.ask(&update).0, &reply.0);
    }
}
