//! Pipelines without a server: each member has its own Sync, its own answer and its own error.

use crate::strategy::PlannedRequest;
use crate::strategy::Prelude;
use crate::strategy::Strategy;
use crate::testing::fold_statement::single;
use crate::testing::group_run::{GroupRun, line};
use bytes::BytesMut;
use paceline_relay::parsed::{ClientParse, ColumnsId};
use paceline_relay::server::ServerSide;
use paceline_relay::session::ClientSession;
use paceline_relay::settings::SettingsInterner;
use paceline_relay::template::Templates;
use paceline_testing::messages::Wire;
use paceline_testing::messages::client::{
    bind, bind_values, describe_portal, execute, parse, query, sync,
};
use paceline_testing::messages::server::*;

const FIRST: &str = "SELECT a FROM t WHERE id = 1";
const SECOND: &str = "SELECT b FROM t";

struct PipelineFixture {
    templates: Templates,
    session: ClientSession,
    server: ServerSide,
}

impl PipelineFixture {
    fn new() -> Self {
        let none = SettingsInterner::default().none();
        Self {
            templates: Templates::default(),
            session: ClientSession::new(none.clone()),
            server: ServerSide::new(none, 100),
        }
    }

    /// A simple query, an extended request with all messages, and one with only the required messages.
    fn three(&mut self) -> [PlannedRequest; 3] {
        let prepared = self.templates.prepared(SECOND, &[0, 0]);
        self.session.statements.prepare(b"p", prepared);
        let full = [
            parse("", SECOND),
            bind(""),
            describe_portal(),
            execute(),
            sync(),
        ];
        let short = [bind("p"), execute(), sync()];
        [query(FIRST), full.concat(), short.concat()]
            .map(|messages| single(&mut self.session, &self.templates, messages))
    }

    fn leave(&mut self, members: &[PlannedRequest]) -> GroupRun<'_> {
        let prelude = Prelude::new(&self.templates);
        let run = GroupRun::send(Strategy::Pipeline, members, &prelude, &mut self.server);
        run.expect("a pipeline is always built")
    }
}

fn simple_answer() -> Wire {
    [
        columns(&["a"]),
        row(&["1"]),
        complete("SELECT 1"),
        ready('I'),
    ]
    .concat()
}

fn full_answer() -> Wire {
    [
        bound(),
        columns(&["b"]),
        row(&["2"]),
        complete("SELECT 1"),
        ready('I'),
    ]
    .concat()
}

fn short_answer() -> Wire {
    [bound(), row(&["2"]), complete("SELECT 1"), ready('I')].concat()
}

#[test]
fn each_member_has_its_own_sync_and_a_statement_is_prepared_once() {
    let mut fixture = PipelineFixture::new();
    let members = fixture.three();
    let sent = fixture.leave(&members).sent();
    let kinds: Vec<&str> = sent
        .iter()
        .filter_map(|line| line.split(' ').next())
        .collect();
    let expected = [
        "Query", //
        "Parse", "Bind", "Describe", "Execute", "Sync", //
        "Parse", "Bind", "Execute", "Sync",
    ];
    assert_eq!(kinds, expected);
    assert_eq!(sent[0], format!("Query {FIRST}"), "to the letter");
}

#[test]
fn each_answer_is_distributed_when_it_is_complete() {
    let mut fixture = PipelineFixture::new();
    let members = fixture.three();
    let mut run = fixture.leave(&members);
    assert_eq!(
        run.answer([simple_answer()]),
        ["0: columns a, row 1, SELECT 1, ready I"]
    );
    let results = run.answer([parsed(), full_answer()]);
    assert_eq!(
        results,
        ["1: parsed, bound, columns b, row 2, SELECT 1, ready I"]
    );
    assert!(!run.is_over());
    assert_eq!(
        run.answer([parsed(), short_answer()]),
        ["2: bound, row 2, SELECT 1, ready I"]
    );
    assert!(run.is_over() && !run.batch.failed());
}

#[test]
fn a_failed_member_gets_its_error_alone() {
    let mut fixture = PipelineFixture::new();
    let members = fixture.three();
    let mut run = fixture.leave(&members);
    let failed = run.answer([error("22012", "division by zero"), ready('I')]);
    assert_eq!(failed, ["0: retry Alone"]);
    let results = run.answer([parsed(), full_answer(), short_answer()]);
    assert_eq!(results.len(), 2);
    assert!(
        results.iter().all(|line| line.contains("SELECT 1")),
        "{results:?}"
    );
}

