//! `paceline check --connect` shows the map of the shards, and the reasons why statements do not use it.

use crate::harness::caretaker;
use crate::harness::{At, Sharded};
use std::process::Command;

const COLUMNS: &str = "id bigint NOT NULL, owner text DEFAULT 'x', amount numeric(10, 2) NOT NULL DEFAULT 0, at timestamptz DEFAULT now(), \
     twice int GENERATED ALWAYS AS (2) STORED, CONSTRAINT positive CHECK (amount >= 0)";
const KEY: &str = ", PRIMARY KEY (id)";

/// A sharded table `t` with four partitions by hash.
fn sharded() -> Sharded {
    let sharded = Sharded::new();
    sharded.hash_table("t", COLUMNS, KEY, "id", 4);
    sharded
}

/// The exit code, and the lines about shards without the name of the database.
fn check(sharded: &Sharded, more: &str) -> (Option<i32>, Vec<String>) {
    let file = caretaker::folder("k").join("paceline.toml");
    std::fs::write(&file, sharded.configured() + more).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
    let output = command.arg("check").arg(&file).arg("--connect").output();
    let output = output.unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let about = format!("database {}, ", sharded.database);
    let lines = printed.lines().filter_map(|line| line.strip_prefix(&about));
    let lines = lines.filter(|line| !line.starts_with("host "));
    (output.status.code(), lines.map(str::to_owned).collect())
}

/// The lines about tables.
fn tables(sharded: &Sharded) -> Vec<String> {
    let (code, lines) = check(sharded, "");
    assert_eq!(code, Some(0), "{lines:?}");
    let of_tables = lines
        .into_iter()
        .filter(|line| line.starts_with("sharded table"));
    of_tables.collect()
}

const WHOLE: &str = "sharded table public.t, key id bigint: 4 partitions; 2 on s0, 2 on s1";

#[test]
fn the_map_is_shown() {
    let sharded = sharded();
    let (code, lines) = check(&sharded, "");
    let ports = [0, 1].map(|number: usize| sharded.shards[number].port());
    let shard = |number: usize| {
        let (port, database) = (ports[number], &sharded.database);
        format!("shard s{number} (127.0.0.1:{port}/{database}): may execute statements")
    };
    assert_eq!(
        (code, lines),
        (Some(0), vec![shard(0), shard(1), WHOLE.to_owned()])
    );
}

#[test]
fn a_database_without_shards_says_so() {
    let sharded = Sharded::new();
    let (code, lines) = check(&sharded, "");
    let none = "shards: no partitioned table has a foreign table among its partitions";
    assert_eq!((code, lines), (Some(0), vec![none.to_owned()]));
}

/// Statements on one of the servers, the output of the check then, and statements that undo them.
type Difference<'a> = (At, &'a str, &'a str, &'a str);

