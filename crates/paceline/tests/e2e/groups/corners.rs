//! Cases in which a group could have another result than its members one at a time: errors that PostgreSQL raises before it reads a row,
//! members whose violation a later one would repair, keys that are equal for an index only, privileges, and facts that change while a group
//! is in flight.

use super::{prepared, simple};
use crate::harness::gate::lock_waiters;
use crate::harness::message::{query, unit};
use crate::harness::stage::{REASON, Target};
use crate::harness::together::Tables;
use crate::harness::{Gate, Stage, until};

const SETUP: &str = "
    CREATE TABLE t (id int PRIMARY KEY, n int, tags text[], note varchar(8), small smallint, amount numeric(4, 1),
        ids int[], f float8);
    CREATE TABLE moment (at timestamptz PRIMARY KEY);
    CREATE TABLE serial (id bigserial, n int)";
const FILL: &str =
    "DELETE FROM t; INSERT INTO t VALUES (1, 0); DELETE FROM moment; DELETE FROM serial;
    ALTER SEQUENCE serial_id_seq RESTART";
const CONTENT: &str = "SELECT id, n, tags, note, small, amount, ids, f FROM t UNION ALL SELECT id, n, NULL, NULL, NULL, NULL, NULL, NULL FROM serial ORDER BY 1, 2";

const TABLES: Tables = Tables {
    fill: FILL,
    content: CONTENT,
};

fn stage() -> Stage {
    let stage = Stage::for_groups();
    stage.direct().ok(SETUP);
    stage
}

#[track_caller]
fn check(stage: &Stage, asks: &[Vec<u8>]) {
    TABLES.compare_asks(stage, asks);
}

/// Only the write of the second makes the guard of the first true.
#[test]
fn a_member_that_does_not_match_does_not_match_later() {
    let stage = stage();
    let values: [&[&str]; 3] = [&["1"], &["0"], &["0"]];
    let update = "UPDATE t SET n = 2 WHERE id = 1 AND n = $1 * 2 RETURNING n";
    check(&stage, &prepared(update, &values));
    check(&stage, &simple(update, &values));
    let values: [&[&str]; 3] = [&["5", "99"], &["98", "0"], &["7", "99"]];
    let upsert = "INSERT INTO t (id, n) VALUES (1, $1) ON CONFLICT (id) DO UPDATE SET n = EXCLUDED.n + 1 WHERE t.n = $2 RETURNING n";
    check(&stage, &prepared(upsert, &values));
    check(&stage, &simple(upsert, &values));
}

/// PostgreSQL computes expressions without columns before it knows whether a row exists and satisfies the condition.
#[test]
fn an_expression_that_fails_without_a_row_fails() {
    let stage = stage();
    let update = "UPDATE t SET n = n + 1 WHERE id = 1 AND n > 10 / ($1 - 4) RETURNING n";
    check(&stage, &simple(update, &[&["2"], &["4"], &["14"], &["3"]]));
    let insert =
        "INSERT INTO t (id, n) VALUES ($1, 1) ON CONFLICT (id) DO UPDATE SET n = 1 / ($2 - 4)";
    check(
        &stage,
        &simple(
            insert,
            &[&["7", "3"], &["8", "4"], &["8", "5"], &["9", "4"]],
        ),
    );
    let tags = "INSERT INTO t (id, n) VALUES ($1, 1) ON CONFLICT (id) DO UPDATE SET tags = $2 RETURNING id";
    let values: [&[&str]; 4] = [&["7", "{}"], &["8", "{bad"], &["8", "{a}"], &["1", "{bad"]];
    check(&stage, &prepared(tags, &values));
    check(&stage, &simple(&tags.replace("$2", "'$2'"), &values));
}