#[test]
fn a_failed_parse_prepares_no_statement() {
    let mut fixture = PipelineFixture::new();
    let members = fixture.three();
    let mut run = fixture.leave(&members);
    run.answer([
        simple_answer(),
        error("42703", "no"),
        ready('I'),
        error("26000", "no"),
        ready('I'),
    ]);
    assert!(run.is_over());
    let sent = fixture.leave(&members[2..]).sent();
    assert!(sent[0].starts_with("Parse"), "{sent:?}");
}

#[test]
fn members_behind_a_slow_one_can_be_abandoned() {
    let mut fixture = PipelineFixture::new();
    let members = fixture.three();
    let mut run = fixture.leave(&members);
    run.answer([simple_answer()]);
    let abandoned = run.batch.abandon().expect("reads can be abandoned");
    let lines: Vec<String> = abandoned.iter().map(line).collect();
    assert_eq!(lines, ["1: retry Alone", "2: retry Alone"]);
    assert_eq!(
        run.batch.abandon().map(|results| results.len()),
        Some(0),
        "only once"
    );
    let late = run.answer([parsed(), full_answer(), short_answer()]);
    assert!(late.is_empty(), "they are answered elsewhere: {late:?}");
    assert!(run.is_over());
}

/// The client has prepared the statement on another server, which has described one column to it.
#[test]
fn a_server_describes_the_columns_that_the_client_knows() {
    let mut fixture = PipelineFixture::new();
    let prepared = fixture.templates.prepared(SECOND, &[0, 0]);
    let column = column("b", 25);
    let known = [(&*column.name, column.type_oid, column.type_modifier)];
    let client_parse = ClientParse {
        columns: Some(ColumnsId::of(known.into_iter())),
        ..ClientParse::begun(1, 0)
    };
    let statements = &mut fixture.session.statements;
    statements.parse(b"p", prepared, client_parse);
    let messages = [bind("p"), execute(), sync()].concat();
    let members = [single(&mut fixture.session, &fixture.templates, messages)];
    let kinds = |run: &GroupRun<'_>| {
        let words = run.sent().into_iter();
        words
            .map(|line| line.split(' ').next().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };

    let mut run = fixture.leave(&members);
    assert_eq!(
        kinds(&run),
        ["Parse", "Describe", "Bind", "Execute", "Sync"]
    );
    let described = [parsed(), parameters(&[]), columns(&["b"])].concat();
    let results = run.answer([described, short_answer()]);
    assert_eq!(results, ["0: bound, row 2, SELECT 1, ready I"]);
    let run = fixture.leave(&members);
    assert_eq!(kinds(&run), ["Bind", "Execute", "Sync"]);

    fixture.server.retire_all();
    let mut run = fixture.leave(&members);
    let other = [closed(), parsed(), parameters(&[]), columns(&["c"])].concat();
    let results = run.answer([other, short_answer()]);
    assert_eq!(results, ["0: retry Alone"]);
    let prelude = Prelude::new(&fixture.templates);
    let run = GroupRun::send(Strategy::Pipeline, &members, &prelude, &mut fixture.server);
    assert!(run.is_none(), "the columns are known, and others");
}

#[test]
fn a_failed_bind_keeps_the_parsed_statement() {
    let mut fixture = PipelineFixture::new();
    let members = fixture.three();
    let mut run = fixture.leave(&members[2..]);
    let results = run.answer([parsed(), error("22P02", "no"), ready('I')]);
    assert_eq!(results, ["0: retry Alone"]);
    // The server has the statement now. It is not parsed again unless a client parses it.
    let mut run = fixture.leave(&members[2..]);
    assert!(!run.sent()[0].starts_with("Parse"), "{:?}", run.sent());
    run.answer([error("22P02", "no"), ready('I')]);
    let again = fixture.leave(&members[1..2]).sent();
    assert!(again[0].starts_with("Parse unnamed"), "{again:?}");
}

#[test]
fn identical_reads_are_sent_once() {
    let mut fixture = PipelineFixture::new();
    let [simple, full, short] = fixture.three();
    let [_, again, _] = fixture.three();
    let members = [full.clone(), simple.clone(), again, short, simple, full];
    let mut run = fixture.leave(&members);
    let sent = run.sent();
    let count = |kind: &str| sent.iter().filter(|line| line.starts_with(kind)).count();
    assert_eq!((count("Query"), count("Bind"), count("Sync")), (1, 2, 2));
    let answer = "parsed, bound, columns b, row 2, SELECT 1, ready I";
    let results = run.answer([parsed(), full_answer()]);
    assert_eq!(results, [0, 2, 5].map(|n| format!("{n}: {answer}")));
    let results = run.answer([error("22012", "division by zero"), ready('I')]);
    assert_eq!(results, ["1: retry Alone", "4: retry Alone"]);
    let results = run.answer([parsed(), short_answer()]);
    assert_eq!(results, ["3: bound, row 2, SELECT 1, ready I"]);
    assert!(run.is_over());
}

