//! Shared reads without a server: which reads are identical, one execution, the same bytes for all members, and an answer that
//! becomes too long.

use super::{ANSWER_BYTES_MAX, group_of};
use crate::analysis::TemplateAnalysis;
use crate::line::GroupId;
use crate::policy::{Permission, Policy};
use crate::strategy::Prelude;
use crate::strategy::Strategy;
use crate::strategy::{MemberOutcome, PlannedRequest};
use crate::testing::fold_statement::single;
use crate::testing::group_run::GroupRun;
use bytes::BytesMut;
use paceline_relay::parsed::ClientParse;
use paceline_relay::server::{PrimaryColumns, ServerSide};
use paceline_relay::session::ClientSession;
use paceline_relay::settings::SettingsInterner;
use paceline_relay::template::Templates;
use paceline_testing::messages::Wire;
use paceline_testing::messages::client::{
    bind_values, describe_portal, execute, parse, query, sync,
};
use paceline_testing::messages::server::*;
use paceline_testing::read_out;
use paceline_wire::Frames;
use paceline_wire::backend::{Field, write_fields};
use std::sync::Arc;

const TEXT: &str = "SELECT b FROM t WHERE id = $1";
const ANSWER: &str = "parsed, bound, columns b, row 2, SELECT 1, ready I";

struct ShareFixture {
    templates: Templates,
    session: ClientSession,
    server: ServerSide,
}

/// The form of a request: its text, its value and format, its result formats, whether it has a `Describe`.
#[derive(Clone, Copy)]
struct Ask<'a>(&'a str, &'a [u8], bool, &'a [i16], bool);

const PLAIN: Ask<'_> = Ask(TEXT, b"1", false, &[], true);

impl ShareFixture {
    fn new() -> Self {
        let none = SettingsInterner::default().none();
        Self {
            templates: Templates::default(),
            session: ClientSession::new(none.clone()),
            server: ServerSide::new(none, 100),
        }
    }

    fn ask(&mut self, Ask(text, value, binary, results, describe): Ask<'_>) -> PlannedRequest {
        let describe = match describe {
            true => describe_portal(),
            false => Wire::new(),
        };
        let bind = bind_values("", &[(binary, Some(value))], results);
        let messages = [parse("", text), bind, describe, execute(), sync()];
        single(&mut self.session, &self.templates, messages.concat())
    }

    fn query(&mut self, text: &str) -> PlannedRequest {
        single(&mut self.session, &self.templates, query(text))
    }

    fn leave(&mut self, members: &[PlannedRequest]) -> Option<GroupRun<'_>> {
        let prelude = Prelude::new(&self.templates);
        GroupRun::send(Strategy::Share, members, &prelude, &mut self.server)
    }

    fn duplicates(&mut self, count: usize) -> GroupRun<'_> {
        let members: Vec<PlannedRequest> = (0..count).map(|_| self.ask(PLAIN)).collect();
        self.leave(&members).expect("duplicates share a group")
    }
}

fn group(request: &PlannedRequest) -> GroupId {
    group_of(request).expect("a plain read may be shared")
}

fn begun() -> Wire {
    [parsed(), bound(), columns(&["b"]), row(&["2"])].concat()
}

fn ended() -> Wire {
    [complete("SELECT 1"), ready('I')].concat()
}

#[test]
fn only_identical_reads_are_shared() {
    let mut fixture = ShareFixture::new();
    let plain = fixture.ask(PLAIN);
    let same = fixture.ask(PLAIN);
    assert_eq!(group(&plain), group(&same));
    let others = [
        Ask("SELECT c FROM t WHERE id = $1", b"1", false, &[], true),
        Ask(TEXT, b"2", false, &[], true),
        Ask(TEXT, b"1", true, &[], true),
        Ask(TEXT, b"1", false, &[1], true),
        Ask(TEXT, b"1", false, &[], false),
    ];
    for other in others {
        let other = fixture.ask(other);
        assert_ne!(group(&plain), group(&other));
        let together = fixture.leave(&[plain.clone(), other]);
        assert!(together.is_none(), "even if their hashes were the same");
    }
}

