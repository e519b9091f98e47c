//! Changes of the catalog after a template was analyzed, which touch neither its table nor its rows: the next group does what
//! its members would do alone.

use crate::harness::message::{query, unit};
use crate::harness::raw::RawClient;
use crate::harness::stage::Target;
use crate::harness::{Gate, Reply, Stage, assert_same};
use std::collections::BTreeSet;

const CLIENTS: usize = 6;

/// The first group on a connection prepares its statement, the second one returns the time at which PostgreSQL has analyzed it, and
/// from the third one on the table's facts are compared only after another analysis.
const GROUPS_BEFORE: usize = 3;

/// A change, and a statement whose meaning it changes.
struct Case {
    /// Once, in a new database.
    setup: &'static str,
    /// Before each round.
    fill: &'static str,
    /// `?` is the client's number.
    sql: &'static str,
    change: &'static str,
    content: &'static str,
}

fn ask(sql: &str, client: usize) -> Vec<u8> {
    query(&sql.replace('?', &client.to_string()))
}

impl Case {
    /// Clients that leave together, behind `before`.
    fn round(&self, stage: &Stage, before: impl FnOnce(&mut RawClient)) -> Vec<Reply> {
        let mut clients = stage.clients(CLIENTS);
        let mut gate = Gate::close(stage);
        let mut direct = stage.direct();
        before(&mut direct);
        direct.ok(self.fill);
        for (number, client) in clients.iter_mut().enumerate() {
            gate.submit(client, &ask(self.sql, number));
        }
        gate.open();
        clients.iter_mut().map(RawClient::reply).collect()
    }

    /// The same clients one at a time, and the resulting contents.
    fn check(&self, stage: &Stage, together: &[Reply]) {
        let mut bare = stage.direct();
        let left = bare.ok(self.content).rows();
        bare.ok(self.fill);
        for (number, reply) in together.iter().enumerate() {
            let alone = bare.ask(&ask(self.sql, number));
            let label = format!("{}: client {number} of {}", self.change, self.sql);
            assert_same(&label, &alone.0, &reply.0);
        }
        assert_eq!(bare.ok(self.content).rows(), left, "{}", self.change);
    }

    fn run(&self, stage: &Stage) {
        self.run_in_any_way(stage);
        let grouped = stage.counters().members >= CLIENTS as i64;
        assert!(grouped || stage.target() == Target::Bare, "{}", self.sql);
    }

    /// Together or not.
    fn run_in_any_way(&self, stage: &Stage) {
        println!("{}", self.change);
        stage.direct().ok(self.setup);
        stage.direct().ok(self.fill);
        stage.client().ask(&ask(self.sql, 0));
        stage.await_analysis();
        for _ in 0..GROUPS_BEFORE {
            let before = self.round(stage, |_| ());
            self.check(stage, &before);
        }
        let counters = stage.counters();
        assert_eq!(counters.fallbacks, 0, "{}", self.sql);
        // Twice: the second time Paceline has found out.
        let change = |direct: &mut RawClient| {
            direct.ok(self.fill);
            direct.ok(self.change);
        };
        let after = self.round(stage, change);
        self.check(stage, &after);
        let again = self.round(stage, |_| ());
        self.check(stage, &again);
    }
}

const TABLE: &str = "CREATE TABLE t (id int PRIMARY KEY, n int, price numeric, note text)";
const FILL: &str =
    "DELETE FROM t; INSERT INTO t SELECT i, 10 * i, 1.5, 'a' FROM generate_series(1, 3) i";
/// The same for tables with constraints.
const FILL_AFTER: &str = "DO $$ BEGIN IF to_regclass('other') IS NOT NULL THEN TRUNCATE other; END IF; END $$;
    DELETE FROM t; INSERT INTO t (id, n, price, note) SELECT i, 10 + i, 1.5, 'a' FROM generate_series(0, 2) i";
const CONTENT: &str = "SELECT tableoid::regclass, * FROM t ORDER BY id, n";