/// One of two clients has prepared the statement under other settings than those in force. PostgreSQL keeps the meaning of its constants.
#[test]
fn each_client_gets_the_constants_that_its_own_statement_has() {
    let mut fixture = PipelineFixture::new();
    let text = "SELECT b FROM t WHERE at > '2026-01-01'";
    let template = fixture.templates.prepared(text, &[0, 0]);
    let book = SettingsInterner::default();
    let tokyo = paceline_sql::SessionChange::Set {
        name: "timezone".to_owned(),
        sql: "SET timezone = 'Asia/Tokyo'".to_owned(),
    };
    let tokyo = book.after(&book.none(), &book.none(), &tokyo);
    let mut prepared = Vec::new();
    for (now, settings) in [(5, book.none()), (9, tokyo.clone())] {
        fixture.server.settings = settings;
        let statement = (&*template).into();
        let parsed = fixture.server.parse(statement, now, &mut BytesMut::new());
        prepared.push((parsed.key, ClientParse::begun(now, parsed.key.settings())));
    }
    fixture.session.settings = tokyo;
    let ask = |fixture: &mut PipelineFixture, client_parse: &ClientParse| {
        let statements = &mut fixture.session.statements;
        statements.parse(b"p", template.clone(), client_parse.clone());
        let messages = [bind("p"), execute(), sync()].concat();
        single(&mut fixture.session, &fixture.templates, messages)
    };
    for places in [[0, 1, 1], [1, 0, 1]] {
        let members = places.map(|place| ask(&mut fixture, &prepared[place].1));
        let sent = fixture.leave(&members).sent();
        let binds = sent.iter().filter(|line| line.starts_with("Bind"));
        let mut first = places.to_vec();
        first.pop();
        for (line, place) in binds.clone().zip(&first) {
            assert!(line.contains(&prepared[*place].0.name()), "{sent:?}");
        }
        assert_eq!(binds.count(), first.len(), "{sent:?}");
    }
}

/// Paceline parses the statement again; the client got the notices of its own `Parse`.
#[test]
fn a_notice_of_a_statement_that_is_prepared_again_is_dropped() {
    let mut fixture = PipelineFixture::new();
    let [_, full, short] = fixture.three();
    let mut run = fixture.leave(&[short.clone(), full.clone()]);
    let ended = || [row(&["2"]), complete("SELECT 1"), ready('I')].concat();
    let results = run.answer([
        [notice("again"), parsed()].concat(),
        [notice("bind"), bound(), notice("execute"), ended()].concat(),
        [notice("own"), parsed(), notice("bind"), bound(), ended()].concat(),
    ]);
    let expected = [
        "0: notice bind, bound, notice execute, row 2, SELECT 1, ready I",
        "1: notice own, parsed, notice bind, bound, row 2, SELECT 1, ready I",
    ];
    assert_eq!(results, expected);
    let mut run = fixture.leave(&[short, full]);
    let results = run.answer([[notice("bind"), bound(), ended()].concat()]);
    assert_eq!(results, ["0: notice bind, bound, row 2, SELECT 1, ready I"]);
}

#[test]
fn identical_reads_are_sent_each_if_grouping_is_denied() {
    let mut fixture = PipelineFixture::new();
    let [mut simple, ..] = fixture.three();
    simple.is_denied = true;
    let members = [simple.clone(), simple];
    let sent = fixture.leave(&members).sent();
    let queries = sent.iter().filter(|line| line.starts_with("Query"));
    assert_eq!(queries.count(), 2);
}

#[test]
fn other_values_or_formats_make_another_read() {
    let mut fixture = PipelineFixture::new();
    let ask = |fixture: &mut PipelineFixture, value: &'static [u8], results: &[i16]| {
        let messages = [
            parse("", "SELECT b FROM t WHERE id = $1"),
            bind_values("", &[(false, Some(value))], results),
            execute(),
            sync(),
        ];
        single(&mut fixture.session, &fixture.templates, messages.concat())
    };
    let members = [
        ask(&mut fixture, b"1", &[]),
        ask(&mut fixture, b"2", &[]),
        ask(&mut fixture, b"1", &[1]),
        ask(&mut fixture, b"1", &[]),
    ];
    let sent = fixture.leave(&members).sent();
    assert_eq!(sent.iter().filter(|line| *line == "Sync").count(), 3);
}