#[test]
fn what_differs_on_a_shard_keeps_the_partition_on_the_coordinator() {
    let sharded = sharded();
    let only =
        "sharded table public.t, partitions public.t_1: statements stay on the coordinator: ";
    let unfit = "table public.t_1 on shard s1: ";
    let differences: &[Difference<'_>] = &[
        (
            At::Shard(1),
            "ALTER TABLE t_1 ADD COLUMN more int",
            "only the shard has: column more integer",
            "ALTER TABLE t_1 DROP COLUMN more",
        ),
        (
            At::Shard(1),
            "ALTER TABLE t_1 DROP COLUMN owner; ALTER TABLE t_1 ADD COLUMN owner text DEFAULT 'x'",
            "the shard has another column in the place of column owner",
            "DROP TABLE t_1; CREATE TABLE t_1 (id bigint NOT NULL, owner text DEFAULT 'x', amount numeric(10, 2) NOT NULL DEFAULT 0, \
               at timestamptz DEFAULT now(), twice int GENERATED ALWAYS AS (2) STORED, CONSTRAINT positive CHECK (amount >= 0), PRIMARY KEY (id))",
        ),
        (
            At::Shard(1),
            "ALTER TABLE t_1 ALTER COLUMN amount DROP NOT NULL",
            "only the coordinator has: column amount numeric(10,2) not null",
            "ALTER TABLE t_1 ALTER COLUMN amount SET NOT NULL",
        ),
        (
            At::Shard(1),
            "ALTER TABLE t_1 ALTER COLUMN owner SET DEFAULT 'y'",
            "the default of column owner is 'x'::text, on the shard 'y'::text",
            "ALTER TABLE t_1 ALTER COLUMN owner SET DEFAULT 'x'",
        ),
        (
            At::Shard(1),
            "ALTER TABLE t_1 ALTER COLUMN at DROP DEFAULT",
            "the default of column at is now(), on the shard NULL",
            "ALTER TABLE t_1 ALTER COLUMN at SET DEFAULT now()",
        ),
        (
            At::Shard(1),
            "ALTER TABLE t_1 ALTER COLUMN owner TYPE varchar(9)",
            "only the coordinator has: column owner text",
            "ALTER TABLE t_1 ALTER COLUMN owner TYPE text",
        ),
        (
            At::Shard(1),
            "ALTER TABLE t_1 ALTER COLUMN owner TYPE text COLLATE \"C\"",
            "only the coordinator has: column owner text",
            "ALTER TABLE t_1 ALTER COLUMN owner TYPE text COLLATE \"default\"",
        ),
        (
            At::Shard(1),
            "ALTER TABLE t_1 ADD CHECK (id > 0)",
            "only the shard has: check t_1_id_check CHECK ((id > 0))",
            "ALTER TABLE t_1 DROP CONSTRAINT t_1_id_check",
        ),
        (
            At::Shard(1),
            "ALTER TABLE t_1 ALTER COLUMN twice DROP EXPRESSION",
            "only the coordinator has: column twice integer generated s (2)",
            "ALTER TABLE t_1 DROP COLUMN twice; ALTER TABLE t_1 ADD COLUMN twice int GENERATED ALWAYS AS (2) STORED",
        ),
        (
            At::Shard(1),
            "ALTER TABLE t_1 ENABLE ROW LEVEL SECURITY",
            "UNFIT it has row-level security",
            "ALTER TABLE t_1 DISABLE ROW LEVEL SECURITY",
        ),
        (
            At::Shard(1),
            "CREATE TRIGGER g BEFORE UPDATE ON t_1 FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
            "UNFIT it has triggers",
            "DROP TRIGGER g ON t_1",
        ),
        (
            At::Shard(1),
            "CREATE TABLE ref (id bigint REFERENCES t_1)",
            "UNFIT it has foreign keys, or foreign keys refer to it",
            "DROP TABLE ref",
        ),
        (
            At::Shard(1),
            "ALTER TABLE t_1 RENAME TO away",
            "shard s1 has no table public.t_1",
            "ALTER TABLE away RENAME TO t_1",
        ),
        (
            At::Shard(1),
            "ALTER TABLE t_1 SET UNLOGGED",
            "UNFIT it is unlogged or temporary",
            "ALTER TABLE t_1 SET LOGGED",
        ),
        (
            At::Coordinator,
            "ALTER FOREIGN TABLE t_1 OPTIONS (ADD updatable 'false')",
            "it is not updatable",
            "ALTER FOREIGN TABLE t_1 OPTIONS (DROP updatable)",
        ),
        (
            At::Coordinator,
            "ALTER FOREIGN TABLE t_1 ALTER COLUMN owner OPTIONS (ADD column_name 'id')",
            "a column has another name on the shard (column_name)",
            "ALTER FOREIGN TABLE t_1 ALTER COLUMN owner OPTIONS (DROP column_name)",
        ),
        (
            At::Coordinator,
            "ALTER FOREIGN TABLE t_1 ADD CHECK (id > 0)",
            "its definition differs from that of the table in: check t_1_id_check CHECK ((id > 0))",
            "ALTER FOREIGN TABLE t_1 DROP CONSTRAINT t_1_id_check",
        ),
        (
            At::Coordinator,
            "CREATE TRIGGER g BEFORE UPDATE ON t_1 FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
            "on the coordinator, it has triggers",
            "DROP TRIGGER g ON t_1",
        ),
    ];
    for (at, statements, shown, undo) in differences {
        let mut client = match at {
            At::Coordinator => sharded.on_coordinator(),
            At::Shard(number) => sharded.on_shard(*number),
        };
        client.ok(statements);
        let counts = WHOLE.replace("2 on s1", "1 on s1");
        let line = format!("{only}{}", shown.replace("UNFIT ", unfit));
        assert_eq!(tables(&sharded), [counts, line], "{statements}");
        client.ok(undo);
        assert_eq!(tables(&sharded), [WHOLE], "{undo}");
    }
}

