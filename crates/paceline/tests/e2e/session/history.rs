//! Generated histories: several clients on two server connections send statements that change a session; each has a bare session
//! of PostgreSQL that gets the same. After every request the two must not differ in anything that follows a client.

mod texts;

use crate::harness::message::{bind, close, execute, parse, query, sync, unit};
use crate::harness::raw::RawClient;
use crate::harness::rng::Rng;
use crate::harness::{Reply, Stage};
use texts::{BLOCKS, LOOK, NAMES, STATEMENTS, TEXTS};

const STEPS: usize = 1_500;

/// A client of Paceline and its double.
struct Pair {
    client: RawClient,
    bare: RawClient,
    /// The last statement of both.
    status: char,
}

impl Pair {
    fn open(stage: &Stage, more: &[(&str, &str)]) -> Self {
        let user = more.iter().find(|(name, _)| *name == "user");
        let mut parameters = vec![("database", stage.database.as_str())];
        parameters.extend(user.is_none().then_some(("user", "postgres")));
        parameters.extend(more);
        Self {
            client: RawClient::connect(stage.port(), &parameters),
            bare: RawClient::connect(stage.cluster.port(), &parameters),
            status: 'I',
        }
    }

    /// Both get the same requests and must give the same answers.
    fn say(&mut self, what: &str, bytes: &[u8]) {
        let (bare, client) = (self.bare.ask(bytes), self.client.ask(bytes));
        // The server may report more than the changed settings; the final values are compared.
        assert_eq!(
            (client.sqlstate(), client.status()),
            (bare.sqlstate(), bare.status()),
            "{what}: {client:?}"
        );
        assert_eq!(differing(&client, &bare), [], "{what}");
        assert!(client.rows() == bare.rows(), "{what}");
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

/// The lines of the first values that differ.
fn differing(client: &Reply, bare: &Reply) -> Vec<(String, String)> {
    let lines = |reply: &Reply| -> Vec<String> {
        let rows = reply.rows();
        let values = rows.iter().flatten().flatten();
        values
            .flat_map(|value| value.lines().map(str::to_owned))
            .collect()
    };
    let pairs = lines(client).into_iter().zip(lines(bare));
    pairs.filter(|(client, bare)| client != bare).collect()
}

/// A unit: its name, and its bytes.
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
    let parameters: [&[(&str, &str)]; 5] = [
        &[],
        &[
            ("application_name", "started so"),
            ("options", "-c statement_timeout=44s -c app.flag=started"),
        ],
        &[("TimeZone", "Europe/Rome"), ("search_path", "mine, public")],
        &[("user", "paceline_history_user")],
        &[
            ("user", "paceline_history_user"),
            ("DateStyle", "dmy"),
            ("options", "-c work_mem=75"),
        ],
    ];
    let mut pairs = parameters.map(|more| Pair::open(&stage, more));
    let mut rng = Rng::new(seed);
    for step in 0..STEPS {
        // One transaction at a time: the second server is for clients without one.
        let busy = pairs.iter().position(|pair| pair.status != 'I');
        let number = rng.below(pairs.len());
        let in_block = busy == Some(number);
        let (what, bytes) = draw(&mut rng, in_block);
        let begins = what.contains("BEGIN;") || BLOCKS[..2].iter().any(|b| what.ends_with(b));
        // A server that does not have it yet reports only that the transaction has failed.
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
    for role in [
        "paceline_history_a",
        "paceline_history_b",
        "paceline_history_super SUPERUSER",
        "paceline_history_user LOGIN IN ROLE paceline_history_a, paceline_history_super",
    ] {
        let made = direct.simple(&format!("CREATE ROLE {role}"));
        assert!(matches!(made.sqlstate().as_str(), "" | "42710" | "23505"));
    }
    direct.ok(
        "CREATE SCHEMA searched; GRANT USAGE ON SCHEMA searched TO PUBLIC; \
        CREATE TEXT SEARCH CONFIGURATION searched.mine (COPY = english)",
    );
}