#[test]
fn texts_settings_and_protocols_distinguish_reads() {
    let mut fixture = ShareFixture::new();
    let texts = [
        "SELECT b FROM t WHERE id = 1",
        "SELECT b FROM t WHERE id = 2",
    ];
    let [one, two] = texts.map(|text| group(&fixture.query(text)));
    assert_ne!(one, two, "literals are values");
    assert_eq!(one, group(&fixture.query(texts[0])));
    let utc = paceline_sql::SessionChange::Set {
        name: "timezone".to_owned(),
        sql: "SET timezone = 'UTC'".to_owned(),
    };
    let book = SettingsInterner::default();
    let base = book.none();
    fixture.session.settings = book.after(&base, &base, &utc);
    assert_ne!(one, group(&fixture.query(texts[0])));
}

#[test]
fn a_template_with_a_too_long_answer_is_not_shared() {
    let mut fixture = ShareFixture::new();
    let request = fixture.ask(PLAIN);
    request
        .template
        .pace
        .record(1, u32::try_from(ANSWER_BYTES_MAX).unwrap());
    assert!(group_of(&request).is_some());
    request
        .template
        .pace
        .record(1, u32::try_from(ANSWER_BYTES_MAX + 1).unwrap());
    assert_eq!(group_of(&request), None);
}

#[test]
fn a_plain_read_is_shared_until_it_is_known_to_be_short() {
    let mut fixture = ShareFixture::new();
    let mut request = fixture.ask(PLAIN);
    let policy = |pipeline| Policy {
        hotspot: true,
        for_autocommit: true,
        lock_type: true,
        pipeline,
    };
    let analysis = |plain_read: bool| TemplateAnalysis {
        chain_facts: Err("a read".to_owned()),
        plan: Err(String::new()),
        plain_read: plain_read.then_some(()).ok_or(String::new()),
        reads_on_replicas: false,
        reads_on_subscribers: false,
        portable_table: None,
        may_change_session: Some(false),
        sequences: paceline_sql::SequenceUse::ANY,
        reads_numbers: false,
        declared: false,
        timeouts: crate::line::ClientTimeouts::default(),
        tables: Vec::new(),
        permission: Permission::Default,
    };
    let mut strategy = |plain, on| {
        let group = analysis(plain).decide(&mut request, policy(on)).spec.group;
        let strategy = group.map(|id| id.strategy);
        request.template.pace.record(10, 100);
        strategy
    };
    assert_eq!(strategy(false, true), None);
    assert_eq!(strategy(true, false), None);
    assert_eq!(strategy(true, true), Some(Strategy::Share));
    assert_eq!(strategy(true, true), Some(Strategy::Pipeline));
}

#[test]
fn one_execution_answers_all_members_when_it_is_complete() {
    let mut fixture = ShareFixture::new();
    let mut run = fixture.duplicates(3);
    let kinds: Vec<String> = run.sent().iter().map(|line| line[..4].to_owned()).collect();
    assert_eq!(kinds, ["Pars", "Bind", "Desc", "Exec", "Sync"]);
    assert!(
        run.answer([begun()]).is_empty(),
        "no member has a part of it"
    );
    assert!(run.batch.buffered_len() > 0);
    assert_eq!(
        run.answer([ended()]),
        [0, 1, 2].map(|member| format!("{member}: {ANSWER}"))
    );
    assert!(run.is_over());
    // A `Parse` of the clients becomes one `Parse` for the group.
    let again = fixture.duplicates(2).sent();
    assert!(again[0].starts_with("Parse unnamed"), "{again:?}");
}

#[test]
fn simple_queries_are_sent_unchanged() {
    let mut fixture = ShareFixture::new();
    let text = "SELECT b  FROM t WHERE id = 1 -- and a remark";
    let members = [fixture.query(text), fixture.query(text)];
    let mut run = fixture.leave(&members).expect("duplicates share a group");
    assert_eq!(run.sent(), [format!("Query {text}")]);
    let results = run.answer([columns(&["b"]), ended()]);
    assert_eq!(
        results,
        [0, 1].map(|n| format!("{n}: columns b, SELECT 1, ready I"))
    );
}

