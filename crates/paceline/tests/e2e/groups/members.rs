//! What belongs to one member and must not be that of another one, or of the group: the time, the types of its parameters, the row that
//! it has inserted.

use crate::harness::message::{bind_formats, describe, execute, parse, query, sync, unit};
use crate::harness::raw::RawClient;
use crate::harness::reply::Reply;
use crate::harness::stage::Target;
use crate::harness::{Gate, Stage, assert_same, until};

/// Sends a request of each client, in this order, and waits for the answers. They are together in the line.
pub(super) fn together(
    stage: &Stage,
    clients: &mut [RawClient],
    requests: &[Vec<u8>],
) -> Vec<Reply> {
    let mut gate = Gate::close(stage);
    for (client, request) in clients.iter_mut().zip(requests) {
        gate.submit(client, request);
    }
    gate.open();
    clients.iter_mut().map(RawClient::reply).collect()
}

/// Requests in the line are answered as one at a time, and leave the same rows.
fn check_as_alone(table: &str, fill: &str, requests: &[&str], content: &str) {
    let bytes: Vec<_> = requests.iter().map(|sql| query(sql)).collect();
    check_bytes_as_alone(table, fill, &bytes, content);
}

/// The same for the messages of requests.
fn check_bytes_as_alone(table: &str, fill: &str, requests: &[Vec<u8>], content: &str) {
    let stage = Stage::for_groups();
    let mut direct = stage.direct();
    direct.ok(table);
    stage.client().ask(&requests[0]);
    stage.await_analysis();
    direct.ok(fill);
    let mut clients = stage.clients(requests.len());
    let answers = together(&stage, &mut clients, requests);
    let found = direct.ok(content).rows();
    direct.ok(fill);
    for (request, answer) in requests.iter().zip(&answers) {
        let alone = direct.ask(request);
        assert_same(content, &alone.0, &answer.0);
    }
    assert_eq!(found, direct.ok(content).rows());
}

/// Alone, each update has a later time than the one before it.
#[test]
fn an_update_only_if_the_time_is_later() {
    check_as_alone(
        "CREATE TABLE t (id int PRIMARY KEY, n int, at timestamptz)",
        "DELETE FROM t; INSERT INTO t VALUES (1, 0, '2020-01-01')",
        &["UPDATE t SET n = n + 1, at = now() WHERE id = 1 AND at < now()"; 5],
        "SELECT id, n FROM t",
    );
}

/// Stores a value, unless there is a later one.
macro_rules! upsert {
    ($value:literal) => {
        concat!(
            "INSERT INTO t VALUES (1, '",
            $value,
            "', now()) ON CONFLICT (id) \
             DO UPDATE SET v = EXCLUDED.v, at = EXCLUDED.at WHERE t.at < EXCLUDED.at"
        )
    };
}

#[test]
fn an_upsert_only_if_the_time_is_later() {
    check_as_alone(
        "CREATE TABLE t (id int PRIMARY KEY, v text, at timestamptz)",
        "DELETE FROM t; INSERT INTO t VALUES (1, 'old', '2020-01-01')",
        &[upsert!("a"), upsert!("b"), upsert!("c")],
        "SELECT id, v FROM t",
    );
}

/// Alone, each upsert has a later time than the row that the first one has inserted.
#[test]
fn an_upsert_only_if_the_time_of_the_inserted_row_is_over() {
    let micros = "(extract(epoch FROM now()) * 1000000)::bigint";
    for (at, columns, value, now) in [
        ("timestamptz", "(id, n, at)", "(1, 1, now())", "now()"),
        ("timestamptz DEFAULT now()", "(id, n)", "(1, 1)", "now()"),
        (
            "timestamptz",
            "(id, n, at)",
            "(1, 1, clock_timestamp())",
            "now()",
        ),
        (
            &format!("bigint DEFAULT {micros}"),
            "(id, n)",
            "(1, 1)",
            micros,
        ),
        (
            "text DEFAULT now()::text",
            "(id, n)",
            "(1, 1)",
            "now()::text",
        ),
    ] {
        let sql = format!(
            "INSERT INTO t {columns} VALUES {value} ON CONFLICT (id) DO UPDATE SET n = t.n + 1 WHERE t.at < {now}"
        );
        check_as_alone(
            &format!("CREATE TABLE t (id int PRIMARY KEY, n int, at {at})"),
            "DELETE FROM t",
            &[sql.as_str(); 5],
            "SELECT id, n FROM t",
        );
    }
}

#[test]
fn an_update_only_if_a_time_named_now_is_later() {
    check_as_alone(
        "CREATE TABLE t (id int PRIMARY KEY, n int, at timestamptz)",
        "DELETE FROM t; INSERT INTO t VALUES (1, 0, '2020-01-01')",
        &["UPDATE t SET n = n + 1, at = 'now' WHERE id = 1 AND at < 'now'"; 5],
        "SELECT id, n FROM t",
    );
}