fn check(setup: &'static str, sql: &'static str, change: &'static str) {
    let case = Case {
        setup,
        fill: FILL,
        sql,
        change,
        content: CONTENT,
    };
    case.run(&Stage::for_groups());
}

/// A table that gets a child with rows of its own.
fn check_new_child(
    table: &'static str,
    fill: &'static str,
    child: &'static str,
    refill: &'static str,
) {
    let case = Case {
        setup: table,
        fill,
        sql: "UPDATE t SET n = n + ? WHERE id = 1 RETURNING n",
        change: child,
        content: CONTENT,
    };
    let with_child = Case {
        fill: refill,
        ..case
    };
    let stage = Stage::for_groups();
    let mut direct = stage.direct();
    direct.ok(case.setup);
    direct.ok(case.fill);
    stage.client().ask(&ask(case.sql, 0));
    stage.await_analysis();
    for _ in 0..GROUPS_BEFORE {
        case.check(&stage, &case.round(&stage, |_| ()));
    }
    stage.assert_grouped(CLIENTS as i64, 3);
    for change in [case.change, ""] {
        let after = with_child.round(&stage, |direct| drop(direct.ok(change)));
        with_child.check(&stage, &after);
    }
    assert_eq!(direct.number("SELECT count(*) FROM child"), 1);
}

#[test]
fn a_new_inheritance_child() {
    check_new_child(
        "CREATE TABLE t (id int PRIMARY KEY, n int); CREATE TABLE was () INHERITS (t); DROP TABLE was",
        "DELETE FROM t; INSERT INTO t SELECT i, 10 * i FROM generate_series(1, 3) i",
        "CREATE TABLE child () INHERITS (t); INSERT INTO child VALUES (1, 7)",
        "DELETE FROM t; INSERT INTO child VALUES (1, 7); INSERT INTO t SELECT i, 10 * i FROM generate_series(1, 3) i",
    );
}

#[test]
fn a_first_partition() {
    check_new_child(
        "CREATE TABLE t (id int PRIMARY KEY, n int) PARTITION BY RANGE (id)",
        "DELETE FROM t",
        "CREATE TABLE child PARTITION OF t FOR VALUES FROM (0) TO (9); INSERT INTO child VALUES (1, 7)",
        "DELETE FROM t; INSERT INTO t VALUES (1, 7)",
    );
}

/// PostgreSQL analyzes the statement again after each of these changes.
#[test]
fn definitions_of_a_table() {
    const UPDATE: &str = "UPDATE t SET n = n + 1 WHERE id = 1 RETURNING n";
    const INSERT: &str = "INSERT INTO t (id, n) VALUES (100 + ?, 7) RETURNING n, note";
    const UPSERT: &str =
        "INSERT INTO t VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET n = t.n + 1 RETURNING n";
    const TAKE: &str = "DELETE FROM t WHERE id = (SELECT id FROM t WHERE n > 1 ORDER BY id LIMIT 1) RETURNING id, n";
    for (sql, change) in [
        (UPDATE, "ALTER TABLE t ADD CHECK (n < 13)"),
        (UPDATE, "ALTER TABLE t ALTER n TYPE numeric(3, 1)"),
        (UPDATE, "ALTER TABLE t ADD two int GENERATED ALWAYS AS (100 / (13 - n)) STORED"),
        (UPDATE, "CREATE UNIQUE INDEX t_n ON t ((n / 12)) WHERE id = 1"),
        (
            UPDATE,
            "CREATE FUNCTION twice() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN new.n := 2 * new.n; RETURN new; END';
             CREATE TRIGGER twice BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION twice()",
        ),
        (UPDATE, "CREATE RULE none AS ON UPDATE TO t WHERE new.n > 12 DO INSTEAD NOTHING"),
        (UPDATE, "ALTER TABLE t RENAME n TO m; ALTER TABLE t RENAME id TO n; ALTER TABLE t RENAME m TO id"),
        (UPDATE, "ALTER TABLE t DROP CONSTRAINT t_pkey; INSERT INTO t VALUES (1, 5)"),
        (INSERT, "ALTER TABLE t ALTER note SET DEFAULT current_setting('application_name') || random()::int / 2"),
        (INSERT, "CREATE UNIQUE INDEX t_n ON t (n)"),
        (INSERT, "ALTER TABLE t ALTER note SET NOT NULL"),
        (UPSERT, "ALTER TABLE t ADD CHECK (n < 13)"),
        (UPSERT, "CREATE UNIQUE INDEX t_n ON t (n)"),
        (TAKE, "ALTER TABLE t ALTER id TYPE text"),
        (
            TAKE,
            "CREATE TABLE other (id int REFERENCES t ON DELETE RESTRICT); INSERT INTO other VALUES (2)",
        ),
    ] {
        let case = Case {
            setup: TABLE,
            fill: FILL_AFTER,
            sql,
            change,
            content: "SELECT * FROM t ORDER BY 1, 2",
        };
        case.run(&Stage::for_groups());
    }
}