#[test]
fn members_of_a_failed_read_are_executed_alone() {
    let mut fixture = ShareFixture::new();
    let mut run = fixture.duplicates(2);
    let results = run.answer([begun(), error("22012", "division by zero"), ready('I')]);
    assert_eq!(results, ["0: retry Alone", "1: retry Alone"]);
    assert!(run.is_over() && !run.batch.failed());
}

/// Clients have prepared the statement: it must have been analyzed after the last of them parsed it.
#[test]
fn a_prepared_statement_is_analyzed_late_enough_for_all_members() {
    let mut fixture = ShareFixture::new();
    let prepared = fixture.templates.prepared(TEXT, &[0, 0]);
    let mut member = |since: u64| {
        let client_parse = ClientParse {
            answered: since,
            ..ClientParse::begun(since - 1, 0)
        };
        fixture
            .session
            .statements
            .parse(b"p", prepared.clone(), client_parse);
        let messages = [
            bind_values("p", &[(false, Some(b"1"))], &[]),
            execute(),
            sync(),
        ];
        single(&mut fixture.session, &fixture.templates, messages.concat())
    };
    let members = [10, 30, 20].map(&mut member);
    let late = [member(40)];
    let both = [late[0].clone(), members[0].clone()];
    let answer = || [bound(), row(&["2"]), ended()].concat();
    for (members, parses) in [
        (&members[..], true),
        (&members[..], false),
        (&late, true),
        (&both, false),
        (&members[..], false),
    ] {
        let mut run = fixture.leave(members).expect("these members share a group");
        let kinds = run.sent();
        assert_eq!(kinds.iter().any(|line| line.starts_with("Parse")), parses);
        let closes = kinds.iter().filter(|line| line.starts_with("Close"));
        let closes = closes.map(|_| closed()).collect::<Vec<_>>().concat();
        let parsed = if parses { parsed() } else { Wire::new() };
        let results = run.answer([closes, parsed, answer()]);
        assert_eq!(results.len(), members.len());
    }
}

/// A client has prepared the statement under other settings than those in force, another one under these. PostgreSQL keeps the meaning of
/// constants.
#[test]
fn a_statement_with_constants_that_was_parsed_under_other_settings_is_not_shared() {
    for (text, shares) in [
        ("SELECT b FROM t WHERE id > $1", true),
        ("SELECT b FROM t WHERE id > $1 AND at > '2026-01-01'", false),
    ] {
        let mut fixture = ShareFixture::new();
        let template = fixture.templates.prepared(text, &[0, 0]);
        let parse = |server: &mut ServerSide, now| {
            let parsed = server.parse((&*template).into(), now, &mut BytesMut::new());
            (parsed.key, ClientParse::begun(now, parsed.key.settings()))
        };
        let (own, before) = parse(&mut fixture.server, 5);
        let book = SettingsInterner::default();
        let tokyo = paceline_sql::SessionChange::Set {
            name: "timezone".to_owned(),
            sql: "SET timezone = 'Asia/Tokyo'".to_owned(),
        };
        let tokyo = book.after(&book.none(), &book.none(), &tokyo);
        fixture.session.settings = tokyo.clone();
        fixture.server.settings = tokyo;
        let ask = |fixture: &mut ShareFixture, client_parse| {
            let statements = &mut fixture.session.statements;
            statements.parse(b"p", template.clone(), client_parse);
            let bind = bind_values("p", &[(false, Some(b"1"))], &[]);
            let messages = [bind, execute(), sync()].concat();
            single(&mut fixture.session, &fixture.templates, messages)
        };
        let earlier = ask(&mut fixture, before);
        if !shares {
            let alone = fixture.leave(std::slice::from_ref(&earlier));
            let sent = alone.expect("its own statement").sent();
            assert!(sent[0].contains(&own.name()), "{text}: {sent:?}");
        }
        let (current, after) = parse(&mut fixture.server, 9);
        let later = ask(&mut fixture, after);
        assert_eq!(group(&earlier) == group(&later), shares, "{text}");
        for members in [[&earlier, &later], [&later, &earlier]] {
            let run = fixture.leave(&members.map(Clone::clone));
            let sent = run.map(|run| run.sent());
            let current = |sent: &Vec<String>| sent[0].contains(&current.name());
            assert_eq!(sent.as_ref().map(current), shares.then_some(true), "{text}");
        }
    }
}