#[test]
fn what_the_table_has_keeps_it_on_the_coordinator() {
    let sharded = sharded();
    let mut coordinator = sharded.on_coordinator();
    let stays = "sharded table public.t: stays on the coordinator: table on the coordinator: ";
    for (statements, shown, undo) in [
        (
            "ALTER TABLE t ENABLE ROW LEVEL SECURITY",
            "it has row-level security",
            "ALTER TABLE t DISABLE ROW LEVEL SECURITY",
        ),
        (
            "CREATE RULE r AS ON DELETE TO t DO INSTEAD NOTHING",
            "it has rules",
            "DROP RULE r ON t",
        ),
    ] {
        coordinator.ok(statements);
        assert_eq!(
            tables(&sharded),
            [format!("{stays}{shown}")],
            "{statements}"
        );
        coordinator.ok(undo);
    }
}

#[test]
fn a_query_of_the_coordinators_connections_keeps_all_tables_there() {
    let sharded = sharded();
    let (code, lines) = check(&sharded, "connect_query = \"SET bytea_output = escape\"");
    let stays = "sharded table public.t: stays on the coordinator: the coordinator: connect_query is set, and connections to shards do not run it";
    assert_eq!((code, lines.last().unwrap().as_str()), (Some(0), stays));
}

#[test]
fn keys_that_paceline_does_not_compare_keep_tables_on_the_coordinator() {
    let sharded = Sharded::new();
    let stays = "statements stay on the coordinator: ";
    for (columns, by, bounds, shown) in [
        (
            "id numeric",
            "HASH (id)",
            "WITH (MODULUS 1, REMAINDER 0)",
            "the key column id has a type that Paceline does not compare",
        ),
        (
            "id varchar(9)",
            "HASH (id)",
            "WITH (MODULUS 1, REMAINDER 0)",
            "the key column id has a type that Paceline does not compare",
        ),
        (
            "id timestamp(3)",
            "HASH (id)",
            "WITH (MODULUS 1, REMAINDER 0)",
            "the type of key column id has a precision or length",
        ),
        (
            "id text",
            "RANGE (id)",
            "FROM ('a') TO ('b')",
            "partitions by range of the text column id",
        ),
        (
            "id int",
            "HASH ((id + 1))",
            "WITH (MODULUS 1, REMAINDER 0)",
            "the partition key of public.k has an expression",
        ),
        (
            "id text",
            "HASH (id text_pattern_ops)",
            "WITH (MODULUS 1, REMAINDER 0)",
            "key column id has another operator class than the default",
        ),
        (
            "id text",
            "HASH (id bpchar_ops)",
            "WITH (MODULUS 1, REMAINDER 0)",
            "key column id has another operator class than the default",
        ),
    ] {
        sharded.table(
            "k",
            columns,
            "",
            by,
            &[(&format!("FOR VALUES {bounds}"), At::Shard(0))],
        );
        let lines = tables(&sharded);
        assert_eq!(
            lines.last().unwrap(),
            &format!("sharded table public.k: {stays}{shown}"),
            "{lines:?}"
        );
        sharded.on_coordinator().ok("DROP TABLE k");
        sharded.on_shard(0).ok("DROP TABLE k_0");
    }
}

