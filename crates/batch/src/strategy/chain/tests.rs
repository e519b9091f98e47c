//! Chains without a server: which requests fit, what is sent, and that no member is answered before the commit.

use super::{ChainFacts, Prelude, group_of};
use crate::strategy::Invalidation;
use crate::strategy::PlannedRequest;
use crate::strategy::Strategy;
use crate::template_stats::Fallback;
use crate::testing::fold_statement::{chain_facts, single};
use crate::testing::group_run::GroupRun;
use paceline_relay::parsed::ClientParse;
use paceline_relay::server::ServerSide;
use paceline_relay::session::ClientSession;
use paceline_relay::settings::SettingsInterner;
use paceline_relay::template::Templates;
use paceline_testing::messages::Wire;
use paceline_testing::messages::client::{bind, describe_portal, execute, parse, query, sync};
use paceline_testing::messages::server::*;
use std::sync::Arc;

const INSERT: &str = "INSERT /*+ COMMIT_ON_SUCCESS */ INTO log DEFAULT VALUES RETURNING id";

struct ChainFixture {
    templates: Templates,
    session: ClientSession,
    prelude: Prelude,
    chain_facts: Arc<ChainFacts>,
    server: ServerSide,
}

impl ChainFixture {
    fn new() -> Self {
        let (templates, none) = (Templates::default(), SettingsInterner::default().none());
        Self {
            prelude: Prelude::new(&templates),
            chain_facts: chain_facts(&templates),
            templates,
            session: ClientSession::new(none.clone()),
            server: ServerSide::new(none, 100),
        }
    }

    fn request(&mut self, messages: Wire) -> PlannedRequest {
        let mut request = single(&mut self.session, &self.templates, messages);
        request.chain_facts = Some(Arc::clone(&self.chain_facts));
        request
    }

    fn extended(&mut self, text: &str) -> PlannedRequest {
        self.request(
            [
                parse("", text),
                bind(""),
                describe_portal(),
                execute(),
                sync(),
            ]
            .concat(),
        )
    }

    fn leave(&mut self, members: &[PlannedRequest]) -> GroupRun<'_> {
        let run = GroupRun::send(Strategy::Chain, members, &self.prelude, &mut self.server);
        run.expect("a chain is always built")
    }

    /// Two members by the extended protocol with a simple query between them.
    fn three(&mut self) -> [PlannedRequest; 3] {
        [
            self.extended(INSERT),
            self.request(query("DELETE FROM t WHERE id = 7")),
            self.extended(INSERT),
        ]
    }
}

/// The server's answers up to that of the first member.
fn prelude() -> Wire {
    [
        parsed(),
        notice("SET CONSTRAINTS can only be used in transaction blocks"),
        bound(),
        complete("SET CONSTRAINTS"),
        parsed(),
        bound(),
        row(&["20ms", "200ms"]),
        complete("SELECT 1"),
    ]
    .concat()
}

/// The comparisons succeed, and the transaction is committed.
fn end() -> Wire {
    [
        parsed(),
        bound(),
        row(&["t"]),
        complete("SELECT 1"),
        ready('I'),
    ]
    .concat()
}

#[test]
fn only_requests_known_to_be_short_fit() {
    let mut fixture = ChainFixture::new();
    let request = fixture.extended(INSERT);
    assert_eq!(group_of(&request), None, "not known to be short");
    (0..3).for_each(|_| request.template.pace.record(100, 100));
    assert_eq!(
        group_of(&request).map(|group| group.strategy),
        Some(Strategy::Chain)
    );
    request.template.pace.record(1_000_000, 100);
    assert_eq!(group_of(&request), None, "it has turned out long");
    for text in [
        "UPDATE /*+ COMMIT_ON_SUCCESS TARGET_AFFECT_ROW(1) */ t SET a = 1",
        "INSERT /*+ COMMIT_ON_SUCCESS */ INTO log VALUES ('now')",
    ] {
        let request = fixture.extended(text);
        (0..3).for_each(|_| request.template.pace.record(100, 100));
        assert_eq!(group_of(&request), None, "{text}");
    }
}

