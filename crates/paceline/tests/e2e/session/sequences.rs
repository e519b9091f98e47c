//! `lastval()` and `currval()`: a client reads the number that it has drawn itself, or PostgreSQL's 55000, never another
//! client's number, whatever draws and whatever reads: texts, defaults, triggers, functions, views.

mod transactions;

use crate::harness::message::{
    bind, close, execute, flush, function_call, parse, query, sync, unit,
};
use crate::harness::raw::RawClient;
use crate::harness::rng::Rng;
use crate::harness::stage::Target;
use crate::harness::{Gate, Reply, Stage};
use std::collections::BTreeMap;

const STEPS: usize = 600;

/// `lastval is not yet defined in this session`
const UNDEFINED: &str = "55000";

const TABLES: &str = "CREATE TABLE a (id serial PRIMARY KEY, n int); \
    CREATE TABLE quiet (id int, n int); \
    CREATE SEQUENCE hidden; \
    CREATE TABLE logged (n int, number bigint); \
    CREATE FUNCTION numbers() RETURNS trigger LANGUAGE plpgsql AS \
      $$ BEGIN NEW.number := nextval('hidden'); RETURN NEW; END $$; \
    CREATE TRIGGER numbers BEFORE INSERT ON logged FOR EACH ROW EXECUTE FUNCTION numbers(); \
    CREATE FUNCTION draws() RETURNS bigint LANGUAGE sql AS $$ SELECT nextval('hidden') $$; \
    CREATE VIEW drawing AS SELECT nextval('hidden') AS number; \
    CREATE FUNCTION reads() RETURNS bigint LANGUAGE sql AS $$ SELECT lastval() $$; \
    CREATE VIEW reading AS SELECT lastval() AS number; \
    CREATE TABLE child (parent bigint DEFAULT currval('a_id_seq'), n int); \
    CREATE TABLE stamped (n int, number bigint); \
    CREATE FUNCTION stamps() RETURNS trigger LANGUAGE plpgsql AS \
      $$ BEGIN NEW.number := lastval(); RETURN NEW; END $$; \
    CREATE TRIGGER stamps BEFORE INSERT ON stamped FOR EACH ROW EXECUTE FUNCTION stamps(); \
    CREATE DOMAIN numbered AS bigint CHECK (lastval() > 0); \
    CREATE TABLE secured (n int); \
    INSERT INTO secured VALUES (1); \
    ALTER TABLE secured ENABLE ROW LEVEL SECURITY; \
    ALTER TABLE secured FORCE ROW LEVEL SECURITY; \
    CREATE POLICY numbered ON secured USING (lastval() > 0); \
    GRANT ALL ON ALL TABLES IN SCHEMA public TO PUBLIC; \
    GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO PUBLIC;";

fn stage(servers: usize) -> Stage {
    let stage = Stage::on_shared()
        .set(&format!("default_pool_size={servers}"))
        .set("hotspot_for_autocommit=true")
        .open();
    stage.direct().ok(TABLES);
    stage
}

/// Statements that draw a number; not all of their texts show it.
const DRAWS: [&str; 8] = [
    "INSERT INTO a (n) VALUES (1)",
    "INSERT INTO logged (n) VALUES (1)",
    "SELECT nextval('hidden')",
    "SELECT draws()",
    "SELECT * FROM drawing",
    "DO $$ BEGIN PERFORM nextval('hidden'); END $$",
    "BEGIN; INSERT INTO a (n) VALUES (1); COMMIT",
    "SELECT setval('hidden', 5)",
];

/// Statements that read the last number.
const READS: [&str; 9] = [
    "SELECT lastval()",
    "SELECT reads()",
    "SELECT * FROM reading",
    "INSERT INTO stamped (n) VALUES (1) RETURNING number",
    "INSERT INTO stamped (n) SELECT n FROM quiet LIMIT 1",
    "SELECT 1; SELECT lastval()",
    "DO $$ BEGIN PERFORM lastval(); END $$",
    "SELECT 1::numbered",
    "COPY (SELECT lastval()) TO STDOUT",
];

/// Nothing but PostgreSQL's own 55000 is the answer to a client that has drawn nothing.
fn check_reads(what: &str, client: &mut RawClient) {
    for read in READS {
        for bytes in [query(read), unit(read, &[])] {
            let reply = client.ask(&bytes);
            // Several statements cannot be prepared.
            if reply.sqlstate() != "42601" {
                assert_eq!(
                    reply.sqlstate(),
                    UNDEFINED,
                    "{read} after {what}: {reply:?}"
                );
            }
        }
    }
}

