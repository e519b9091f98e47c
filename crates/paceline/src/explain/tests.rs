//! Answers without a server. The e2e module `explaining` tests answers with one.

use super::*;
use paceline_config::{Config, Settings, Shards};

fn question(sql: &str, upstream: Option<&str>) -> Explain {
    let upstream = upstream.map(|url| Config::upstream("--upstream", url).unwrap());
    Explain {
        sql: sql.to_owned(),
        upstream,
        declared: Vec::new(),
        shard_servers: Vec::new(),
        connect_query: String::new(),
        settings: Settings::default(),
        verbose: false,
    }
}

fn explained(question: &Explain) -> Result<String, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let text = runtime.block_on(explain(question));
    text.map_err(|error| format!("{error:#}"))
}

/// The text of the line with this label.
fn line(question: &Explain, label: &str) -> Option<String> {
    let text = explained(question).unwrap();
    let line = text.lines().find(|line| line.starts_with(label))?;
    Some(line[label.len()..].trim().to_owned())
}

#[test]
fn the_template_and_its_literals_are_listed() {
    let text = explained(&question(
        "UPDATE t\n SET n = n - 1.5, s = 'it''s'\n WHERE id = 7",
        None,
    ));
    let expected = "\
template    UPDATE t SET n = n - $1, s = $2 WHERE id = $3
literals    $1 = 1.5, $2 = 'it''s', $3 = 7
catalog     not asked (no server is named): the tables may prevent what follows
in words    each request runs alone (it has no hint, and hotspot_for_autocommit is off); with the hint or hotspot_for_autocommit, updates that wait for a row or a connection run as one statement, with one commit
as it is    solo: it has no hint, and hotspot_for_autocommit is off
hint        fold; with /*+ COMMIT_ON_SUCCESS */
switch      fold; with hotspot_for_autocommit";
    assert_eq!(text.unwrap(), expected);
}

#[test]
fn each_shape_has_its_strategy() {
    let queue = "DELETE FROM q WHERE id = (SELECT id FROM q ORDER BY id LIMIT 1)";
    for (sql, switched) in [
        (
            "UPDATE t SET n = 1 WHERE id = $1",
            "fold; with hotspot_for_autocommit",
        ),
        (queue, "take; with hotspot_for_autocommit"),
        (
            "INSERT INTO t VALUES ($1)",
            "merge; with hotspot_for_autocommit",
        ),
    ] {
        let found = line(&question(sql, None), "switch");
        assert_eq!(found.as_deref(), Some(switched), "{sql}");
    }
    let read = line(&question("SELECT n FROM t", None), "as it is");
    assert_eq!(
        read.as_deref(),
        Some("share, with identical reads; pipeline, once it is known to be short")
    );
    let other = question("DELETE FROM t WHERE n = 1", None);
    let chain = "chain, once it is known to be short; with /*+ COMMIT_ON_SUCCESS */";
    assert_eq!(line(&other, "hint").as_deref(), Some(chain));
    assert_eq!(line(&other, "switch"), None);
}

#[test]
fn the_forecast_is_also_given_in_words() {
    for (sql, expected) in [
        (
            "UPDATE /*+ COMMIT_ON_SUCCESS */ t SET n = 1 WHERE id = 1",
            "updates that wait for a row or a connection run as one statement, with one commit",
        ),
        (
            "DELETE FROM t WHERE n = 1",
            "with the hint, short writes that wait run one after the other in one transaction, with one commit",
        ),
        (
            "SELECT n FROM t",
            "of identical reads that wait, one runs, and each client gets its answer",
        ),
        (
            "SELECT n FROM t TABLESAMPLE system (1)",
            "each request runs alone (",
        ),
        (
            "BEGIN",
            "the client gets a server connection to itself until the end of its transaction (",
        ),
    ] {
        let words = line(&question(sql, None), "in words").unwrap();
        assert!(words.contains(expected), "{sql}: {words}");
    }
}

#[test]
fn hints_and_settings_have_effect() {
    let hinted = "UPDATE COMMIT_ON_SUCCESS ROLLBACK_ON_FAIL t SET n = 1 WHERE id = 1";
    let mut asked = question(hinted, None);
    assert_eq!(line(&asked, "as it is").as_deref(), Some("fold"));
    assert_eq!(line(&asked, "hint"), None);
    asked.settings.grouping.hotspot_lock_type = false;
    let chain = "chain, once it is known to be short";
    assert_eq!(line(&asked, "as it is").as_deref(), Some(chain));
    asked.settings.grouping.hotspot = false;
    let off = "solo: its hint does not count: hotspot is off";
    assert_eq!(line(&asked, "as it is").as_deref(), Some(off));
}