#[test]
fn functions_that_may_change_settings_mark_the_server_for_reset() {
    let mut fixture = ChainFixture::new();
    let mut members = fixture.three();
    fixture.leave(&members);
    assert!(!fixture.server.needs_reset);
    members[1].may_change_session = true;
    fixture.leave(&members);
    assert!(fixture.server.needs_reset);
}

/// The functions of the first member may have changed settings that decide the meaning of a statement.
#[test]
fn a_statement_that_is_parsed_after_such_functions_is_not_shared() {
    let mut fixture = ChainFixture::new();
    let template = fixture.templates.prepared(INSERT, &[0, 0]);
    let (statements, mine) = (&mut fixture.session.statements, ClientParse::begun(5, 0));
    statements.parse(b"mine", template, mine);
    let mut members = [
        fixture.extended(INSERT),
        fixture.request([bind("mine"), execute(), sync()].concat()),
    ];
    fixture.leave(&members[..1]);
    let prepared = fixture.server.prepared();
    for (calls, kept) in [([true, false], 0), ([false, true], 1)] {
        for (member, calls) in members.iter_mut().zip(calls) {
            member.may_change_session = calls;
        }
        fixture.leave(&members);
        assert_eq!(fixture.server.prepared(), prepared + kept, "{calls:?}");
    }
}

/// PostgreSQL may analyze it again under the settings that the functions have set.
#[test]
fn a_statement_with_constants_that_is_executed_after_such_functions_is_closed() {
    let mut fixture = ChainFixture::new();
    for (name, text, kept) in [
        ("plain", "DELETE FROM t WHERE id = 7", 1),
        ("constant", "DELETE FROM t WHERE day = 'today'", 0),
    ] {
        let template = fixture.templates.prepared(text, &[]);
        let (statements, mine) = (&mut fixture.session.statements, ClientParse::begun(5, 0));
        statements.parse(name.as_bytes(), template, mine);
        let mut members = [
            fixture.request([bind(name), execute(), sync()].concat()),
            fixture.request([bind(name), execute(), sync()].concat()),
        ];
        fixture.leave(&members[..1]);
        let before = fixture.server.prepared() - 1;
        members[0].may_change_session = true;
        fixture.leave(&members);
        assert_eq!(fixture.server.prepared(), before + kept, "{text}");
    }
}

#[test]
fn one_sync_follows_all_members() {
    let mut fixture = ChainFixture::new();
    let members = fixture.three();
    let sent = fixture.leave(&members).sent();
    let kinds: Vec<&str> = sent
        .iter()
        .filter_map(|line| line.split(' ').next())
        .collect();
    let expected = [
        "Parse", "Bind", "Execute", // constraints
        "Parse", "Bind", "Execute", // lock_timeout
        "Parse", "Bind", "Describe", "Execute", //
        "Parse", "Bind", "Describe", "Execute", //
        "Parse", "Bind", "Describe", "Execute", //
        "Parse", "Bind", "Execute", // what it relies on
        "Sync",
    ];
    assert_eq!(kinds, expected);
    assert!(sent[0].contains("SET CONSTRAINTS ALL IMMEDIATE"));
    assert!(sent[3].contains("lock_timeout"), "{}", sent[3]);
    assert_eq!(
        sent[10], "Parse unnamed: DELETE FROM t WHERE id = 7",
        "its own text"
    );
    assert!(sent[18].contains("paceline: moved"), "once for all");
}

