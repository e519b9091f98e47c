//! Decisions on requests: Paceline answers them, they may join a group, or they are relayed.

mod columns;

use super::{ClientSession, RequestPlan};
use crate::settings::SettingsInterner;

use crate::request::{Request, RequestForm};
use crate::template::{LOOKED_AT_BYTES_MAX, Template, Templates};
use crate::testing::TestShowSource;
use bytes::Bytes;
use paceline_sql::Listening;
use paceline_testing::messages::Wire;
use paceline_testing::messages::client::*;
use paceline_testing::messages::server::{complete, error, parsed};
use paceline_testing::read_out;

struct TestSession {
    session: ClientSession,
    templates: Templates,
}

impl TestSession {
    fn new() -> Self {
        Self {
            session: ClientSession::new(SettingsInterner::default().none()),
            templates: Templates::default(),
        }
    }

    fn plan<const N: usize>(&mut self, messages: [Wire; N]) -> RequestPlan {
        let bytes = Bytes::from(messages.concat());
        self.session.plan(&bytes, &self.templates, &TestShowSource)
    }

    fn single<const N: usize>(&mut self, messages: [Wire; N]) -> Request {
        match self.plan(messages) {
            RequestPlan::Group(request) => *request,
            other => panic!("{other:?}"),
        }
    }

    fn is_alone<const N: usize>(&mut self, messages: [Wire; N]) -> bool {
        matches!(self.plan(messages), RequestPlan::Relay)
    }

    fn answer<const N: usize>(&mut self, messages: [Wire; N]) -> Vec<String> {
        match self.plan(messages) {
            RequestPlan::Answer(answer) => read_out::to_client(&answer),
            other => panic!("{other:?}"),
        }
    }

    fn prepare(&mut self, name: &str, text: &str) {
        let template = self.templates.prepared(text, &[0, 0]);
        self.session.statements.prepare(name.as_bytes(), template);
    }

    fn is_targeted<const N: usize>(&self, messages: [Wire; N]) -> bool {
        let bytes = Bytes::from(messages.concat());
        let targeted = self.session.is_targeted(&bytes, &self.templates);
        targeted.expect("short texts")
    }
}

#[test]
fn single_reads_and_writes_may_join_a_group() {
    let mut test = TestSession::new();
    for sql in [
        "SELECT 1",
        "VALUES (1)",
        "UPDATE t SET a = 1",
        "DELETE FROM t",
        "INSERT INTO t VALUES (1)",
    ] {
        assert_eq!(test.single([query(sql)]).form, RequestForm::Simple, "{sql}");
    }
}

#[test]
fn everything_else_is_relayed() {
    let mut test = TestSession::new();
    for sql in [
        "",
        "BEGIN",
        "SELECT 1; SELECT 2",
        "SET search_path TO a",
        "COPY t FROM STDIN",
        "CREATE TABLE t ()",
        "SELEC 1",
        "DEALLOCATE a",
    ] {
        assert!(test.is_alone([query(sql)]), "{sql}");
    }
    let mut not_text = query("SELECT 'x'");
    not_text[13] = 0xff;
    assert!(test.is_alone([not_text]));
}

#[test]
fn simple_queries_share_a_template_and_keep_their_own_values() {
    let mut test = TestSession::new();
    let one = test.single([query("UPDATE t SET a = 'x' WHERE id = 1")]);
    let two = test.single([query("UPDATE t SET a = NULL WHERE id = 22")]);
    let three = test.single([query("UPDATE t SET a = 'y''z' WHERE id = 22")]);
    assert_eq!(one.template.id, three.template.id);
    assert_ne!(one.template.id, two.template.id);
    assert_eq!(
        three.parameters(),
        [(false, Some(&b"y'z"[..])), (false, Some(b"22"))]
    );
}

#[test]
fn the_extended_protocol_is_read() {
    let mut test = TestSession::new();
    let values: [(bool, Option<&[u8]>); 3] = [
        (true, Some(&[0, 0, 0, 7])),
        (false, None),
        (false, Some(b"x")),
    ];
    let request = test.single([
        parse("", "UPDATE t SET a = $1, b = $2 WHERE c = $3"),
        bind_values("", &values, &[1]),
        describe_portal(),
        execute(),
        sync(),
    ]);
    let full = RequestForm::Extended {
        parse: true,
        describe: true,
        row_limit: 0,
    };
    assert_eq!(
        (request.form, request.parameters()),
        (full, values.to_vec())
    );
    assert_eq!(request.result_formats(), [1]);
    assert_eq!(request.parameter(0), None);
    assert_eq!(request.parameter(4), None);
}