#[test]
fn no_client_reads_a_number_that_another_has_drawn() {
    let stage = stage(1);
    stage.direct().ok("INSERT INTO quiet VALUES (1, 1)");
    let (mut drawing, mut reading) = (stage.client(), stage.client());
    for draw in DRAWS {
        drawing.ok(draw);
        check_reads(draw, &mut reading);
        drawing.ok(draw);
        for begin in ["BEGIN", "START TRANSACTION READ ONLY"] {
            reading.ok(begin);
            reading.ok("SELECT * FROM quiet");
            let read = reading.simple("SELECT lastval()");
            assert_eq!(read.sqlstate(), UNDEFINED, "in a transaction after {draw}");
            reading.ok("ROLLBACK");
            drawing.ok(draw);
        }
    }
}

/// Statements that were analyzed take other paths than those that were not.
#[test]
fn no_client_reads_a_number_of_another_after_the_analysis() {
    let stage = stage(1);
    stage.direct().ok("INSERT INTO quiet VALUES (1, 1)");
    let (mut drawing, mut reading) = (stage.client(), stage.client());
    for _ in 0..6 {
        for draw in DRAWS {
            drawing.ok(draw);
        }
        for read in READS {
            let _ = reading.simple(read);
        }
    }
    for draw in DRAWS {
        drawing.ok(draw);
        check_reads(draw, &mut reading);
    }
}

/// PostgreSQL reads lastval() although no client's text shows it; policies apply to the role.
#[test]
fn a_policy_reads_no_number_of_others() {
    let stage = stage(1);
    let mut direct = stage.direct();
    let made = direct.simple("CREATE ROLE paceline_sequences");
    assert!(matches!(made.sqlstate().as_str(), "" | "42710" | "23505"));
    let (mut drawing, mut reading) = (stage.client(), stage.client());
    reading.ok("SET ROLE paceline_sequences");
    for _ in 0..3 {
        drawing.ok("SELECT nextval('hidden')");
        let read = reading.simple("SELECT * FROM secured");
        assert_eq!(read.sqlstate(), UNDEFINED);
    }
}

#[test]
fn a_transaction_reads_its_own_number_or_none() {
    let stage = stage(1);
    let (mut client, mut neighbour) = (stage.client(), stage.client());
    for extended in [false, true] {
        for round in 0..4 {
            let mut say = |sql: &str| match extended {
                true => client.ask(&unit(sql, &[])),
                false => client.simple(sql),
            };
            neighbour.ok("INSERT INTO a (n) VALUES (1)");
            say("BEGIN").expect_ok("begin");
            let own = say("INSERT INTO a (n) VALUES (2) RETURNING id").value();
            assert_eq!(say("SELECT lastval()").value(), own, "round {round}");
            assert_eq!(say("SELECT currval('a_id_seq')").value(), own);
            assert_eq!(
                say("INSERT INTO child (n) VALUES (1) RETURNING parent").value(),
                own
            );
            say("COMMIT").expect_ok("commit");
            neighbour.ok("INSERT INTO a (n) VALUES (1)");
            say("BEGIN").expect_ok("begin");
            say("INSERT INTO quiet VALUES (1, 1)").expect_ok("insert");
            assert_own_or_none(&say("SELECT lastval()"), &own);
            say("ROLLBACK").expect_ok("rollback");
            neighbour.ok("INSERT INTO a (n) VALUES (1)");
        }
    }
}

/// Accepts the own number or none: the client has drawn this number last, but its server connection may have served others since.
fn assert_own_or_none(read: &Reply, own: &str) {
    match read.sqlstate().as_str() {
        "" => assert_eq!(read.value(), own),
        state => assert_eq!(state, UNDEFINED),
    }
}

