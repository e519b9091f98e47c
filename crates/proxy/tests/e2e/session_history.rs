//! Generated histories: several clients on two server connections say what changes a session; each has a bare session of
//! PostgreSQL that hears the same. After every unit the two must not differ in anything that follows a client.

use crate::harness::Stage;
use crate::harness::message::{bind, close, execute, parse, query, sync, unit};
use crate::harness::raw::RawClient;
use crate::harness::rng::Rng;

const STEPS: usize = 700;

/// Names that clients give to statements.
const NAMES: [&str; 3] = ["a", "b", "c"];

/// What is compared, beside what the server reports by itself.
const LOOK: &str = "SELECT current_setting('application_name'), current_setting('search_path'), \
    current_setting('timezone'), current_setting('statement_timeout'), current_setting('datestyle'), \
    coalesce(current_setting('app.flag', true), ''), current_setting('role'), current_user, session_user, \
    current_setting('default_transaction_read_only'), current_setting('default_transaction_isolation')";

/// One statement each.
const STATEMENTS: [&str; 56] = [
    "SET application_name = 'one'",
    "SET application_name TO 'two'",
    "SET search_path = a, \"B c\", public",
    "SET search_path TO public",
    "SET TIME ZONE 'Asia/Tokyo'",
    "SET timezone = 'America/New_York'",
    "SET statement_timeout TO '71s'",
    "SET datestyle = 'German, DMY'",
    "SET app.flag = 'it''s'",
    "SET app.flag = 'other'",
    "SET ROLE paceline_history_a",
    "SET ROLE paceline_history_b",
    "SET ROLE NONE",
    "RESET ROLE",
    "SET SESSION AUTHORIZATION paceline_history_a",
    "RESET SESSION AUTHORIZATION",
    "SET SESSION AUTHORIZATION DEFAULT",
    "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY, ISOLATION LEVEL SERIALIZABLE",
    "SET default_transaction_read_only = off",
    "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
    "RESET default_transaction_isolation",
    "RESET application_name",
    "RESET search_path",
    "RESET timezone",
    "SET statement_timeout TO DEFAULT",
    "RESET app.flag",
    "RESET ALL",
    "DISCARD ALL",
    "SET LOCAL application_name = 'local'",
    "SET LOCAL search_path = local",
    "SET LOCAL app.flag = 'local'",
    "SELECT set_config('application_name', 'by call', false)",
    "SELECT set_config('app.flag', 'by call', false), set_config('search_path', 'x, y', false)",
    "SELECT set_config('app.flag', 'local call', true)",
    "SET statement_timeout = nonsense",
    "SET nosuchsetting = 1",
    "SELECT set_config('timezone', 'Nowhere/Land', false)",
    "DO $$ BEGIN PERFORM set_config('app.flag', 'by DO', false); END $$",
    "DO $$ BEGIN SET application_name = 'by DO'; SET search_path = by_do; END $$",
    "SELECT 1/0",
    "SELECT 1",
    "SHOW search_path",
    "SAVEPOINT s",
    "SAVEPOINT t",
    "ROLLBACK TO s",
    "ROLLBACK TO SAVEPOINT t",
    "RELEASE s",
    "RELEASE SAVEPOINT t",
    "PREPARE a AS SELECT 'first'",
    "PREPARE a AS SELECT 'second'",
    "PREPARE b (text) AS SELECT 'b' || $1",
    "PREPARE c AS SELECT current_setting('application_name')",
    "DEALLOCATE a",
    "DEALLOCATE PREPARE b",
    "DEALLOCATE ALL",
    "EXECUTE b('x')",
];

/// Begin and end transactions; so often that they do.
const BLOCKS: [&str; 5] = ["BEGIN", "START TRANSACTION", "COMMIT", "ROLLBACK", "COMMIT"];

/// Several statements in one text.
const TEXTS: [&str; 7] = [
    "SET application_name = 'in a text'; SET app.flag = 'in a text'",
    "SET application_name = 'undone'; SELECT 1/0",
    "BEGIN; SET search_path = in_block; COMMIT",
    "BEGIN; SET search_path = in_block; ROLLBACK",
    "SET app.flag = 'kept'; COMMIT; SET app.flag = 'undone'; SELECT 1/0",
    "SAVEPOINT s; SET app.flag = 'in savepoint'; ROLLBACK TO s",
    "SET application_name = 'before'; SELECT 1; RESET timezone",
];

/// A client of Paceline and its double.
struct Pair {
    client: RawClient,
    bare: RawClient,
    /// As both said last.
    status: char,
}