/// PostgreSQL fits a value into its column when it plans, whether there is a row or not.
#[test]
fn a_value_that_does_not_fit_fails_without_a_row() {
    let stage = stage();
    for (column, good, bad) in [
        ("note", "'short'", "'too long for it'"),
        ("note", "'short'", "'spaces  '"),
        ("small", "7", "70000"),
        ("amount", "7.5", "70000.5"),
    ] {
        let values: [&[&str]; 4] = [&[good, "1"], &[bad, "9"], &[bad, "1"], &[good, "1"]];
        let update = format!("UPDATE t SET {column} = $1 WHERE id = $2");
        check(&stage, &simple(&update, &values));
        check(&stage, &simple(&format!("{update} AND n > 5"), &values));
        let upsert = format!(
            "INSERT INTO t (id, n) VALUES ($2, 1) ON CONFLICT (id) DO UPDATE SET {column} = $1 WHERE t.n > 5"
        );
        check(&stage, &simple(&upsert, &values));
    }
}

/// Nor does a cast wait for a row; a literal has a type of its own before it is cast.
#[test]
fn a_cast_that_fails_does_so_without_a_row() {
    let stage = stage();
    let values: [&[&str]; 4] = [&["7", "1"], &["70000", "9"], &["70000", "1"], &["7", "1"]];
    for sql in [
        "UPDATE t SET n = 3 WHERE id = $2 AND small > $1::smallint",
        "UPDATE t SET n = n + $1::smallint WHERE id = $2 AND n > 5",
        "INSERT INTO t (id, n) VALUES ($2, 1) ON CONFLICT (id) DO UPDATE SET n = 3 WHERE t.small > $1::smallint",
        "UPDATE t SET n = n + coalesce($1, 0)::smallint WHERE id = $2",
        "UPDATE t SET n = 3 WHERE id = $2 AND small > greatest($1, 0)::smallint",
        "UPDATE t SET n = n + (CASE WHEN true THEN $1 END)::smallint WHERE id = $2 AND n > 5",
        "UPDATE t SET tags = tags || (ARRAY[$1]::smallint[])::text[] WHERE id = $2",
        "UPDATE t SET ids = ids || ARRAY[$1]::smallint[] WHERE id = $2 AND n > 5",
        "INSERT INTO t (id, n) VALUES ($2, 1) ON CONFLICT (id) DO UPDATE SET n = t.n + coalesce($1, 0)::smallint WHERE t.n > 5",
    ] {
        check(&stage, &simple(sql, &values));
    }
    let texts: [&[&str]; 4] = [&["7", "1"], &["abc", "9"], &["abc", "1"], &["7", "1"]];
    let sql = "UPDATE t SET n = n + coalesce('$1', '0')::int WHERE id = $2 AND n > 5";
    check(&stage, &simple(sql, &texts));
}

/// The type of the other operand is that of the constant, so that PostgreSQL converts it.
#[test]
fn a_constant_that_does_not_fit_its_operator_fails_without_a_row() {
    let stage = stage();
    let values: [&[&str]; 4] = [
        &["7.5", "1"],
        &["1e400", "9"],
        &["1e400", "1"],
        &["7.5", "1"],
    ];
    for sql in [
        "UPDATE t SET f = f + $1 WHERE id = $2",
        "UPDATE t SET f = f + $1 WHERE id = $2 AND n > 5",
        "UPDATE t SET f = power(f, $1 - 1) WHERE id = $2 AND n > 5",
        "UPDATE t SET n = 3 WHERE id = $2 AND f < $1",
        "INSERT INTO t (id, n) VALUES ($2, 1) ON CONFLICT (id) DO UPDATE SET f = t.f + $1 WHERE t.n > 5",
    ] {
        check(&stage, &simple(sql, &values));
    }
    let fitting: [&[&str]; 3] = [&["7.5", "1"], &["8.5", "1"], &["1e40", "1"]];
    let sql = "UPDATE t SET amount = amount + $1 - $1, f = f + $1 WHERE id = $2 RETURNING f";
    assert!(TABLES.compare_asks(&stage, &simple(sql, &fitting)));
}