/// A unit is a transaction, however it is sent.
#[test]
fn several_statements_of_one_unit_read_their_own_number() {
    let stage = stage(1);
    let (mut client, mut neighbour) = (stage.client(), stage.client());
    for _ in 0..3 {
        neighbour.ok("INSERT INTO a (n) VALUES (1)");
        let text = "INSERT INTO a (n) VALUES (2) RETURNING id; SELECT lastval()";
        assert_own(&client.simple(text));
        neighbour.ok("INSERT INTO a (n) VALUES (1)");
        let insert = [
            parse("", "INSERT INTO a (n) VALUES (2) RETURNING id", &[]),
            bind("", "", &[]),
            execute("", 0),
        ];
        let read = [
            parse("", "SELECT lastval()", &[]),
            bind("", "", &[]),
            execute("", 0),
        ];
        assert_own(&client.ask(&[insert.concat(), read.concat(), sync()].concat()));
        neighbour.ok("INSERT INTO a (n) VALUES (1)");
        // The first statement is out before the second one is known.
        client.send(&[insert.concat(), flush()].concat());
        let first = client.receive_until(b"C");
        client.send(&[read.concat(), sync()].concat());
        let second = client.reply();
        assert_own(&Reply(first.into_iter().chain(second.0).collect()));
    }
}

/// The first row of the first statement is the first row of the second one.
fn assert_own(reply: &Reply) {
    let rows = reply.clone().expect_ok("both").rows();
    assert_eq!(rows.len(), 2, "{reply:?}");
    assert_eq!(rows[0], rows[1]);
}

#[test]
fn a_client_alone_keeps_its_numbers() {
    let stage = stage(1);
    let mut client = stage.client();
    // The first ones are analysed meanwhile.
    for _ in 0..6 {
        let own = client.value("INSERT INTO a (n) VALUES (1) RETURNING id");
        assert_eq!(client.value("SELECT lastval()"), own);
        assert_eq!(client.value("SELECT * FROM reading"), own);
        let own = client.value("SELECT draws()");
        assert_eq!(client.value("SELECT lastval()"), own);
        client.ok("SET statement_timeout = '1min'");
        assert_eq!(client.value("SELECT reads()"), own);
        client.ok("RESET statement_timeout");
        stage.await_analysis();
    }
    client.ok("DISCARD SEQUENCES");
    assert_eq!(client.simple("SELECT lastval()").sqlstate(), UNDEFINED);
    let own = client.value("INSERT INTO a (n) VALUES (1) RETURNING id");
    assert_eq!(client.value("SELECT lastval()"), own);
    client.ok("DISCARD ALL");
    assert_eq!(client.simple("SELECT lastval()").sqlstate(), UNDEFINED);
}

/// An own number that another one has followed, on another server connection, is as wrong as another client's.
#[test]
fn a_client_does_not_read_an_earlier_number_of_its_own() {
    let stage = stage(2);
    if stage.target() == Target::Bare {
        return;
    }
    let (mut client, mut neighbour) = (stage.client(), stage.client());
    let process = |client: &mut RawClient| client.value("SELECT pg_backend_pid()");
    let insert = "INSERT INTO a (n) VALUES (1) RETURNING id, pg_backend_pid()";
    client.ok(insert);
    process(&mut client);
    stage.await_analysis();
    let draw = |client: &mut RawClient| {
        let row = client.ok(insert).rows().remove(0);
        <[Option<String>; 2]>::try_from(row)
            .unwrap()
            .map(Option::unwrap)
    };
    let [first, home] = draw(&mut client);
    neighbour.ok("BEGIN");
    assert_eq!(process(&mut neighbour), home, "used last, taken first");
    let [second, elsewhere] = draw(&mut client);
    assert_ne!(elsewhere, home);
    neighbour.ok("ROLLBACK");
    assert_eq!(process(&mut client), home);
    assert_ne!(first, second);
    assert_own_or_none(&client.simple("SELECT lastval()"), &second);
}

/// The request in front of the gate makes those behind it a group.
#[test]
fn no_client_reads_what_a_group_has_drawn() {
    let stage = stage(1);
    let mut clients = stage.clients(9);
    let insert = unit("INSERT INTO a (n) VALUES (3) RETURNING id", &[]);
    for client in &mut clients {
        client.ask(&insert).expect_ok("insert");
        stage.await_analysis();
    }
    let mut gate = Gate::close(&stage);
    for client in &mut clients {
        gate.submit(client, &insert);
    }
    gate.open();
    let own: Vec<String> = clients
        .iter_mut()
        .map(|client| client.reply().value())
        .collect();
    stage.assert_grouped(9, 9);
    for (client, own) in clients.iter_mut().zip(own) {
        client.ok("BEGIN");
        assert_own_or_none(&client.simple("SELECT lastval()"), &own);
        client.ok("ROLLBACK");
    }
}