/// The statement converts the texts to times.
#[test]
fn an_update_only_if_a_time_in_a_text_named_now_is_later() {
    for (value, condition) in [
        ("$2::text::timestamptz", "$3::text::timestamptz"),
        ("timestamptz($2::text)", "timestamptz($3::text)"),
        (
            "($2::text[])[1]::timestamptz",
            "($3::text[])[1]::timestamptz",
        ),
    ] {
        let sql =
            format!("UPDATE t SET n = n + 1, at = {value} WHERE id = $1 AND at < {condition}");
        let now = match value.contains('[') {
            true => "{now}",
            false => "now",
        };
        check_bytes_as_alone(
            "CREATE TABLE t (id int PRIMARY KEY, n int, at timestamptz)",
            "DELETE FROM t; INSERT INTO t VALUES (1, 0, '2020-01-01')",
            &vec![unit(&sql, &[Some("1"), Some(now), Some(now)]); 5],
            "SELECT id, n FROM t",
        );
    }
}

/// PostgreSQL checks the condition with fewer operators first.
#[test]
fn an_error_before_a_condition_that_is_false() {
    for (guards, then) in [
        ("a + b + c >= 5 AND 100 / a > 3", "a = 0"),
        ("b = 5 AND note ~ pattern", "pattern = '('"),
        ("note ~ pattern AND b = 5", "pattern = '('"),
    ] {
        let sql = format!("UPDATE t SET n = n + 1 WHERE id = 1 AND {guards}");
        check_as_alone(
            "CREATE TABLE t (id int PRIMARY KEY, n int, a int, b int, c int, note text, pattern text); INSERT INTO t VALUES (1, 0, 20, 1, 1, 'x', 'x')",
            &format!("UPDATE t SET n = 0, {then}"),
            &[sql.as_str(); 5],
            "SELECT id, n FROM t",
        );
    }
}

/// Alone, no two of them have the same time.
#[test]
fn a_time_that_is_a_unique_default() {
    for at in [
        "timestamptz DEFAULT now()",
        "bigint DEFAULT (extract(epoch FROM now()) * 1000000)::bigint",
        "text DEFAULT CURRENT_TIMESTAMP::text",
        "later",
    ] {
        check_as_alone(
            &format!(
                "CREATE DOMAIN later timestamptz DEFAULT now() + '1 day'::interval; \
                 CREATE TABLE t (id int PRIMARY KEY, sensor int, at {at}, UNIQUE (sensor, at))"
            ),
            "DELETE FROM t",
            &[
                "INSERT INTO t (id, sensor) VALUES (1, 7) ON CONFLICT DO NOTHING",
                "INSERT INTO t (id, sensor) VALUES (2, 7) ON CONFLICT DO NOTHING",
                "INSERT INTO t (id, sensor) VALUES (3, 7) ON CONFLICT DO NOTHING",
            ],
            "SELECT id, sensor FROM t ORDER BY id",
        );
    }
}

/// Only the client that has inserted the row finds both times equal.
#[test]
fn an_upsert_that_returns_whether_it_has_inserted() {
    for (values, returned) in [
        ("(1, 1, now(), now())", "created = updated"),
        ("(1, 1, now(), now())", "updated - created = interval '0'"),
        ("(1, 1)", "created = now()"),
    ] {
        let columns = if values == "(1, 1)" { "(id, n)" } else { "" };
        let sql = format!(
            "INSERT INTO t {columns} VALUES {values} ON CONFLICT (id) DO UPDATE SET n = t.n + 1, updated = now() RETURNING {returned}"
        );
        check_as_alone(
            "CREATE TABLE t (id int PRIMARY KEY, n int, created timestamptz DEFAULT now(), updated timestamptz)",
            "DELETE FROM t",
            &[sql.as_str(); 4],
            "SELECT id, n FROM t",
        );
    }
}

/// Types of a time, the SQL for the time now, and for five minutes.
const TIMES: [[&str; 3]; 2] = [
    ["timestamptz", "now()", "'5 min'::interval"],
    [
        "bigint",
        "(extract(epoch FROM now()) * 1000000)::bigint",
        "300000000",
    ],
];

/// Two rows whose time is long over.
fn fill_feed(now: &str, minutes: &str) -> String {
    format!(
        "DELETE FROM feed; INSERT INTO feed VALUES (1, {now} - 3 * {minutes}), (2, {now} - 2 * {minutes})"
    )
}

fn take_from_feed(now: &str, lease: &str) -> String {
    format!(
        "UPDATE feed SET last_run = {now} WHERE id = (SELECT id FROM feed WHERE last_run < {now}{lease} ORDER BY last_run LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id"
    )
}

/// A row that has been taken can be taken again at once.
#[test]
fn a_take_only_of_rows_whose_time_is_over() {
    for [time, now, minutes] in TIMES {
        check_as_alone(
            &format!("CREATE TABLE feed (id int PRIMARY KEY, last_run {time} NOT NULL)"),
            &fill_feed(now, minutes),
            &[take_from_feed(now, "").as_str(); 3],
            "SELECT id FROM feed",
        );
    }
}