#[test]
fn a_prepared_statement_is_known_after_a_group_answered() {
    let mut test = TestSession::new();
    assert!(
        test.is_alone([bind("p"), execute(), sync()]),
        "PostgreSQL says so better"
    );
    assert!(
        test.is_alone([parse("p", "SELECT 1"), bind("p"), execute(), sync()]),
        "a statement with a name is analysed for its client"
    );
    let request = test.single([parse("", "SELECT 1"), bind(""), execute(), sync()]);
    assert!(test.session.statements.get(b"").is_none(), "not yet");
    test.session
        .group_answered(&request, &error("42703", "no such column"), 1);
    assert!(
        test.session.statements.get(b"").is_none(),
        "it was not parsed"
    );
    test.session
        .group_answered(&request, &[parsed(), error("22012", "later")].concat(), 1);
    let again = test.single([bind(""), execute(), sync()]);
    assert_eq!(again.template.id, request.template.id);
    let short = RequestForm::Extended {
        parse: false,
        describe: false,
        row_limit: 0,
    };
    assert_eq!(again.form, short);
}

#[test]
fn a_simple_query_answered_by_a_group_drops_the_unnamed_statement() {
    let mut test = TestSession::new();
    test.prepare("", "SELECT 1");
    test.prepare("p", "SELECT 1");
    let request = test.single([query("SELECT 2")]);
    test.session
        .group_answered(&request, &complete("SELECT 1"), 1);
    assert!(
        test.session.statements.get(b"").is_none() && test.session.statements.get(b"p").is_some()
    );
}

/// A limit has no effect on a statement that returns no rows.
#[test]
fn a_row_limit_is_a_part_of_the_form() {
    let mut test = TestSession::new();
    for (name, text, row_limit) in [
        ("s", "SELECT 1", 5),
        ("u", "UPDATE t SET a = 1", 0),
        ("i", "INSERT INTO t VALUES (1)", 0),
        ("d", "WITH s AS (SELECT 1) DELETE FROM t", 0),
        ("r", "UPDATE t SET a = 1 RETURNING a", 5),
        (
            "w",
            "WITH s AS (DELETE FROM t RETURNING a) SELECT a FROM s",
            5,
        ),
    ] {
        test.prepare(name, text);
        let request = test.single([bind(name), execute_portal("", 5), sync()]);
        assert_eq!(request.form.row_limit(), row_limit, "{text}");
    }
}

/// A read of all rows may take longer than one that has stopped at a row limit.
#[test]
fn only_whole_executions_record_a_pace() {
    let mut test = TestSession::new();
    for (name, text, counts) in [
        ("s", "SELECT a FROM t", false),
        ("r", "UPDATE t SET a = 1 RETURNING a", true),
    ] {
        test.prepare(name, text);
        let limited = test.single([bind(name), execute_portal("", 1), sync()]);
        (0..10).for_each(|_| limited.record_pace(1, 1));
        assert_eq!(limited.template.pace.is_short(), counts, "{text}");
        let whole = test.single([bind(name), execute(), sync()]);
        (0..10).for_each(|_| whole.record_pace(1, 1));
        assert!(whole.template.pace.is_short(), "{text}");
    }
}

#[test]
fn a_time_is_found_in_a_value_of_any_length_and_format() {
    let mut test = TestSession::new();
    let padding = "x".repeat(10_000);
    for (text, names) in [("now", true), ("known", false)] {
        for binary in [false, true] {
            let value = format!("{{\"until\":\"{text}\",\"note\":\"{padding}\"}}");
            let values = [(binary, Some(value.as_bytes()))];
            let request = test.single([
                parse("", "UPDATE t SET a = ($1::jsonb->>'until')::timestamptz"),
                bind_values("", &values, &[]),
                execute(),
                sync(),
            ]);
            assert_eq!(request.names_moment(), names, "{text}, binary: {binary}");
        }
    }
}