impl Pair {
    fn open(stage: &Stage, more: &[(&str, &str)]) -> Self {
        let mut parameters = vec![("user", "postgres"), ("database", stage.database.as_str())];
        parameters.extend(more);
        Self {
            client: stage.client_with(more),
            bare: RawClient::connect(stage.cluster.port(), &parameters),
            status: 'I',
        }
    }

    /// Both are told the same and must give the same answers.
    fn say(&mut self, what: &str, bytes: &[u8]) {
        let (bare, client) = (self.bare.ask(bytes), self.client.ask(bytes));
        // What is reported on the way may be more than changed; where it ends is compared.
        assert_eq!(
            (client.sqlstate(), client.status(), client.rows()),
            (bare.sqlstate(), bare.status(), bare.rows()),
            "{what}"
        );
        if client.sqlstate().is_empty() {
            assert_eq!(client.tag(), bare.tag(), "{what}");
        }
        self.status = bare.status();
        assert_eq!(self.client.parameters, self.bare.parameters, "{what}");
    }

    fn look(&mut self, after: &str) {
        if self.status == 'E' {
            return;
        }
        self.say(&format!("a look after {after}"), &query(LOOK));
        // An unknown name would fail the transaction.
        if self.status == 'I' {
            for name in NAMES {
                let by_sql = format!("EXECUTE {name}");
                self.say(&format!("{by_sql} after {after}"), &query(&by_sql));
            }
        }
    }
}

/// A unit: what it is called, and its bytes.
fn draw(rng: &mut Rng, in_block: bool) -> (String, Vec<u8>) {
    let name = *rng.pick(&NAMES);
    match rng.below(100) {
        0..8 => {
            let sql = *rng.pick(&TEXTS);
            (sql.to_owned(), query(sql))
        }
        8..14 => {
            let sql = format!("SELECT 'by message {}'", rng.below(3));
            let bytes = [parse(name, &sql, &[]), sync()].concat();
            (format!("Parse {name}: {sql}"), bytes)
        }
        14..18 => {
            let bytes = [close(b'S', name), sync()].concat();
            (format!("Close {name}"), bytes)
        }
        18..24 => {
            let bytes = [bind("", name, &[]), execute("", 0), sync()].concat();
            (format!("Bind {name}"), bytes)
        }
        24..28 => {
            let value = format!("bound {}", rng.below(3));
            let sql = "SELECT set_config('app.flag', $1, false)";
            (format!("{sql} {value}"), unit(sql, &[Some(&value)]))
        }
        number => {
            let sql = match number {
                // A block that never ends would keep the others waiting.
                28..46 => *rng.pick(&BLOCKS),
                46..58 if in_block => *rng.pick(&BLOCKS),
                _ => *rng.pick(&STATEMENTS),
            };
            match rng.chance(40) {
                true => (format!("extended {sql}"), unit(sql, &[])),
                false => (sql.to_owned(), query(sql)),
            }
        }
    }
}

#[test]
fn sessions_that_share_servers_are_like_sessions_of_their_own() {
    let seed = paceline_testing::seed();
    let stage = Stage::on_shared()
        .set("default_pool_size=2")
        .set("track_extra_parameters=search_path, role, app.flag")
        .open();
    make_roles(&stage);
    let parameters: [&[(&str, &str)]; 3] = [
        &[],
        &[
            ("application_name", "started so"),
            ("options", "-c statement_timeout=44s -c app.flag=started"),
        ],
        &[("TimeZone", "Europe/Rome"), ("search_path", "mine, public")],
    ];
    let mut pairs = parameters.map(|more| Pair::open(&stage, more));
    let mut rng = Rng::new(seed);
    for step in 0..STEPS {
        // One transaction at a time: the second server is for those who have none.
        let busy = pairs.iter().position(|pair| pair.status != 'I');
        let number = rng.below(pairs.len());
        let in_block = busy == Some(number);
        let (what, bytes) = draw(&mut rng, in_block);
        let begins = what.contains("BEGIN;") || BLOCKS[..2].iter().any(|b| what.ends_with(b));
        // A server that does not have it yet says only that the transaction has failed.
        let incomplete = what == "Bind b" && pairs[number].status == 'E';
        if (begins && busy.is_some()) || incomplete {
            continue;
        }
        let what = format!("step {step}, client {number}: {what}");
        println!("{what}");
        pairs[number].say(&what, &bytes);
        pairs[number].look(&what);
    }
}

/// Roles belong to the whole server, which tests share.
fn make_roles(stage: &Stage) {
    let mut direct = stage.direct();
    for role in ["paceline_history_a", "paceline_history_b"] {
        let made = direct.simple(&format!("CREATE ROLE {role}"));
        assert!(matches!(made.sqlstate().as_str(), "" | "42710" | "23505"));
    }
}