#[test]
fn each_member_gets_its_own_answer_after_the_commit() {
    let mut fixture = ChainFixture::new();
    let members = fixture.three();
    let mut run = fixture.leave(&members);
    let insert = |id| {
        [
            bound(),
            columns(&["id"]),
            row(&[id]),
            complete("INSERT 0 1"),
        ]
        .concat()
    };
    let answers = [
        prelude(),
        parsed(),
        insert("1"),
        parsed(),
        [bound(), no_data(), complete("DELETE 1")].concat(),
        parsed(),
        insert("2"),
    ];
    assert!(
        run.answer(answers).is_empty(),
        "no member is answered before the commit"
    );
    let results = run.answer([end()]);
    let expected = [
        "0: parsed, bound, columns id, row 1, INSERT 0 1, ready I",
        "1: DELETE 1, ready I",
        "2: parsed, bound, columns id, row 2, INSERT 0 1, ready I",
    ];
    assert_eq!(results, expected);
    assert!(run.is_over() && !run.batch.failed());
}

#[test]
fn an_error_undoes_the_chain_and_its_halves_are_retried() {
    let mut fixture = ChainFixture::new();
    let members = fixture.three();
    let mut run = fixture.leave(&members);
    run.answer([
        prelude(),
        parsed(),
        bound(),
        columns(&["id"]),
        row(&["1"]),
        complete("INSERT 0 1"),
    ]);
    let results = run.answer([error("23505", "duplicate key"), ready('I')]);
    assert_eq!(
        results,
        [
            "0: retry FirstHalf",
            "1: retry FirstHalf",
            "2: retry SecondHalf"
        ]
    );
    assert!(run.batch.failed());
    // Statements that the server skipped are prepared the next time. Here, it has prepared the only one: the chain's own.
    let sent = fixture.leave(&members).sent();
    assert!(
        [0, 2].iter().all(|at| sent[*at].starts_with("Bind")),
        "{sent:?}"
    );
}

#[test]
fn changed_facts_undo_the_chain() {
    let mut fixture = ChainFixture::new();
    let members = [
        fixture.request(query("DELETE FROM t")),
        fixture.request(query("DELETE FROM s")),
    ];
    let one = || [parsed(), bound(), no_data(), complete("DELETE 1")].concat();
    let changed = "invalid input syntax for type boolean: \"paceline: moved: false\"";
    let mut run = fixture.leave(&members);
    let answers = [
        prelude(),
        one(),
        one(),
        parsed(),
        bound(),
        error("22P02", changed),
        ready('I'),
    ];
    let results = run.answer(answers);
    assert_eq!(results, ["0: retry Alone", "1: retry Alone"]);
    assert_eq!(run.retried, [(0, Fallback::Ddl), (1, Fallback::Ddl)]);
    assert_eq!(run.batch.invalidation(), Some(Invalidation::Changed));
    // The same message from a member is the member's own error.
    let mut run = fixture.leave(&members);
    let results = run.answer([
        bound(),
        complete("SET CONSTRAINTS"),
        bound(),
        complete("SELECT 1"),
        parsed(),
        bound(),
        error("22P02", changed),
        ready('I'),
    ]);
    assert_eq!(results, ["0: retry FirstHalf", "1: retry SecondHalf"]);
    assert!(run.batch.invalidation().is_none());
}

#[test]
fn a_request_without_chain_facts_joins_no_chain() {
    let mut fixture = ChainFixture::new();
    let mut members = fixture.three();
    members[2].chain_facts = None;
    let ChainFixture {
        prelude, server, ..
    } = &mut fixture;
    assert!(GroupRun::send(Strategy::Chain, &members, prelude, server).is_none());
}

#[test]
fn after_a_time_out_each_member_is_executed_alone() {
    for sqlstate in ["55P03", "57014", "40P01"] {
        let mut fixture = ChainFixture::new();
        let members = fixture.three();
        let mut run = fixture.leave(&members);
        let results = run.answer([prelude(), parsed(), error(sqlstate, "waited"), ready('I')]);
        assert_eq!(
            results,
            ["0: retry Alone", "1: retry Alone", "2: retry Alone"]
        );
    }
}