/// The type of a parameter does not determine the type of an expression with it.
#[test]
fn a_result_that_does_not_fit_fails_without_a_row() {
    let stage = stage();
    let values: [&[&str]; 4] = [&["7", "1"], &["70000", "9"], &["70000", "1"], &["7", "1"]];
    for value in ["$1::int + 1", "coalesce($1::int, 1)", "$1::int"] {
        let update = format!("UPDATE t SET small = {value} WHERE id = $2 AND n > 5");
        check(&stage, &prepared(&update, &values));
        let upsert = format!(
            "INSERT INTO t (id, n) VALUES ($2::int, 1) ON CONFLICT (id) DO UPDATE SET small = {value} WHERE t.n > 5"
        );
        check(&stage, &prepared(&upsert, &values));
    }
}

#[test]
fn moments_are_each_clients_own() {
    let stage = stage();
    let sql = "INSERT INTO moment VALUES ($1) ON CONFLICT (at) DO NOTHING";
    let now: [&[&str]; 3] = [&["' now'"], &["' now'"], &["' now'"]];
    stage.client().ask(&simple(sql, &now)[0]);
    stage.await_analysis();
    let mut clients = stage.clients(3);
    let mut gate = Gate::close(&stage);
    for (client, ask) in clients.iter_mut().zip(simple(sql, &now)) {
        gate.submit(client, &ask);
    }
    gate.open();
    for client in &mut clients {
        assert_eq!(
            client.reply().expect_ok("at another moment").tag(),
            "INSERT 0 1"
        );
    }
}

/// Numbers of a sequence are drawn in the order of the columns.
#[test]
fn two_numbers_of_a_sequence_stay_neighbours() {
    let stage = stage();
    let sql = "INSERT INTO serial (n) VALUES (nextval('serial_id_seq') + $1) RETURNING id, n";
    check(&stage, &prepared(sql, &[&["0"], &["0"], &["0"]]));
}

/// A unique index under another collation than its column's: equal for the index, not for `=`.
#[test]
fn an_index_of_another_collation() {
    let stage = stage();
    let mut bare = stage.direct();
    bare.ok("CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)");
    bare.ok(
        "CREATE TABLE word (word text, n int); CREATE UNIQUE INDEX ON word (word COLLATE nocase)",
    );
    bare.ok("INSERT INTO word VALUES ('a', 1)");
    let sql = "INSERT INTO word VALUES ('A', 1) ON CONFLICT (word) DO UPDATE SET n = word.n + 1 RETURNING n";
    assert_eq!(stage.client().value(sql), "2");
    stage.await_analysis();
    let mut clients = stage.clients(3);
    let mut gate = Gate::close(&stage);
    for client in &mut clients {
        gate.submit(client, &query(sql));
    }
    gate.open();
    for (n, client) in (3..).zip(&mut clients) {
        assert_eq!(client.reply().value(), n.to_string());
    }
}

/// A unique index under an operator class of another type than its column's: equal for the index, not for `=`.
#[test]
fn an_index_of_another_operator_class() {
    let stage = stage();
    stage.direct().ok(
        "CREATE TABLE tb (name text NOT NULL, n int NOT NULL); CREATE UNIQUE INDEX ON tb (name bpchar_ops);
         CREATE TABLE two (name text PRIMARY KEY, n int NOT NULL); CREATE UNIQUE INDEX ON two (name bpchar_ops);
         CREATE TABLE keyed (n int NOT NULL, name text NOT NULL, k int); CREATE UNIQUE INDEX ON keyed (k, name bpchar_ops)",
    );
    let tables = Tables {
        fill: "DELETE FROM tb; INSERT INTO tb VALUES ('a ', 1), ('b', 1); DELETE FROM two; INSERT INTO two VALUES ('a ', 1), ('b', 1);
            DELETE FROM keyed; INSERT INTO keyed VALUES (1, 'a ', 0), (1, 'b', 0)",
        content: "SELECT 0, name, n FROM tb UNION ALL SELECT 1, name, n FROM two UNION ALL SELECT 2, name, n FROM keyed ORDER BY 1, 2",
    };
    let values: [&[&str]; 4] = [&["a", "5"], &["b", "6"], &["c", "7"], &["a  ", "8"]];
    for sql in [
        "INSERT INTO tb VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET n = EXCLUDED.n RETURNING *",
        "INSERT INTO tb VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET n = tb.n + $2 RETURNING *",
        "INSERT INTO tb VALUES ($1, $2) ON CONFLICT (name) DO NOTHING RETURNING *",
        "INSERT INTO tb VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING *",
        "INSERT INTO two VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET n = EXCLUDED.n RETURNING *",
        "INSERT INTO two VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING *",
        "INSERT INTO keyed VALUES ($2, $1, 0) ON CONFLICT (name, k) DO UPDATE SET n = EXCLUDED.n RETURNING *",
    ] {
        tables.compare_asks(&stage, &prepared(sql, &values));
    }
}