/// PostgreSQL's own is found first, unless another one fits better.
#[test]
fn a_function_that_fits_better() {
    check(
        TABLE,
        "UPDATE t SET n = round(n) + ? WHERE id = 1 RETURNING n",
        "CREATE FUNCTION round(int) RETURNS int LANGUAGE sql AS 'SELECT $1 + 1000'",
    );
}

#[test]
fn an_operator_that_fits_better() {
    check(
        TABLE,
        "UPDATE t SET n = n + price + ? WHERE id = 1 RETURNING n",
        "CREATE FUNCTION plus(int, numeric) RETURNS numeric LANGUAGE sql AS 'SELECT $2 * 1000';
         CREATE OPERATOR + (LEFTARG = int, RIGHTARG = numeric, FUNCTION = plus)",
    );
}

/// Also the one that makes a key.
#[test]
fn an_equality_that_fits_better() {
    let case = Case {
        setup: "CREATE TABLE t (id varchar PRIMARY KEY, n int)",
        fill: "DELETE FROM t; INSERT INTO t SELECT 'k' || i, 10 * i FROM generate_series(1, 3) i",
        sql: "UPDATE t SET n = n + ? WHERE id = 'k1' RETURNING n",
        change: "CREATE FUNCTION differs(varchar, varchar) RETURNS bool LANGUAGE sql AS 'SELECT $1 <> $2';
                 CREATE OPERATOR = (LEFTARG = varchar, RIGHTARG = varchar, FUNCTION = differs)",
        content: CONTENT,
    };
    case.run(&Stage::for_groups());
}

/// The same of a consumer, an upsert and an insert.
#[test]
fn names_in_takes_and_merges() {
    for (sql, change) in [
        (
            "DELETE FROM t WHERE id = (SELECT id FROM t WHERE n > price ORDER BY id LIMIT 1) RETURNING id, round(n)",
            "CREATE FUNCTION round(int) RETURNS int LANGUAGE sql AS 'SELECT $1 + 1000'",
        ),
        (
            "DELETE FROM t WHERE id = (SELECT id FROM t WHERE n > price ORDER BY id LIMIT 1) RETURNING id, n",
            "CREATE FUNCTION never(int, numeric) RETURNS bool LANGUAGE sql AS 'SELECT false';
             CREATE OPERATOR > (LEFTARG = int, RIGHTARG = numeric, FUNCTION = never)",
        ),
        (
            "INSERT INTO t (id, n) VALUES (100 + ?, 1.5 + 7) RETURNING n",
            "CREATE FUNCTION plus(numeric, int) RETURNS numeric LANGUAGE sql AS 'SELECT $1 * 1000';
             CREATE OPERATOR + (LEFTARG = numeric, RIGHTARG = int, FUNCTION = plus)",
        ),
        (
            "INSERT INTO t (id, n) VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET n = round(t.n) + EXCLUDED.n RETURNING n",
            "CREATE FUNCTION round(int) RETURNS int LANGUAGE sql AS 'SELECT $1 + 1000'",
        ),
    ] {
        check(TABLE, sql, change);
    }
}