#[test]
fn an_answer_can_be_handed_over_while_the_server_sends_rows() {
    let mut fixture = ShareFixture::new();
    let mut run = fixture.duplicates(2);
    assert!(run.batch.hand_over(&bound()).is_none(), "nothing has come");
    run.answer([parsed(), bound(), columns(&["b"])]);
    assert!(run.batch.hand_over(b"C").is_none(), "no row has come");
    let underway = run.batch.hand_over(&row(&["2"])[..5]);
    let answer = underway.expect("a row begins").answer;
    assert_eq!(
        read_out::to_client(&answer),
        ["parsed", "bound", "columns b"]
    );

    let mut run = fixture.duplicates(2);
    run.answer([bound(), columns(&["b"]), row(&["2"])]);
    assert!(run.batch.hand_over(&[]).is_some());
    let mut run = fixture.duplicates(2);
    run.answer([bound(), row(&["2"]), error("22012", "division by zero")]);
    assert!(run.batch.hand_over(&[]).is_none(), "it has failed");
}

/// The statement on a replica may be older than that of the client.
#[test]
fn a_stale_plan_is_an_answer_of_the_primary_only() {
    let mut fixture = ShareFixture::new();
    let template = fixture.templates.prepared(TEXT, &[0, 0]);
    let failed = [stale_plan(), ready('I')].concat();
    for (is_replica, is_answer) in [(false, true), (true, false)] {
        let client_parse = ClientParse::begun(3, fixture.session.settings.id);
        let statements = &mut fixture.session.statements;
        statements.parse(b"s", template.clone(), client_parse);
        let bind = bind_values("s", &[(false, Some(b"1"))], &[]);
        let messages = [bind, execute(), sync()].concat();
        let read = single(&mut fixture.session, &fixture.templates, messages);
        fixture.server.is_replica = is_replica;
        let mut batch = fixture.leave(&[read]).expect("a read").batch;
        let mut results = Vec::new();
        for frame in Frames::new(&failed) {
            batch.receive(frame, &mut fixture.server, &mut results);
        }
        let outcome = results.pop().map(|result| result.outcome);
        let answered = matches!(outcome, Some(MemberOutcome::Answer(_)));
        assert_eq!(answered, is_answer, "of a replica: {is_replica}");
    }
}

/// A column named `b` of type 23, as a server describes it.
fn described(table: u32, column: i16) -> Wire {
    let field = Field {
        name: b"b".to_vec(),
        table,
        column,
        type_oid: 23,
        type_len: 4,
        type_modifier: -1,
    };
    let mut out = BytesMut::new();
    write_fields(&mut out, &[field], &[]);
    out.to_vec()
}

#[test]
fn a_subscriber_describes_columns_as_the_primary() {
    let mut fixture = ShareFixture::new();
    let columns = PrimaryColumns::new([((30, 3), (20, 1))]);
    fixture.server.primary_columns = Some(Arc::new(columns));
    let members = [fixture.ask(PLAIN), fixture.ask(PLAIN)];
    let answers = |fixture: &mut ShareFixture, description: Wire, rest: Wire| {
        let run = fixture.leave(&members).expect("duplicates share a group");
        let mut batch = run.batch;
        let mut results = Vec::new();
        let sent = [parsed(), bound(), description, rest].concat();
        for frame in Frames::new(&sent) {
            batch.receive(frame, &mut fixture.server, &mut results);
        }
        let outcomes = results.into_iter().map(|result| match result.outcome {
            MemberOutcome::Answer(answer) => Some(answer),
            MemberOutcome::Retry(..) => None,
        });
        outcomes.collect::<Vec<_>>()
    };
    let rows = || [row(&["2"]), ended()].concat();
    let expected = [parsed(), bound(), described(20, 1), rows()].concat();
    let rewritten = answers(&mut fixture, described(30, 3), rows());
    assert_eq!(rewritten, vec![Some(expected.into()); 2]);
    let unknown = answers(&mut fixture, described(31, 1), rows());
    assert_eq!(unknown, [None, None]);
    let failed = [error("57014", "canceling statement"), ready('I')].concat();
    assert_eq!(
        answers(&mut fixture, described(30, 3), failed),
        [None, None]
    );
}