/// Operator classes of the same equality are no reason to refuse a key.
#[test]
fn a_key_of_an_operator_class_with_the_usual_equality() {
    let stage = stage();
    stage.direct().ok(
        "CREATE TABLE tb (name text NOT NULL, n int NOT NULL); CREATE UNIQUE INDEX ON tb (name text_pattern_ops);
         CREATE TABLE two (name varchar(9) PRIMARY KEY, n int NOT NULL);
         CREATE TABLE keyed (name varchar(9), n int NOT NULL); CREATE UNIQUE INDEX ON keyed (name varchar_ops)",
    );
    let values: [&[&str]; 4] = [&["a", "5"], &["b", "6"], &["c", "7"], &["a", "8"]];
    for table in ["tb", "two", "keyed"] {
        let sql = format!(
            "INSERT INTO {table} VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET n = EXCLUDED.n RETURNING *"
        );
        let tables = Tables {
            fill: "DELETE FROM tb; DELETE FROM two; DELETE FROM keyed",
            content: "SELECT 0, name, n FROM tb UNION ALL SELECT 1, name, n FROM two UNION ALL SELECT 2, name, n FROM keyed ORDER BY 1, 2",
        };
        assert!(
            tables.compare_asks(&stage, &prepared(&sql, &values)),
            "{sql}"
        );
    }
}

/// For the index, numbers are equal if they differ only in their sign.
#[test]
fn an_index_of_an_operator_class_of_a_user() {
    let stage = stage();
    let mut setup = "CREATE FUNCTION cmp(int, int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT btint4cmp(abs($1), abs($2))';".to_owned();
    let mut class =
        "CREATE OPERATOR CLASS abs_ops FOR TYPE int USING btree AS FUNCTION 1 cmp(int, int)"
            .to_owned();
    for (number, name) in (1..).zip(["<", "<=", "=", ">=", ">"]) {
        setup += &format!(
            "CREATE FUNCTION f{number}(int, int) RETURNS bool IMMUTABLE LANGUAGE sql AS 'SELECT abs($1) {name} abs($2)';
             CREATE OPERATOR |{name}| (FUNCTION = f{number}, LEFTARG = int, RIGHTARG = int);"
        );
        class += &format!(", OPERATOR {number} |{name}|");
    }
    setup += &format!(
        "{class}; CREATE TABLE signed (k int NOT NULL, n int NOT NULL); CREATE UNIQUE INDEX ON signed (k abs_ops)"
    );
    stage.direct().ok(&setup);
    let tables = Tables {
        fill: "DELETE FROM signed; INSERT INTO signed VALUES (5, 1), (6, 1)",
        content: "SELECT * FROM signed ORDER BY k",
    };
    let values: [&[&str]; 4] = [&["-5", "5"], &["6", "6"], &["7", "7"], &["8", "8"]];
    for sql in [
        "INSERT INTO signed VALUES ($1, $2) ON CONFLICT (k) DO UPDATE SET n = EXCLUDED.n RETURNING *",
        "INSERT INTO signed VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING *",
        "UPDATE signed SET n = n + $2 WHERE k = $1 RETURNING *",
    ] {
        tables.compare_asks(&stage, &prepared(sql, &values));
    }
}