/// Without a server, the function is that of the name in the text.
#[test]
fn declared_functions_are_recognized_by_name() {
    let lists = "[[take]]\nfunction = \"q.read\"\nlimit_argument = 2\n[[take]]\nfunction = \"pop\"\n[[group]]\nfunction = \"buy\"\n[[replica]]\nfunction = \"price\"";
    let text = |sql: &str, hotspot| {
        let mut asked = question(sql, None);
        asked.declared = Config::from_toml(lists, "").unwrap().declared;
        asked.settings.grouping.hotspot = hotspot;
        line(&asked, "as it is").unwrap()
    };
    let chain = "chain, once it is known to be short";
    for (sql, expected) in [
        ("SELECT * FROM q.read('a', $1)", "take"),
        ("SELECT pop('a')", chain),
        ("SELECT buy(1)", chain),
        ("SELECT buy(n) FROM q.read('a', 1) AS r(n)", chain),
        ("INSERT INTO t SELECT buy(1)", chain),
    ] {
        assert_eq!(text(sql, true), expected, "{sql}");
    }
    let other = "solo: it calls the declared function otherwise than by SELECT … FROM f(…) and nothing else";
    for sql in [
        "SELECT q.read('a', 1)",
        "SELECT * FROM q.read('a', 1) WHERE id > 1",
        "INSERT INTO t SELECT q.read('a', 1)",
    ] {
        assert_eq!(text(sql, true), other, "{sql}");
    }
    let off = "solo: its declaration does not count: hotspot is off";
    assert_eq!(text("SELECT buy(1)", false), off);
    let read = text("SELECT read('a', 1)", true);
    assert!(read.starts_with("share"), "of another schema: {read}");
    let price = text("SELECT price(1)", true);
    assert!(price.starts_with("share"), "not for groups: {price}");
}

/// The result is the same with a server.
#[test]
fn statements_that_depend_on_the_time_run_alone() {
    let lists = "[[take]]\nfunction = \"pop\"\n[[group]]\nfunction = \"buy\"";
    let alone = "solo: a constant that means the moment in which it is parsed";
    for sql in [
        "SELECT n FROM t WHERE at < timestamptz E'now'",
        "UPDATE /*+ COMMIT_ON_SUCCESS */ t SET at = timestamptz E'now' WHERE id = 1",
        "DELETE /*+ COMMIT_ON_SUCCESS */ FROM t WHERE at < timestamptz E'today'",
        "SELECT buy(timestamptz E'now')",
        "SELECT * FROM pop(timestamptz E'now')",
        "SELECT * FROM pop('a', 1) WHERE at < timestamptz E'now'",
    ] {
        let mut asked = question(sql, None);
        asked.declared = Config::from_toml(lists, "").unwrap().declared;
        assert_eq!(line(&asked, "as it is").as_deref(), Some(alone), "{sql}");
        assert_eq!(line(&asked, "hint"), None, "{sql}");
    }
    let sampled = question("SELECT n FROM t TABLESAMPLE system (1)", None);
    let text = line(&sampled, "as it is").unwrap();
    assert!(text.starts_with("solo: it reads something else"), "{text}");
}

#[test]
fn other_texts_than_a_read_or_write_are_leases() {
    for (sql, why) in [
        ("BEGIN", "it is neither a read nor a write of tables"),
        (
            "COPY t FROM STDIN",
            "it is neither a read nor a write of tables",
        ),
        (
            "CREATE TABLE t (id int)",
            "it is neither a read nor a write of tables",
        ),
        ("SELECT 1; SELECT 2", "it holds 2 statements"),
        (" ; ", "it is empty"),
        ("SET search_path = x", "it may change the session"),
        ("SELECT pg_advisory_lock(1)", "it may change the session"),
    ] {
        let found = line(&question(sql, None), "as it is");
        assert_eq!(found, Some(format!("lease: {why}")), "{sql}");
    }
}

#[test]
fn texts_that_cannot_be_explained_are_errors() {
    let error = explained(&question("SELCT 1", None)).unwrap_err();
    assert!(
        error.contains("syntax error at or near \"SELCT\""),
        "{error}"
    );
    let error = explained(&question("SELECT 1", Some("postgres://db"))).unwrap_err();
    assert!(error.contains("names no user"), "{error}");
}

#[test]
fn a_text_that_fixes_a_key_may_run_on_a_shard() {
    let shards = |sql: &str, shards| {
        let mut question = question(sql, None);
        question.settings.servers.shards = shards;
        line(&question, "shards")
    };
    let by_key = "UPDATE t SET n = 1 WHERE id = 7 AND k = 2";
    assert_eq!(shards(by_key, Shards::Off), None);
    assert_eq!(
        shards(by_key, Shards::Auto).unwrap(),
        "if t is a sharded table whose key is among id, k: the shard of the row executes it"
    );
    assert_eq!(
        shards("SELECT count(*) FROM t", Shards::Auto).unwrap(),
        "the coordinator executes it: WHERE has no column = value"
    );
}