#[test]
fn a_cast_between_types_of_postgresql() {
    check(
        TABLE,
        "UPDATE t SET note = n + ? WHERE id = 1 RETURNING note",
        "CREATE FUNCTION words(int) RETURNS text LANGUAGE sql AS $$SELECT 'number ' || $1::bigint$$;
         CREATE CAST (int AS text) WITH FUNCTION words(int) AS ASSIGNMENT",
    );
}

#[test]
fn a_default_of_a_domain() {
    let case = Case {
        setup: "CREATE DOMAIN small AS int DEFAULT 1; CREATE DOMAIN smaller AS small; CREATE TABLE t (id int PRIMARY KEY, a small, b smaller)",
        fill: "DELETE FROM t",
        sql: "INSERT INTO t (id) VALUES (?) RETURNING a, b",
        change: "ALTER DOMAIN small SET DEFAULT 2; ALTER DOMAIN smaller SET DEFAULT 3",
        content: "TABLE t ORDER BY id",
    };
    case.run(&Stage::for_groups());
}

/// A constraint of the type on which the domain is based.
#[test]
fn a_constraint_of_a_domain_within() {
    let case = Case {
        setup: "CREATE DOMAIN small AS int; CREATE DOMAIN smaller AS small; CREATE TABLE t (id int PRIMARY KEY, a smaller)",
        fill: "DELETE FROM t",
        sql: "INSERT INTO t (id, a) VALUES (10 + ?, ?) RETURNING a",
        change: "CREATE FUNCTION odd(int) RETURNS bool LANGUAGE sql AS 'SELECT $1 % 2 = 1';
                 DELETE FROM t; ALTER DOMAIN small ADD CHECK (odd(VALUE))",
        content: "TABLE t ORDER BY id",
    };
    case.run(&Stage::for_groups());
}

/// A text in dollar quotes keeps its constants.
#[test]
fn a_value_of_an_enum_gets_another_name() {
    let case = Case {
        setup: "CREATE TYPE state AS ENUM ('new', 'done'); CREATE TABLE t (id int PRIMARY KEY, n int, state state)",
        fill: "DELETE FROM t; INSERT INTO t (id, n) SELECT i, 10 * i FROM generate_series(1, 3) i",
        sql: "UPDATE t SET state = $$new$$, n = n + 1 WHERE id = 1 RETURNING state, n",
        change: "ALTER TYPE state RENAME VALUE 'new' TO 'fresh'",
        content: "TABLE t ORDER BY id",
    };
    case.run(&Stage::for_groups());
}

#[test]
fn another_type_of_the_name() {
    let case = Case {
        setup: "CREATE TYPE public.state AS ENUM ('new', 'done'); CREATE TABLE t (id int PRIMARY KEY, n int, state state); CREATE SCHEMA postgres",
        fill: "DELETE FROM t; INSERT INTO t (id, n) SELECT i, 10 * i FROM generate_series(1, 3) i",
        sql: "UPDATE t SET state = $$new$$::state, n = n + 1 WHERE id = 1 RETURNING state, n",
        change: "CREATE TYPE postgres.state AS ENUM ('new', 'other')",
        content: "TABLE t ORDER BY id",
    };
    case.run(&Stage::for_groups());
}

#[test]
fn another_sequence_of_the_name() {
    let case = Case {
        setup: "CREATE TABLE t (id int PRIMARY KEY, n int); CREATE SEQUENCE s",
        fill: "DELETE FROM t; SELECT setval('s', 1)",
        sql: "INSERT INTO t VALUES (nextval($$s$$), 7) RETURNING id",
        change: "ALTER SEQUENCE s RENAME TO other; CREATE SEQUENCE s INCREMENT 10",
        content: "SELECT t.*, (SELECT last_value FROM s) FROM t ORDER BY id",
    };
    case.run(&Stage::for_groups());
}