/// A column that is set to DEFAULT needs the right to insert it.
#[test]
fn a_default_needs_its_right() {
    let insert = "INSERT INTO t (id, n, tags) VALUES ($1, 1, DEFAULT)";
    let statements = [
        "",
        " ON CONFLICT (id) DO NOTHING",
        " ON CONFLICT (id) DO UPDATE SET n = EXCLUDED.n",
        " ON CONFLICT (id) DO UPDATE SET n = t.n + $1",
    ];
    let statements = statements.map(|conflict| format!("{insert}{conflict}"));
    let clerk = "GRANT INSERT (id, n), SELECT, UPDATE ON t TO";
    check_lost_right("GRANT INSERT ON t TO", clerk, &statements);
}

/// A column of EXCLUDED that is read needs the right to read it. (A group reads `xmin`, too.)
#[test]
fn a_column_of_excluded_needs_its_right() {
    let insert = "INSERT INTO t (id, n, small) VALUES ($1, 1, 3)";
    let changes = [
        "n = EXCLUDED.small",
        "n = t.n + EXCLUDED.small + $1",
        "n = t.n + 1 WHERE EXCLUDED.small > 2",
        "n = EXCLUDED.small RETURNING id",
    ];
    let statements =
        changes.map(|change| format!("{insert} ON CONFLICT (id) DO UPDATE SET {change}"));
    let clerk = "GRANT INSERT, UPDATE, SELECT (id, n, xmin) ON t TO";
    check_lost_right("GRANT SELECT (small) ON t TO", clerk, &statements);
}

/// Clients of a clerk, who loses the `right` of a boss after the analysis, with these statements: each gets the error of PostgreSQL.
#[track_caller]
fn check_lost_right(right: &str, rights_of_clerk: &str, statements: &[String]) {
    let stage = stage();
    let mut bare = stage.direct();
    let (clerk, boss) = (
        format!("clerk_{}", stage.database),
        format!("boss_{}", stage.database),
    );
    bare.ok(&format!(
        "CREATE ROLE {boss}; CREATE ROLE {clerk} LOGIN; {right} {boss}; {rights_of_clerk} {clerk}"
    ));
    for sql in statements {
        println!("{sql}");
        let client = || stage.client_with(&[("user", &clerk)]);
        bare.ok(&format!(
            "{FILL}; INSERT INTO t VALUES (80, 0), (81, 0); GRANT {boss} TO {clerk}"
        ));
        client()
            .ask(&unit(sql, &[Some("71")]))
            .expect_ok("as a boss");
        let mut status = stage.client_with(&[("user", &clerk)]);
        until("the analysis has ended", || {
            let rows = status.ok("SHOW GROUPS").rows();
            let mut rows = rows.iter().filter(|row| row[0].as_deref() == Some(sql));
            rows.all(|row| {
                row[REASON]
                    .as_deref()
                    .is_none_or(|why| !why.contains("asked"))
            })
        });
        bare.ok(&format!("REVOKE {boss} FROM {clerk}"));
        let mut clients: Vec<_> = (0..4).map(|_| client()).collect();
        // The clerks' only connection waits for an outsider.
        bare.ok("SELECT pg_advisory_lock(7)");
        let mut holder = client();
        holder.send(&query("SELECT pg_advisory_xact_lock(7)"));
        let mut observer = stage.direct();
        until("the connection is held", || {
            lock_waiters(&mut observer) >= 1
        });
        for (id, client) in (80..).zip(&mut clients) {
            client.send(&unit(sql, &[Some(&id.to_string())]));
        }
        until("all are in the line", || {
            stage.counters().waiting >= 4 || stage.target() == Target::Bare
        });
        bare.ok("SELECT pg_advisory_unlock(7)");
        holder.reply();
        for client in &mut clients {
            client.reply().expect_error("42501");
        }
    }
    assert_eq!(bare.number("SELECT sum(n) FROM t WHERE id >= 80"), 0);
    bare.ok(&format!(
        "DROP OWNED BY {clerk}, {boss}; DROP ROLE {clerk}, {boss}"
    ));
}