/// Each would read the number that the one before it has drawn.
#[test]
fn inserts_whose_defaults_or_checks_read_numbers_do_not_group() {
    let stage = stage(1);
    stage.direct().ok(
        "CREATE DOMAIN parented AS bigint DEFAULT currval('a_id_seq'); \
        CREATE TABLE by_domain (parent parented, n int); \
        CREATE TABLE by_check (id bigserial, n int CHECK (lastval() > 0)); \
        CREATE TABLE by_domain_check (id bigserial, n numbered)",
    );
    for (table, column) in [
        ("child", "parent"),
        ("by_domain", "parent"),
        ("by_check", "n"),
        ("by_domain_check", "n"),
    ] {
        let mut clients = stage.clients(5);
        let insert = format!("INSERT INTO {table} (n) VALUES (1) RETURNING {column}");
        for _ in 0..4 {
            clients[0].ok("BEGIN");
            clients[0].ok("INSERT INTO a (n) VALUES (1)");
            clients[0].ok(&insert);
            clients[0].ok("COMMIT");
            let _ = clients[0].ask(&unit(&insert, &[]));
            stage.await_analysis();
        }
        let before = stage.counters().members;
        let mut gate = Gate::close(&stage);
        for client in &mut clients[1..] {
            gate.submit(client, &unit(&insert, &[]));
        }
        gate.open();
        for client in &mut clients[1..] {
            client.reply();
        }
        assert_eq!(stage.counters().members, before, "{table}");
    }
}

/// A hint lets writes share a transaction whatever their triggers do.
#[test]
fn a_member_of_a_chain_reads_no_number_of_another_one() {
    let stage = stage(1);
    stage
        .direct()
        .ok("CREATE TABLE seldom (n int, number bigint); \
        CREATE FUNCTION seldom() RETURNS trigger LANGUAGE plpgsql AS \
          $$ BEGIN IF NEW.n > 5 THEN NEW.number := lastval(); END IF; RETURN NEW; END $$; \
        CREATE TRIGGER seldom BEFORE INSERT ON seldom FOR EACH ROW EXECUTE FUNCTION seldom()");
    let draws = "INSERT /*+ COMMIT_ON_SUCCESS */ INTO logged (n) VALUES ($1)";
    let reads = "INSERT /*+ COMMIT_ON_SUCCESS */ INTO seldom (n) VALUES ($1) RETURNING number";
    let mut clients = stage.clients(6);
    for _ in 0..5 {
        for sql in [draws, reads] {
            clients[0].ask(&unit(sql, &[Some("1")])).expect_ok(sql);
            stage.await_analysis();
        }
    }
    let mut gate = Gate::close(&stage);
    for (number, client) in clients.iter_mut().enumerate() {
        let sql = if number % 2 == 0 { draws } else { reads };
        gate.submit(client, &unit(sql, &[Some("9")]));
    }
    gate.open();
    for (number, client) in clients.iter_mut().enumerate() {
        let reply = client.reply();
        let expected = if number % 2 == 0 { "" } else { UNDEFINED };
        assert_eq!(reply.sqlstate(), expected, "{reply:?}");
    }
}

/// A client and the number that it must read.
struct Model {
    client: RawClient,
    /// By sequence; "" is the last of all.
    own: BTreeMap<&'static str, String>,
    /// Those that it has drawn since its transaction began.
    fresh: Vec<&'static str>,
    status: char,
}

const A: &str = "a_id_seq";
const HIDDEN: &str = "hidden";

/// Statements that draw from a sequence and return the number, with the name of the sequence.
const NUMBERED: [(&str, &str); 6] = [
    ("INSERT INTO a (n) VALUES (1) RETURNING id", A),
    ("INSERT INTO a (n) SELECT 2 RETURNING id", A),
    ("INSERT INTO logged (n) VALUES (1) RETURNING number", HIDDEN),
    ("SELECT draws()", HIDDEN),
    ("SELECT nextval('hidden')", HIDDEN),
    ("SELECT number FROM drawing", HIDDEN),
];

/// Statements that read the last number of a sequence, with the name of the sequence.
const READ: [(&str, &str); 7] = [
    ("SELECT lastval()", ""),
    ("SELECT reads()", ""),
    ("SELECT number FROM reading", ""),
    ("INSERT INTO stamped (n) VALUES (1) RETURNING number", ""),
    ("SELECT currval('a_id_seq')", A),
    ("INSERT INTO child (n) VALUES (1) RETURNING parent", A),
    ("SELECT currval('hidden')", HIDDEN),
];