/// Constants that are names: of a table, a type, a role, a text search dictionary.
#[test]
fn another_thing_of_the_name() {
    for (sql, change) in [
        (
            "UPDATE t SET n = n + 1, kind = $$other$$::regclass WHERE id = 1 RETURNING n, kind::oid::regclass::text",
            "CREATE TABLE postgres.other (id int)",
        ),
        (
            "UPDATE t SET n = n + 1, kind = $$other$$ WHERE id = 1 RETURNING n, kind::oid::regclass::text",
            "CREATE TABLE postgres.other (id int)",
        ),
        (
            "UPDATE t SET n = n + 1, made = $$state$$::regtype WHERE id = 1 RETURNING n, made::regtype::text",
            "CREATE TYPE postgres.state AS ENUM ()",
        ),
        (
            "INSERT INTO t (id, kind) VALUES (nextval($$s$$), $$other$$) RETURNING id, kind::oid::regclass::text",
            "CREATE TABLE postgres.other (id int)",
        ),
        (
            "INSERT INTO t (id, made) VALUES (nextval($$s$$), $$other$$::regclass) RETURNING id, made::regclass::text",
            "CREATE TABLE postgres.other (id int)",
        ),
        (
            "INSERT INTO t (id, note) VALUES (nextval($$s$$), ts_lexize($$words$$, 'Words')) RETURNING id, note",
            "CREATE TEXT SEARCH DICTIONARY postgres.words (TEMPLATE = pg_catalog.simple)",
        ),
        (
            "DELETE FROM t WHERE id IN (SELECT id FROM t WHERE kind IN ($$other$$, $$t$$) ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id",
            "CREATE TABLE postgres.other (id int)",
        ),
    ] {
        let case = Case {
            setup: "CREATE TABLE other (id int); CREATE TYPE state AS ENUM ('new'); CREATE TEXT SEARCH DICTIONARY words (TEMPLATE = pg_catalog.snowball, language = english);
                CREATE TABLE t (id int PRIMARY KEY, n int, kind regclass, made oid, note text[]); CREATE SEQUENCE s; CREATE SCHEMA postgres",
            fill: "DELETE FROM t; SELECT setval($$s$$, 10); INSERT INTO t SELECT i, 10 * i, 'other' FROM generate_series(1, 3) i",
            sql,
            change,
            content: "TABLE t ORDER BY id",
        };
        case.run_in_any_way(&Stage::for_groups());
    }
}

#[test]
fn another_collation_of_the_name() {
    let case = Case {
        setup: "CREATE TABLE t (id int PRIMARY KEY, n int, note text); CREATE COLLATION mine (provider = icu, locale = 'und'); CREATE SCHEMA postgres",
        fill: "DELETE FROM t; INSERT INTO t SELECT i, 10 * i, 'b' FROM generate_series(1, 3) i",
        sql: "UPDATE t SET n = n + 1 WHERE id = 1 AND note < $$B$$ COLLATE mine RETURNING n",
        change: "CREATE COLLATION postgres.mine FROM \"C\"",
        content: "TABLE t ORDER BY id",
    };
    let stage = Stage::for_groups();
    stage.direct().ok(case.setup);
    stage.direct().ok(case.fill);
    stage.client().ask(&ask(case.sql, 0));
    stage.await_analysis();
    for change in ["", case.change] {
        let replies = case.round(&stage, |direct| drop(direct.ok(change)));
        case.check(&stage, &replies);
    }
}