/// A right is granted while the INSERT of a group waits: what it has inserted is not inserted again.
#[test]
fn facts_that_move_between_the_two_statements_of_an_upsert() {
    let stage = stage();
    let mut bare = stage.direct();
    bare.ok(FILL);
    let sql = "INSERT INTO t (id, n) VALUES ($1, 1) ON CONFLICT (id) DO UPDATE SET n = t.n + 1 RETURNING n";
    stage.client().ask(&unit(sql, &[Some("1")]));
    stage.await_analysis();
    let mut clients = stage.clients(3);
    let mut gate = Gate::close(&stage);
    let mut outsider = stage.direct();
    if stage.target() == Target::Paceline {
        outsider.ok("BEGIN; INSERT INTO t VALUES (5, 100)");
    }
    for client in &mut clients {
        gate.submit(client, &unit(sql, &[Some("5")]));
    }
    gate.open();
    if stage.target() == Target::Paceline {
        until("the INSERT waits", || lock_waiters(&mut bare) >= 1);
        bare.ok("GRANT SELECT ON t TO pg_monitor");
        outsider.ok("ROLLBACK");
    }
    let values: Vec<_> = clients
        .iter_mut()
        .map(|client| client.reply().value())
        .collect();
    assert_eq!(values, ["1", "2", "3"]);
    assert_eq!(bare.number("SELECT n FROM t WHERE id = 5"), 3);
}

/// An outsider has locked a partition that no member of the group needs.
#[test]
fn a_locked_partition_delays_no_other_request() {
    let stage = stage();
    let mut bare = stage.direct();
    bare.ok("CREATE TABLE lane (id int, lane int, n int, PRIMARY KEY (id, lane)) PARTITION BY LIST (lane)");
    bare.ok("CREATE TABLE lane_0 PARTITION OF lane FOR VALUES IN (0); CREATE TABLE lane_1 PARTITION OF lane FOR VALUES IN (1)");
    let sql = "INSERT INTO lane VALUES (7, 0, 1) ON CONFLICT (id, lane) DO UPDATE SET n = lane.n + 1 RETURNING n";
    assert_eq!(stage.client().value(sql), "1");
    stage.await_analysis();
    let mut clients = stage.clients(4);
    let mut gate = Gate::close(&stage);
    for client in &mut clients {
        gate.submit(client, &query(sql));
    }
    let mut outsider = stage.direct();
    outsider.ok("BEGIN; LOCK TABLE lane_1 IN ACCESS EXCLUSIVE MODE");
    gate.open();
    let mut values: Vec<_> = clients
        .iter_mut()
        .map(|client| client.reply().value())
        .collect();
    values.sort();
    assert_eq!(values, ["2", "3", "4", "5"]);
    outsider.ok("COMMIT");
}

/// A partition has a unique index of its own: without a conflict target, DO NOTHING may be due to another key.
#[test]
fn a_unique_index_of_a_partition() {
    let stage = stage();
    let mut bare = stage.direct();
    bare.ok("CREATE TABLE lane (id int PRIMARY KEY, code int) PARTITION BY RANGE (id)");
    bare.ok("CREATE TABLE lane_0 PARTITION OF lane FOR VALUES FROM (0) TO (100); CREATE UNIQUE INDEX ON lane_0 (code)");
    bare.ok("INSERT INTO lane VALUES (1, 7)");
    let sql = "INSERT INTO lane VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING id, code";
    let ask = |id: &str, code: &str| unit(sql, &[Some(id), Some(code)]);
    stage.client().ask(&ask("2", "9")).expect_ok("alone");
    stage.await_analysis();
    let mut clients = stage.clients(3);
    let mut gate = Gate::close(&stage);
    for (client, code) in clients.iter_mut().zip(["7", "8", "10"]) {
        gate.submit(client, &ask("5", code));
    }
    gate.open();
    let tags: Vec<_> = clients
        .iter_mut()
        .map(|client| client.reply().tag())
        .collect();
    assert_eq!(tags, ["INSERT 0 0", "INSERT 0 1", "INSERT 0 0"]);
}