#[test]
fn extended_requests_of_another_shape_are_relayed() {
    let mut test = TestSession::new();
    test.prepare("p", "SELECT 1");
    test.prepare("q", "SELECT 1");
    let names = test.plan([parse("a", "SELECT 1"), close_statement("p"), sync()]);
    assert!(matches!(names, RequestPlan::Prepare), "{names:?}");
    assert!(
        test.is_alone([bind("p"), execute(), bind("p"), execute(), sync()]),
        "two in one transaction"
    );
    assert!(
        test.is_alone([bind_portal("x", "p"), execute_portal("x", 0), sync()]),
        "a named portal"
    );
    assert!(
        test.is_alone([bind("p"), describe_statement("p"), execute(), sync()]),
        "Describe of a statement"
    );
    assert!(
        test.is_alone([parse("a", "SELECT 1"), bind("p"), execute(), sync()]),
        "two statements"
    );
    assert!(
        test.is_alone([parse("q", "SELECT 1"), bind("q"), execute(), sync()]),
        "a name in use"
    );
    assert!(
        !test.is_alone([close_statement("other"), sync()]),
        "names are Paceline's own"
    );
    assert!(test.is_alone([sync()]));
    assert!(test.is_alone([bind("p"), execute()]), "no end");
    assert!(matches!(
        test.plan([bind("p"), execute(), sync()]),
        RequestPlan::Group(_)
    ));
}

#[test]
fn bare_hints_are_rewritten_for_the_server() {
    let mut test = TestSession::new();
    let text = "UPDATE COMMIT_ON_SUCCESS TARGET_AFFECT_ROW(1) t SET a = 1 WHERE id = 7";
    let request = test.single([query(text)]);
    assert!(request.template.hints().commit_on_success);
    assert_eq!(request.template.hints().target_affect_row, Some(1));
    let sent = read_out::to_server(&request.bytes).concat();
    let comment = "Query UPDATE /*+ COMMIT_ON_SUCCESS TARGET_AFFECT_ROW(1) */";
    assert!(sent.starts_with(comment), "{sent}");
    let request = test.single([parse("", text), bind(""), execute(), sync()]);
    assert!(
        request.template.text.contains("/*+ COMMIT_ON_SUCCESS"),
        "{}",
        request.template.text
    );
}

#[test]
fn a_request_carries_the_settings_of_its_client() {
    let interner = SettingsInterner::default();
    let mut test = TestSession::new();
    test.session.settings = interner.intern([("a".to_owned(), "SET a TO 1".to_owned())].into());
    let id = test.session.settings.id;
    assert_eq!(test.single([query("SELECT 1")]).settings.id, id);
}

#[test]
fn a_local_show_is_answered_by_the_simple_protocol() {
    let mut test = TestSession::new();
    let answer = test.answer([query("SHOW hotspot")]);
    assert_eq!(answer, ["columns hotspot", "row on", "SHOW", "ready I"]);
    let answer = test.answer([query("show variables like 'hotspot%';")]);
    assert_eq!(
        answer,
        [
            "columns Variable_name,Value",
            "row hotspot,on",
            "SHOW",
            "ready I"
        ]
    );
    let answer = test.answer([query("SHOW GLOBAL STATUS LIKE 'Group_update%'")]);
    let status = "row Group_update_group_count,7";
    assert_eq!(
        answer,
        ["columns Variable_name,Value", status, "SHOW", "ready I"]
    );
    let answer = test.answer([query("SHOW VARIABLES LIKE 'x'")]);
    assert_eq!(answer, ["columns Variable_name,Value", "SHOW", "ready I"]);
    assert!(
        test.is_alone([query("SHOW hotspot_nonsense")]),
        "PostgreSQL says so better"
    );
    assert!(test.is_alone([query("SHOW search_path")]));
}

#[test]
fn a_local_show_is_answered_by_the_extended_protocol_at_once() {
    let mut test = TestSession::new();
    let messages = [
        parse("", "SHOW hotspot"),
        bind(""),
        describe_portal(),
        execute(),
        sync(),
    ];
    let expected = [
        "parsed",
        "bound",
        "columns hotspot",
        "row on",
        "SHOW",
        "ready I",
    ];
    assert_eq!(test.answer(messages), expected);
}

#[test]
fn a_local_show_is_answered_by_the_extended_protocol_step_by_step() {
    let mut test = TestSession::new();
    let prepared = test.answer([parse("s", "SHOW hotspot"), describe_statement("s"), sync()]);
    assert_eq!(
        prepared,
        ["parsed", "parameters []", "columns hotspot", "ready I"]
    );
    let described = test.answer([describe_statement("s"), sync()]);
    assert_eq!(described, ["parameters []", "columns hotspot", "ready I"]);
    let executed = test.answer([bind("s"), execute(), sync()]);
    assert_eq!(executed, ["bound", "row on", "SHOW", "ready I"]);
}