const OTHER: [&str; 8] = [
    "SELECT 1",
    "SELECT * FROM quiet",
    "INSERT INTO quiet VALUES (1, 1)",
    "UPDATE quiet SET n = n + 1 WHERE id = 9",
    "SET application_name = 'one'",
    "RESET ALL",
    "SELECT count(*) FROM a",
    "SHOW application_name",
];

impl Model {
    fn say(&mut self, sql: &str, extended: bool) -> Reply {
        let reply = match extended {
            true => self.client.ask(&unit(sql, &[])),
            false => self.client.simple(sql),
        };
        self.status = reply.status();
        if self.status == 'I' {
            self.fresh.clear();
        }
        reply
    }

    fn draw(&mut self, (sql, sequence): (&str, &'static str), extended: bool) {
        let reply = self.say(sql, extended);
        if reply.sqlstate().is_empty() {
            for name in [sequence, ""] {
                self.own.insert(name, reply.value());
                if self.status == 'T' {
                    self.fresh.push(name);
                }
            }
        }
    }

    fn read(&mut self, (sql, sequence): (&str, &'static str), extended: bool) {
        let must = self.fresh.contains(&sequence);
        let failed = self.status == 'E';
        let reply = self.say(sql, extended);
        match reply.sqlstate().as_str() {
            "" => assert_eq!(Some(&reply.value()), self.own.get(sequence), "{sql}"),
            UNDEFINED if !must => {}
            "25P02" if failed => {}
            other => panic!("{sql}: {other}"),
        }
    }

    fn step(&mut self, rng: &mut Rng, may_begin: bool) {
        let extended = rng.chance(40);
        match rng.below(100) {
            0..30 => self.draw(*rng.pick(&NUMBERED), extended),
            30..65 => self.read(*rng.pick(&READ), extended),
            65..78 => {
                let sql = *rng.pick(&OTHER);
                self.say(sql, extended);
            }
            78..80 if self.status == 'I' => {
                let sql = *rng.pick(&["DISCARD SEQUENCES", "DISCARD ALL"]);
                self.say(sql, extended).expect_ok(sql);
                self.own.clear();
            }
            _ if self.status == 'I' && may_begin => drop(self.say("BEGIN", extended)),
            _ if self.status != 'I' => {
                let sql = *rng.pick(&["COMMIT", "ROLLBACK"]);
                self.say(sql, extended);
            }
            _ => {}
        }
    }
}

#[test]
fn no_history_reads_a_wrong_number() {
    let seed = paceline_testing::seed();
    let stage = stage(2);
    let mut rng = Rng::new(seed);
    let mut models: Vec<Model> = (0..4)
        .map(|_| Model {
            client: stage.client(),
            own: BTreeMap::new(),
            fresh: Vec::new(),
            status: 'I',
        })
        .collect();
    for _ in 0..STEPS {
        // One transaction at a time: the second server is for clients without one.
        let busy = models.iter().position(|model| model.status != 'I');
        let number = rng.below(models.len());
        models[number].step(&mut rng, busy.is_none());
    }
}

/// Names of statements and the protocol's own call of a function are other ways to the same.
#[test]
fn neither_a_prepared_statement_nor_a_function_call_reads_others_numbers() {
    let stage = stage(1);
    let (mut drawing, mut reading) = (stage.client(), stage.client());
    reading.ok("PREPARE p AS SELECT lastval()");
    let named = [parse("m", "SELECT reads()", &[]), sync()].concat();
    reading.ask(&named).expect_ok("parse");
    let lastval: u32 = reading
        .value("SELECT 'pg_catalog.lastval()'::regprocedure::oid")
        .parse()
        .unwrap();
    let asked: [Vec<u8>; 4] = [
        query("EXECUTE p"),
        query("EXPLAIN ANALYZE EXECUTE p"),
        [bind("", "m", &[]), execute("", 0), sync()].concat(),
        function_call(lastval, &[]),
    ];
    for _ in 0..4 {
        for bytes in &asked {
            drawing.ok("INSERT INTO a (n) VALUES (1)");
            assert_eq!(reading.ask(bytes).sqlstate(), UNDEFINED, "{bytes:?}");
        }
    }
    reading
        .ask(&[close(b'S', "m"), sync()].concat())
        .expect_ok("close");
}