#[test]
fn a_server_that_is_not_like_the_coordinator_executes_nothing() {
    let sharded = sharded();
    let second = |sharded: &Sharded, more: &str| {
        let (code, lines) = check(sharded, more);
        let line = lines
            .into_iter()
            .find(|line| line.starts_with("shard s1 "))
            .unwrap();
        (code, line.split_once("): ").unwrap().1.to_owned())
    };
    let database = &sharded.database;
    let mut shard = sharded.on_shard(1);
    shard.ok(&format!(
        "ALTER DATABASE {database} SET bytea_output = escape"
    ));
    let setting =
        "executes no statements: the setting bytea_output is escape, on the coordinator hex";
    assert_eq!(second(&sharded, ""), (Some(0), setting.to_owned()));
    shard.ok(&format!("ALTER DATABASE {database} RESET ALL"));
    shard.ok("CREATE FUNCTION f(text) RETURNS int LANGUAGE sql AS 'SELECT 1'; CREATE CAST (text AS int) WITH FUNCTION f AS IMPLICIT");
    let casts = "executes no statements: users have defined implicit casts or default operator classes for PostgreSQL's types";
    assert_eq!(second(&sharded, ""), (Some(0), casts.to_owned()));
    shard.ok("DROP FUNCTION f CASCADE");
    let whole = (Some(0), "may execute statements".to_owned());
    assert_eq!(second(&sharded, ""), whole);
    let mut coordinator = sharded.on_coordinator();
    coordinator.ok("ALTER SERVER s1 OPTIONS (ADD options '-c x.y=1')");
    let (_, line) = second(&sharded, "");
    assert!(line.contains("does not know the option options"), "{line}");
    coordinator
        .ok("ALTER SERVER s1 OPTIONS (DROP options); ALTER SERVER s1 OPTIONS (SET port '1')");
    let (code, line) = second(&sharded, "");
    assert!(code == Some(1) && line.contains("not reachable"), "{line}");
    // The configuration takes the place of the catalog.
    let port = sharded.shards[1].port();
    let own = format!("[[databases.{database}.shard_servers]]\nserver = \"s1\"\nport = {port}\n");
    assert_eq!(second(&sharded, &own), whole);
    coordinator.ok("DROP USER MAPPING FOR PUBLIC SERVER s1");
    let (_, line) = second(&sharded, &own);
    assert!(line.contains("no login is known"), "{line}");
}

/// The line about shards, if the statement is explained.
fn place(sharded: &Sharded, sql: &str, more: &[&str]) -> Result<String, String> {
    let url = format!(
        "postgres://postgres@127.0.0.1:{}/{}",
        sharded.coordinator.port(),
        sharded.database
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
    command.args(["explain", sql, "--upstream", &url, "--set", "shards=auto"]);
    let output = command.args(more).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    if !output.status.success() {
        return Err(text(output.stderr));
    }
    let printed = text(output.stdout);
    let line = printed.lines().find_map(|line| line.strip_prefix("shards"));
    Ok(line.unwrap().trim().to_owned())
}

#[test]
fn a_statement_is_explained_by_the_map() {
    let sharded = sharded();
    let by_key = "SELECT amount FROM t WHERE id = 1";
    let shard = place(&sharded, by_key, &[]).unwrap();
    // The row is on the server that explain names.
    let mut coordinator = sharded.on_coordinator();
    coordinator.ok("INSERT INTO t (id, amount) VALUES (1, 5)");
    let server = coordinator.value(
        "SELECT s.srvname FROM t JOIN pg_foreign_table f ON f.ftrelid = t.tableoid JOIN pg_foreign_server s ON s.oid = f.ftserver WHERE id = 1",
    );
    assert_eq!(shard, format!("the shard {server} executes it"));
    let upsert = "INSERT INTO t (id, amount) VALUES (1, 2) ON CONFLICT (id) DO UPDATE SET amount = excluded.amount";
    assert_eq!(place(&sharded, upsert, &[]).unwrap(), shard);
    let expected =
        "the shard of the row that the parameters fix executes it, if their types are known";
    let by_parameter = "SELECT amount FROM t WHERE id = $1";
    assert_eq!(place(&sharded, by_parameter, &[]).unwrap(), expected);
    for (sql, why) in [
        ("SELECT count(*) FROM t", "the coordinator executes it: "),
        (
            "SELECT 1 FROM pg_class WHERE relname = 'x'",
            "the coordinator executes it: it names no sharded table",
        ),
        (
            "UPDATE t SET id = 2 WHERE id = 1",
            "the coordinator executes it: it changes a column of the partition key",
        ),
    ] {
        let found = place(&sharded, sql, &[]).unwrap();
        assert!(found.starts_with(why), "{sql}: {found}");
    }
    let refused = place(&sharded, "SELECT nothing FROM t WHERE id = 1", &[]).unwrap_err();
    assert!(
        refused.contains("column \"nothing\" does not exist"),
        "{refused}"
    );
    // A difference on the shard keeps its partitions on the coordinator.
    for number in 0..2 {
        sharded.on_shard(number).ok(&format!(
            "ALTER DATABASE {} SET bytea_output = escape",
            sharded.database
        ));
    }
    let differs = place(&sharded, by_key, &[]).unwrap();
    assert!(differs.contains("bytea_output is escape"), "{differs}");
}