#[test]
fn a_local_show_among_other_statements_is_relayed() {
    let mut test = TestSession::new();
    let show = || parse("s", "SHOW hotspot");
    assert!(test.is_alone([show(), bind("s"), execute(), close_statement("s"), sync()]));
    assert!(
        test.session.statements.get(b"s").is_none(),
        "its Parse is still to come"
    );
    assert!(test.is_alone([show(), parse("", "SELECT 1"), bind(""), execute(), sync()]));
    test.prepare("one", "SELECT 1");
    assert!(test.is_alone([show(), bind("s"), execute(), bind("one"), execute(), sync()]));
    assert!(test.is_alone([show(), describe_statement("one"), sync()]));
    assert!(
        matches!(
            test.plan([parse("one", "SHOW hotspot"), sync()]),
            RequestPlan::Prepare
        ),
        "a name in use"
    );
}

#[test]
fn targets_are_found_at_any_position() {
    let mut test = TestSession::new();
    let text = "UPDATE /*+ TARGET_AFFECT_ROW(1) */ t SET a = 1";
    let bare = "UPDATE TARGET_AFFECT_ROW 1 t SET a = 1";
    test.prepare("p", text);
    test.prepare("q", "SELECT 1");
    assert!(test.is_targeted([query(text)]) && test.is_targeted([query(bare)]));
    assert!(test.is_targeted([parse("", text), bind(""), execute(), sync()]));
    assert!(test.is_targeted([bind("q"), execute(), bind("p"), execute(), sync()]));
    assert!(!test.is_targeted([query("UPDATE t SET a = 1")]));
    assert!(!test.is_targeted([query("SELECT 'TARGET_AFFECT_ROW(1)'")]));
    assert!(
        !test.is_targeted([query(&format!("{text}; {text}"))]),
        "only requests of one statement"
    );
    assert!(!test.is_targeted([bind("q"), execute(), sync()]));
    assert!(!test.is_targeted([bind("unknown"), execute(), sync()]));
}

#[test]
fn prepare_and_close_can_be_undone() {
    let mut test = TestSession::new();
    test.prepare("a", "SELECT 1");
    let id = |test: &TestSession| test.session.statements.get(b"a").map(|t| t.id);
    let before = id(&test);
    let closed = test.session.statements.close(b"a");
    let other = test.templates.prepared("SELECT 2", &[0, 0]);
    let prepared = test.session.statements.prepare(b"a", other);
    assert_ne!(id(&test), before);
    test.session.statements.undo(prepared);
    assert_eq!(id(&test), None);
    test.session.statements.undo(closed);
    assert_eq!(id(&test), before);
}

#[test]
fn a_target_in_a_block_of_the_request_needs_no_transaction() {
    let mut test = TestSession::new();
    let aim = "UPDATE /*+ TARGET_AFFECT_ROW(1) */ t SET a = 1";
    test.prepare("begin", "BEGIN");
    test.prepare("aim", aim);
    let run = |text: &str| [parse("", text), bind(""), execute()].concat();
    assert!(test.is_targeted([run("SELECT 1"), run(aim), sync()]));
    assert!(test.is_targeted([run("SELECT 1"), bind("aim"), execute(), sync()]));
    for begin in [run("BEGIN"), run(" start transaction"), bind("begin")] {
        assert!(!test.is_targeted([begin.clone(), run(aim), sync()]));
        assert!(!test.is_targeted([begin, bind("aim"), execute(), sync()]));
    }
}

/// A text whose parsing takes too long for the event loop.
fn long_list() -> String {
    format!("1{}", ", 1".repeat(500))
}

#[test]
fn a_long_text_must_be_parsed_before_it_is_planned() {
    let list = long_list();
    for messages in [
        query(&format!("SELECT {list}")),
        query(&format!(
            "UPDATE commit_on_success t SET a = 1 WHERE b IN ({list})"
        )),
        [
            parse("", &format!("SELECT {list}")),
            bind(""),
            execute(),
            sync(),
        ]
        .concat(),
    ] {
        let mut test = TestSession::new();
        let bytes = Bytes::from(messages);
        let plan =
            |test: &mut TestSession| test.session.plan(&bytes, &test.templates, &TestShowSource);
        let mut waited = 0;
        let request = loop {
            match plan(&mut test) {
                RequestPlan::Unparsed(unparsed) => test.templates.parse(&unparsed),
                RequestPlan::Group(request) => break request,
                other => panic!("{other:?}"),
            }
            waited += 1;
        };
        assert!(waited > 0);
        assert!(request.template.statement.is_some());
    }
}