/// Operators of one's own that are found before PostgreSQL's.
const MISLEADING: &str = "
    CREATE TABLE t (id int PRIMARY KEY, n int, note text);
    CREATE SCHEMA mine;
    CREATE FUNCTION mine.always(int, int) RETURNS bool LANGUAGE sql AS 'SELECT true';
    CREATE FUNCTION mine.same(text, text) RETURNS bool LANGUAGE sql AS 'SELECT true';
    CREATE FUNCTION mine.nothing(text, text) RETURNS text LANGUAGE sql AS $$SELECT ''::text$$;
    CREATE FUNCTION mine.minus(int, int) RETURNS int LANGUAGE sql AS 'SELECT pg_catalog.int4mi($1, $2)';
    CREATE FUNCTION mine.lower(text) RETURNS text LANGUAGE sql AS 'SELECT pg_catalog.upper($1)';
    CREATE OPERATOR mine.= (LEFTARG = int, RIGHTARG = int, FUNCTION = mine.always);
    CREATE OPERATOR mine.= (LEFTARG = text, RIGHTARG = text, FUNCTION = mine.same);
    CREATE OPERATOR mine.< (LEFTARG = int, RIGHTARG = int, FUNCTION = mine.always);
    CREATE OPERATOR mine.|| (LEFTARG = text, RIGHTARG = text, FUNCTION = mine.nothing);
    CREATE OPERATOR mine.+ (LEFTARG = int, RIGHTARG = int, FUNCTION = mine.minus)";

#[test]
fn a_search_path_with_pg_catalog_later() {
    let stage = Stage::for_groups();
    let fill = "DELETE FROM t; INSERT INTO t SELECT i, 10, 'X' FROM generate_series(1, 3) i";
    let content = "TABLE t ORDER BY id";
    let mut direct = stage.direct();
    direct.ok(MISLEADING);
    let led = |mut client: RawClient| {
        client.ok("SET search_path = mine, pg_catalog, public");
        client
    };
    let (mut bare, mut teacher) = (led(stage.direct()), led(stage.client()));
    for sql in [
        "UPDATE t SET n = n + 1, note = lower(note) WHERE id = 1 RETURNING n, note",
        "UPDATE t SET n = n - 1 WHERE id = ? RETURNING n",
        "INSERT INTO t VALUES (?, 1 + 1, lower('A' || 'b')) ON CONFLICT (id) DO UPDATE SET n = t.n + 5 RETURNING n, note",
        "INSERT INTO t VALUES (10 + ?, 1 + 1, lower('A' || 'b')) RETURNING n, note",
        "DELETE FROM t WHERE id IN (SELECT id FROM t WHERE n < 5 ORDER BY id LIMIT 1) RETURNING id",
    ] {
        println!("{sql}");
        direct.ok(fill);
        teacher.ask(&ask(sql, 0));
        teacher.ok("BEGIN; COMMIT");
        let mut clients: Vec<RawClient> = (0..CLIENTS).map(|_| led(stage.client())).collect();
        let mut gate = Gate::close(&stage);
        direct.ok(fill);
        for (number, client) in clients.iter_mut().enumerate() {
            gate.submit(client, &ask(sql, number));
        }
        gate.open();
        let together: Vec<Reply> = clients.iter_mut().map(RawClient::reply).collect();
        let left = direct.ok(content).rows();
        direct.ok(fill);
        for (number, reply) in together.iter().enumerate() {
            let alone = bare.ask(&ask(sql, number));
            assert_same(&format!("client {number} of {sql}"), &alone.0, &reply.0);
        }
        assert_eq!(direct.ok(content).rows(), left, "{sql}");
    }
}