#[test]
fn a_statement_that_the_server_skipped_is_parsed_again() {
    let mut fixture = ChainFixture::new();
    let members = fixture.three();
    let mut run = fixture.leave(&members);
    run.answer([parsed(), error("42501", "no"), ready('I')]);
    let sent = fixture.leave(&members).sent();
    assert!(
        sent[0].starts_with("Bind") && sent[2].starts_with("Parse"),
        "{sent:?}"
    );
}

#[test]
fn notices_of_members_are_sent_and_those_of_the_chain_are_not() {
    let mut fixture = ChainFixture::new();
    let members = [fixture.extended("DELETE FROM t")];
    let mut run = fixture.leave(&members);
    let results = run.answer([
        notice("of the chain"),
        prelude(),
        parsed(),
        bound(),
        no_data(),
        notice("of the member"),
        complete("DELETE 1"),
        end(),
    ]);
    assert_eq!(
        results,
        ["0: parsed, bound, no data, notice of the member, DELETE 1, ready I"]
    );
}

#[test]
fn a_notice_between_two_answers_belongs_to_the_second() {
    let mut fixture = ChainFixture::new();
    let members = [
        fixture.request(query("DELETE FROM t")),
        fixture.request(query("DELETE FROM s")),
    ];
    let mut run = fixture.leave(&members);
    let one = [parsed(), bound(), no_data(), complete("DELETE 1")].concat();
    let two = [
        parsed(),
        notice("of the second"),
        bound(),
        no_data(),
        complete("DELETE 2"),
    ]
    .concat();
    let results = run.answer([prelude(), one, two, end()]);
    assert_eq!(
        results,
        [
            "0: DELETE 1, ready I",
            "1: notice of the second, DELETE 2, ready I"
        ]
    );
}

/// Paceline parses the statements of two members again; these clients got the notices of their own `Parse`.
#[test]
fn a_notice_of_a_statement_that_is_prepared_again_is_dropped() {
    let mut fixture = ChainFixture::new();
    let delete = "DELETE /*+ COMMIT_ON_SUCCESS */ FROM t WHERE id = 7";
    for (name, text) in [("p", INSERT), ("q", delete)] {
        let template = fixture.templates.prepared(text, &[0, 0]);
        let mine = ClientParse::begun(5, 0);
        let statements = &mut fixture.session.statements;
        statements.parse(name.as_bytes(), template, mine);
    }
    let mut named = |name| fixture.request([bind(name), execute(), sync()].concat());
    let (insert, delete) = (named("p"), named("q"));
    let unnamed = fixture.request([parse("", INSERT), bind(""), execute(), sync()].concat());
    let executed = |command| {
        let notices = [notice("bind"), bound(), notice("execute")];
        [notices.concat(), complete(command)].concat()
    };
    let mut run = fixture.leave(&[insert.clone(), unnamed]);
    let results = run.answer([
        prelude(),
        [notice("again"), parsed(), executed("INSERT 0 1")].concat(),
        [notice("own"), parsed(), executed("INSERT 0 1")].concat(),
        end(),
    ]);
    let answer = "notice bind, bound, notice execute, INSERT 0 1, ready I";
    let own = "notice own, parsed, notice bind, bound, notice execute, INSERT 0 1, ready I";
    assert_eq!(results, [format!("0: {answer}"), format!("1: {own}")]);

    // The server has the first statement, and the chain parses the second one.
    let mut run = fixture.leave(&[insert, delete]);
    let known = |messages: Wire| messages[parsed().len()..].to_vec();
    let prelude = [
        bound(),
        complete("SET CONSTRAINTS"),
        bound(),
        row(&["20ms", "200ms"]),
        complete("SELECT 1"),
    ];
    let results = run.answer([
        prelude.concat(),
        executed("INSERT 0 1"),
        [notice("again"), parsed(), executed("DELETE 1")].concat(),
        known(end()),
    ]);
    let deleted = answer.replace("INSERT 0 1", "DELETE 1");
    assert_eq!(results, [format!("0: {answer}"), format!("1: {deleted}")]);
}