#[test]
fn statements_prepared_before_a_long_text_are_prepared_again() {
    let mut test = TestSession::new();
    let text = format!("SELECT {}", long_list());
    let messages = [parse("a", "SELECT 1"), parse("b", &text), sync()].concat();
    let bytes = Bytes::from(messages);
    let accepted = |_: &Template| true;
    let TestSession { session, templates } = &mut test;
    let Err(unparsed) = session.answer_prepare(&bytes, templates, &accepted) else {
        panic!("it is long");
    };
    assert!(session.statements.get(b"a").is_none());
    templates.parse(&unparsed);
    let answer = session.answer_prepare(&bytes, templates, &accepted);
    assert!(matches!(answer, Ok(Some(_))), "{answer:?}");
    assert!(session.statements.get(b"a").is_some() && session.statements.get(b"b").is_some());
}

#[test]
fn a_text_that_is_slow_to_parse_is_not_parsed() {
    let mut test = TestSession::new();
    let nested = format!("{}{} SELECT 1", "/*".repeat(20_000), "*/".repeat(20_000));
    assert!(test.is_alone([query(&nested)]));
    assert!(test.is_alone([parse("", &nested), bind(""), execute(), sync()]));
    let rows = |text: &str| test.templates.prepared(text, &[0, 0]).is_bulk();
    assert!(!rows(&nested));
    let list = format!("1{}", ", 1".repeat(20_000));
    assert!(rows(&format!("SELECT {list}")) && rows(&format!("DELETE FROM t WHERE a IN ({list})")));
    assert!(!rows(&format!("SELECT {list} INTO TEMP t")));
    assert!(!rows("SELECT 1") && !rows("no SQL"));
}

#[test]
fn a_text_that_the_parser_does_not_finish_is_not_parsed() {
    let text = format!("SELECT {}", long_list());
    for bytes in [
        Bytes::from(query(&text)),
        Bytes::from([parse("", &text), bind(""), execute(), sync()].concat()),
    ] {
        let TestSession { session, templates } = &mut TestSession::new();
        let RequestPlan::Unparsed(unparsed) = session.plan(&bytes, templates, &TestShowSource)
        else {
            panic!("it is long");
        };
        templates.give_up(&unparsed);
        let plan = session.plan(&bytes, templates, &TestShowSource);
        assert!(matches!(plan, RequestPlan::Relay), "{plan:?}");
    }
}

#[test]
fn of_a_very_long_text_only_the_beginning_is_read() {
    let mut test = TestSession::new();
    let long = "x".repeat(LOOKED_AT_BYTES_MAX);
    for (text, target) in [
        (
            format!("UPDATE /*+ TARGET_AFFECT_ROW(1) */ t SET a = '{long}'"),
            Some(1),
        ),
        (
            format!("UPDATE t SET a = '{long} TARGET_AFFECT_ROW(1)'"),
            None,
        ),
        (format!("INSERT INTO t VALUES ('ä{long}')"), None),
    ] {
        let request = [parse("", &text), bind(""), execute(), sync()];
        assert!(test.is_alone(request.clone()));
        let template = test.templates.prepared(&text, &[0, 0]);
        assert_eq!(
            (template.hints().target_affect_row, &template.text),
            (target, &text)
        );
        // The text may have changed anything.
        assert!(template.statement.is_none() && !template.is_bulk());
        let TestSession { session, templates } = &test;
        let targeted = session.is_targeted(&Bytes::from(request.concat()), templates);
        assert_eq!(targeted, Ok(target.is_some()));
    }
}

#[test]
fn a_listen_alone_in_autocommit_may_need_no_server() {
    let mut test = TestSession::new();
    let listen = |name: &str| Listening::Listen(name.to_owned());
    for (sql, expected) in [
        ("LISTEN Jobs", listen("jobs")),
        ("unlisten *;", Listening::UnlistenAll),
    ] {
        let RequestPlan::Listen(found, request) = test.plan([query(sql)]) else {
            panic!("{sql}");
        };
        assert_eq!(found, expected);
        let answer = test.session.answer_listening(&found, &request);
        assert_eq!(read_out::to_client(&answer), [expected.command()], "{sql}");
    }
}