/// It cannot before its lease is over, so that the takes still form a group.
#[test]
fn takes_with_a_lease() {
    for [time, now, minutes] in TIMES {
        let stage = Stage::for_groups();
        let (mut direct, fill) = (stage.direct(), fill_feed(now, minutes));
        direct.ok(&format!(
            "CREATE TABLE feed (id int PRIMARY KEY, last_run {time} NOT NULL)"
        ));
        direct.ok(&fill);
        let sql = take_from_feed(now, &format!(" - {minutes}"));
        stage.client().ok(&sql);
        stage.await_analysis();
        direct.ok(&fill);
        let mut clients = stage.clients(3);
        let answers = together(&stage, &mut clients, &vec![query(&sql); 3]);
        let rows = answers.iter().flat_map(Reply::rows);
        let taken: Vec<_> = rows.flatten().flatten().collect();
        assert_eq!(taken, ["1", "2"]);
        stage.assert_grouped(3, 3);
    }
}

/// The client was told that the parameter is an integer, and sends the bytes of one. Later statements have another type there.
#[test]
fn values_have_the_types_that_their_client_received() {
    let stage = Stage::for_groups();
    let mut direct = stage.direct();
    direct.ok("CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t SELECT i, 0 FROM generate_series(1, 4) i");
    let sql = "UPDATE t SET n = $1 WHERE id = $2";
    let prepare = [parse("s", sql, &[]), describe(b'S', "s"), sync()].concat();
    let mut clients = stage.clients(4);
    let (old, new) = clients.split_at_mut(1);
    old[0].ask(&prepare).expect_ok("prepared");
    direct.ok("ALTER TABLE t ALTER n TYPE real");
    let bytes = |number: usize| {
        let value = match number {
            0 => 7_i32.to_be_bytes(),
            _ => 7_f32.to_be_bytes(),
        };
        let id = i32::try_from(number + 1).unwrap().to_be_bytes();
        let values = [value, id].map(|value| Some(value.to_vec()));
        [
            bind_formats("", "s", &[1], &values, &[]),
            execute("", 0),
            sync(),
        ]
        .concat()
    };
    for client in new.iter_mut() {
        client.ask(&prepare).expect_ok("prepared");
    }
    // Paceline notices the change, and analyzes the template again.
    new[0].ask(&bytes(1)).expect_ok("an update");
    stage.await_analysis();
    let requests: Vec<_> = (0..4).map(bytes).collect();
    for reply in together(&stage, &mut clients, &requests) {
        reply.expect_ok("an update");
    }
    stage.assert_grouped(3, 3);
    let rows = direct.ok("SELECT n FROM t ORDER BY id").rows();
    assert_eq!(rows, vec![[Some("7".to_owned())]; 4]);
}

/// The row that the first client of a key has met is deleted before the third one is inserted: the server is told to take its time in between.
#[test]
fn a_row_belongs_to_the_client_that_inserted_it() {
    let stage = Stage::for_groups();
    let mut direct = stage.direct();
    direct.ok(
        "CREATE TABLE lock (key int PRIMARY KEY, owner text NOT NULL CHECK (owner <> 'slow' OR
           md5(repeat(owner, 40000000)) || md5(repeat(owner, 40000001)) || md5(repeat(owner, 40000002)) <> ''));
         INSERT INTO lock VALUES (1, 'old')",
    );
    let sql = "INSERT INTO lock VALUES ($1, $2) ON CONFLICT (key) DO NOTHING RETURNING owner";
    let request = |key: &str, owner: &str| unit(sql, &[Some(key), Some(owner)]);
    stage.client().ask(&request("9", "any")).expect_ok("alone");
    stage.await_analysis();
    let mut clients = stage.clients(4);
    let mut gate = Gate::close(&stage);
    let members = [("3", "first"), ("1", "a"), ("2", "slow"), ("1", "b")];
    for (client, (key, owner)) in clients.iter_mut().zip(members) {
        gate.submit(client, &request(key, owner));
    }
    gate.open();
    if stage.target() == Target::Bare {
        return;
    }
    // It has inserted the first row.
    let writes = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'active'
        AND query LIKE 'WITH facts %' AND backend_xid IS NOT NULL AND pid <> pg_backend_pid()";
    let mut observer = stage.direct();
    until("the slow row is checked", || observer.number(writes) == 1);
    direct.ok("DELETE FROM lock WHERE key = 1");
    let answers: Vec<_> = clients.iter_mut().map(RawClient::reply).collect();
    stage.assert_grouped(4, 4);
    let owner = direct.value("SELECT owner FROM lock WHERE key = 1");
    let told = [1, 3].map(|place: usize| (answers[place].tag(), answers[place].rows()));
    let inserted = ("INSERT 0 1".to_owned(), vec![vec![Some(owner.clone())]]);
    let nothing = ("INSERT 0 0".to_owned(), Vec::new());
    let expected = match owner.as_str() {
        "a" => [inserted, nothing],
        _ => [nothing, inserted],
    };
    assert_eq!(told, expected, "the row is that of {owner}");
}