/// Operators of a user that Paceline's questions to the catalog would find before PostgreSQL's.
#[test]
fn questions_under_a_search_path_with_pg_catalog_later() {
    let stage = Stage::for_groups();
    let mut direct = stage.direct();
    direct.ok("CREATE SCHEMA mine; CREATE SEQUENCE mine.s;
        CREATE FUNCTION mine.draw() RETURNS bigint STABLE LANGUAGE plpgsql AS $$BEGIN RETURN nextval('mine.s'); END$$;
        CREATE FUNCTION mine.never(oid, oid) RETURNS bool LANGUAGE sql AS 'SELECT false';
        CREATE OPERATOR mine.<> (LEFTARG = oid, RIGHTARG = oid, FUNCTION = mine.never);
        CREATE OPERATOR mine.>= (LEFTARG = oid, RIGHTARG = oid, FUNCTION = mine.never)");
    let led = |mut client: RawClient| {
        client.ok("SET search_path = mine, pg_catalog");
        client
    };
    let draw = unit("SELECT draw()", &[]);
    let mut teacher = led(stage.client());
    for _ in 0..CLIENTS {
        teacher.ask(&draw).expect_ok("a lesson");
        stage.await_analysis();
    }
    let mut clients: Vec<RawClient> = (0..CLIENTS).map(|_| led(stage.client())).collect();
    let mut gate = Gate::close(&stage);
    for client in &mut clients {
        gate.submit(client, &draw);
    }
    gate.open();
    let numbers = clients.iter_mut().map(|client| client.reply().value());
    let numbers: BTreeSet<String> = numbers.collect();
    assert_eq!(numbers.len(), CLIENTS, "{numbers:?}");
}

/// A user without privileges of its own, and the effect of changes of its privileges.
#[test]
fn rights_that_are_taken_away() {
    let stage = Stage::for_groups();
    let mut direct = stage.direct();
    let user = format!("web_{}", stage.database);
    let group = format!("group_{}", stage.database);
    direct.ok(&format!(
        "CREATE ROLE {user} LOGIN; CREATE ROLE {group}; GRANT {group} TO {user};
         CREATE SCHEMA shop; CREATE TABLE shop.t (id int PRIMARY KEY, n int);
         GRANT USAGE ON SCHEMA shop TO {group}; GRANT SELECT, UPDATE ON shop.t TO {group};
         INSERT INTO shop.t VALUES (1, 0)"
    ));
    let sql = query("UPDATE shop.t SET n = n + 1 WHERE id = 1 RETURNING n");
    let client = |port: u16| {
        let names = [
            ("user", user.as_str()),
            ("database", stage.database.as_str()),
        ];
        RawClient::connect(port, &names)
    };
    let mut bare = client(stage.cluster.port());
    let mut teacher = client(stage.port());
    teacher.ask(&sql).expect_ok("a lesson");
    teacher.ok("BEGIN; COMMIT");
    for (change, back) in [
        (
            format!("REVOKE USAGE ON SCHEMA shop FROM {group}"),
            format!("GRANT USAGE ON SCHEMA shop TO {group}"),
        ),
        (
            format!("REVOKE UPDATE ON shop.t FROM {group}"),
            format!("GRANT UPDATE ON shop.t TO {group}"),
        ),
        (
            format!("REVOKE {group} FROM {user}"),
            format!("GRANT {group} TO {user}"),
        ),
        (
            "ALTER TABLE shop.t ENABLE ROW LEVEL SECURITY".to_owned(),
            "ALTER TABLE shop.t DISABLE ROW LEVEL SECURITY".to_owned(),
        ),
    ] {
        println!("{change}");
        direct.ok(&change);
        let alone = bare.ask(&sql);
        let mut clients: Vec<RawClient> = (0..CLIENTS).map(|_| client(stage.port())).collect();
        for client in &mut clients {
            client.send(&sql);
        }
        for client in &mut clients {
            assert_same(&change, &alone.0, &client.reply().0);
        }
        direct.ok(&back);
        let mut numbers: Vec<String> = Vec::new();
        for client in &mut clients {
            client.send(&sql);
        }
        numbers.extend(
            clients
                .iter_mut()
                .map(|client| client.reply().expect_ok(&back).value()),
        );
        numbers.sort();
        numbers.dedup();
        assert_eq!(numbers.len(), CLIENTS);
    }
}

/// An object beside a table does not change it, or the group gets PostgreSQL's error as each member would.
#[test]
fn objects_that_are_created_beside_a_table() {
    for change in [
        "CREATE FUNCTION noted() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END'; CREATE EVENT TRIGGER noted ON ddl_command_end EXECUTE FUNCTION noted()",
        "CREATE PUBLICATION everything FOR ALL TABLES",
        "ALTER DEFAULT PRIVILEGES REVOKE ALL ON TABLES FROM public",
        "CREATE STATISTICS known ON id, n FROM t; ANALYZE t",
    ] {
        check(
            TABLE,
            "UPDATE t SET n = n + ? WHERE id = 1 RETURNING n",
            change,
        );
    }
}
