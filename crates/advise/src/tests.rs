//! Observations as they would be read, and their findings. The e2e module `advising` has real ones.

use crate::finding::{Finding, Pattern};
use crate::format;
use crate::observation::{
    Counters, Facts, Holder, IndexFacts, Observation, Session, StatementCounters, TableCounters,
    TableFacts,
};
use crate::{Apply, Severity, evaluate};

const TABLE: u32 = 7;

/// 100 moments within 10 s, in each of which these sessions were seen; and a table `t` whose counters rise from nothing.
fn observed(sessions: &[Session], t: TableCounters) -> Observation {
    let now = TableCounters {
        id: TABLE,
        schema: "public".to_owned(),
        name: "t".to_owned(),
        qualified: "public.t".to_owned(),
        ..t
    };
    let counters = |at, tables| Counters {
        at,
        version: 150_000,
        connections: 20,
        connections_max: 100,
        recent: 20,
        sessions: Some(10),
        commits: 0,
        tables,
    };
    let table = TableFacts {
        id: TABLE,
        rows: 10_000.0,
        pages: 100.0,
        columns: 3,
        distinct_values: [("customer".to_owned(), -0.5)].into_iter().collect(),
        options: Vec::new(),
        indexes: vec![IndexFacts {
            name: "public.t_key".to_owned(),
            columns: vec![Some("k".to_owned())],
            unique: true,
            pages: 30.0,
            scans: 5,
            correlation: Some(0.01),
        }],
    };
    Observation {
        before: counters(100.0, Vec::new()),
        after: counters(110.0, vec![now]),
        statements_before: Vec::new(),
        statements_after: Vec::new(),
        samples: vec![sessions.to_vec(); 100],
        facts: Facts {
            tables: vec![table],
            ..Facts::default()
        },
        pinned_after: 60.0,
    }
}

fn sessions(count: i32, statement: &str, wait: Option<&str>) -> Vec<Session> {
    let session = |pid| Session {
        pid,
        state: Some("active".to_owned()),
        wait: wait.map(str::to_owned),
        // Each statement has a transaction of its own.
        transaction: Some(format!("{pid} {statement}")),
        statement: Some(statement.to_owned()),
        query_id: Some("17".to_owned()),
    };
    (0..count).map(session).collect()
}

fn patterns(observation: &Observation) -> Vec<Pattern> {
    let (findings, _) = evaluate(observation);
    findings.iter().map(|finding| finding.pattern).collect()
}

fn only(observation: &Observation) -> Finding {
    let (mut findings, _) = evaluate(observation);
    assert_eq!(findings.len(), 1, "{findings:?}");
    findings.remove(0)
}

fn advises(finding: &Finding, text: &str) -> bool {
    let mut advice = finding.advice.iter();
    advice.any(|advice| advice.sql.as_ref().is_some_and(|sql| sql.contains(text)))
}

const UPDATE: &str = "UPDATE t SET n = n - 1 WHERE k = 5";

#[test]
fn sessions_that_wait_for_a_row_are_a_hot_row() {
    let mut seen = sessions(20, UPDATE, Some("Lock:tuple"));
    seen.extend(sessions(1, "SELECT 1", None));
    let table = TableCounters {
        updated: 5_000,
        hot_updated: 100,
        ..TableCounters::default()
    };
    let finding = only(&observed(&seen, table));
    assert_eq!(finding.pattern, Pattern::HotRow);
    assert_eq!(finding.severity, Severity::High);
    assert_eq!(finding.table.as_deref(), Some("public.t"));
    assert_eq!(
        finding.statement.as_deref(),
        Some("UPDATE t SET n = n - $1 WHERE k = $2")
    );
    assert!(
        finding.advice[0].gain.contains("one update takes 2.0 ms"),
        "{finding:?}"
    );
    // Sessions that wait for the list of those that wait for the row.
    let mut crowd = seen.clone();
    crowd.extend(sessions(200, UPDATE, Some("LWLock:LockManager")));
    assert_eq!(
        patterns(&observed(&crowd, TableCounters::default())),
        [Pattern::HotRow]
    );
    assert!(advises(&finding, "SET (fillfactor = 70)"));
}

#[test]
fn a_few_waits_are_no_pattern() {
    let seen = sessions(3, UPDATE, Some("Lock:transactionid"));
    assert_eq!(patterns(&observed(&seen, TableCounters::default())), []);
    // Many in all, but less than 5 % of the time.
    let mut seen = sessions(5, UPDATE, Some("Lock:tuple"));
    seen.extend(sessions(120, "SELECT * FROM t WHERE k = 1", None));
    assert_eq!(
        patterns(&observed(&seen, TableCounters::default())),
        [Pattern::Storm]
    );
}

#[test]
fn consumers_are_a_queue_in_one_statement_or_in_steps() {
    let take = "DELETE FROM t WHERE k = (SELECT k FROM t ORDER BY k LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING *";
    let pick = "SELECT k FROM t ORDER BY k LIMIT 1 FOR UPDATE SKIP LOCKED";
    let naive = "SELECT k FROM t ORDER BY k LIMIT 1 FOR UPDATE";
    let advisory = "SELECT k FROM t WHERE pg_try_advisory_xact_lock(k) ORDER BY k LIMIT 1";
    for (sql, in_steps) in [(take, false), (pick, true), (naive, true), (advisory, true)] {
        let seen = sessions(30, sql, Some("Lock:transactionid"));
        let finding = only(&observed(&seen, TableCounters::default()));
        assert_eq!(finding.pattern, Pattern::Queue, "{sql}");
        assert_eq!(advises(&finding, "DELETE FROM public.t"), in_steps, "{sql}");
        assert!(
            advises(&finding, "autovacuum_vacuum_cost_delay = 0"),
            "{sql}"
        );
    }
}

#[test]
fn vacuum_needs_memory_for_all_dead_rows() {
    let take =
        "DELETE FROM t WHERE k = (SELECT k FROM t ORDER BY k LIMIT 1 FOR UPDATE SKIP LOCKED)";
    let dead = TableCounters {
        dead: 50_000_000,
        ..TableCounters::default()
    };
    let mut queue = observed(&sessions(30, take, None), dead);
    let settings = [
        ("autovacuum_work_mem", "-1kB"),
        ("maintenance_work_mem", "65536kB"),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
    queue.facts.settings = settings.into_iter().collect();
    let finding = only(&queue);
    assert!(
        advises(&finding, "SET autovacuum_work_mem = '287MB'"),
        "{finding:?}"
    );
    let own = queue.facts.settings.get_mut("autovacuum_work_mem");
    *own.unwrap() = "524288kB".to_owned();
    assert!(!advises(&only(&queue), "autovacuum_work_mem"));
}

#[test]
fn an_index_that_nothing_uses_is_named() {
    let upsert = "INSERT INTO t VALUES (1, 2) ON CONFLICT (k) DO UPDATE SET n = EXCLUDED.n";
    let mut store = observed(&sessions(30, upsert, None), TableCounters::default());
    assert!(!advises(&only(&store), "DROP INDEX"));
    let mut unused = store.facts.tables[0].indexes[0].clone();
    unused.unique = false;
    unused.scans = 0;
    unused.name = "public.\"It's\"".to_owned();
    store.facts.tables[0].indexes.push(unused);
    let finding = only(&store);
    assert!(advises(&finding, "DROP INDEX CONCURRENTLY public.\"It's\""));
    let undo = "pg_get_indexdef('public.\"It''s\"'::regclass)";
    assert!(
        finding
            .advice
            .iter()
            .any(|advice| advice.undo.contains(undo))
    );
}

#[test]
fn what_follows_a_pick_is_part_of_the_take() {
    let in_one = |mut sessions: Vec<Session>| {
        let all = sessions.iter_mut();
        all.for_each(|session| session.transaction = Some(session.pid.to_string()));
        sessions
    };
    let pick = "SELECT k FROM t ORDER BY k LIMIT 1 FOR UPDATE SKIP LOCKED";
    let mut taken = observed(&in_one(sessions(30, pick, None)), TableCounters::default());
    let delete = "DELETE FROM t WHERE k = 5";
    taken
        .samples
        .extend(vec![in_one(sessions(30, delete, None)); 50]);
    // Seen without its pick.
    taken.samples.extend(vec![sessions(30, delete, None); 50]);
    taken
        .samples
        .extend(vec![sessions(30, "COMMIT", Some("IO:WALSync")); 50]);
    let finding = only(&taken);
    assert_eq!(
        (finding.pattern, finding.share > 0.99),
        (Pattern::Queue, true)
    );
}

#[test]
fn a_read_and_a_write_of_a_transaction_are_an_upsert() {
    let upsert = "INSERT INTO t VALUES (1, 2) ON CONFLICT (k) DO UPDATE SET n = EXCLUDED.n";
    let seen = sessions(30, upsert, None);
    let finding = only(&observed(&seen, TableCounters::default()));
    assert_eq!(finding.pattern, Pattern::UpsertStore);
    assert!(!advises(&finding, "ON CONFLICT"));

    let in_one = |mut sessions: Vec<Session>| {
        let all = sessions.iter_mut();
        all.for_each(|session| session.transaction = Some(session.pid.to_string()));
        sessions
    };
    let read = in_one(sessions(30, "SELECT n FROM t WHERE k = 5 FOR UPDATE", None));
    let write = in_one(sessions(30, "INSERT INTO t VALUES (5, 1)", None));
    let mut both = observed(&read, TableCounters::default());
    both.samples.extend(vec![write.clone(); 100]);
    let finding = only(&both);
    assert_eq!(finding.pattern, Pattern::UpsertStore);
    assert!(advises(&finding, "INSERT INTO public.t AS t (k, …)"));

    // First written, then read: as in TPC-B.
    let mut other = observed(&write, TableCounters::default());
    let read = in_one(sessions(30, "SELECT n FROM t WHERE k = 5", None));
    other.samples.extend(vec![read; 100]);
    assert!(!patterns(&other).contains(&Pattern::UpsertStore));
}

#[test]
fn reads_of_many_blocks_are_scattered() {
    let seen = sessions(8, "SELECT * FROM t WHERE k = 5", Some("IO:DataFileRead"));
    let scans = |rows, blocks| TableCounters {
        index_scans: 10,
        index_rows: rows,
        blocks,
        ..TableCounters::default()
    };
    let finding = only(&observed(&seen, scans(10_000, 9_500)));
    assert_eq!(finding.pattern, Pattern::ScatteredRead);
    assert!(advises(&finding, "CLUSTER public.t USING t_key"));
    assert_eq!(finding.advice[0].apply, Apply::Cluster);
    assert!(
        finding.advice[0]
            .gain
            .starts_with("11 blocks per read instead of 950"),
        "{finding:?}"
    );
    // Rows that are stored together, and single rows.
    assert_eq!(patterns(&observed(&seen, scans(10_000, 200))), []);
    assert_eq!(patterns(&observed(&seen, scans(10, 10))), []);
    // The index in whose order the rows are is not the one that is scanned.
    let mut ordered = observed(&seen, scans(10_000, 9_500));
    ordered.facts.tables[0].indexes[0].correlation = Some(0.99);
    assert_eq!(patterns(&ordered), []);
}

#[test]
fn many_active_sessions_or_new_connections_are_a_storm() {
    let seen = sessions(
        40,
        "UPDATE t SET n = 1 WHERE k = 5",
        Some("LWLock:WALWrite"),
    );
    let finding = only(&observed(&seen, TableCounters::default()));
    assert_eq!(finding.pattern, Pattern::Storm);
    assert!(
        finding.evidence[0].fact.contains("LWLock:WALWrite 40"),
        "{finding:?}"
    );
    let few = sessions(8, "SELECT 1", None);
    let mut opened = observed(&few, TableCounters::default());
    assert_eq!(patterns(&opened), []);
    opened.after.sessions = Some(1_010);
    assert_eq!(patterns(&opened), [Pattern::Storm]);
    let mut crowd = observed(&few, TableCounters::default());
    crowd.after.recent = 200;
    assert_eq!(only(&crowd).severity, Severity::Low);
    let mut full = observed(&few, TableCounters::default());
    full.after.connections = 97;
    assert_eq!(patterns(&full), [Pattern::Storm]);
}

#[test]
fn a_snapshot_pins_only_if_it_is_old_and_rows_die() {
    let holder = |seconds| Holder {
        kind: "prepared transaction".to_owned(),
        name: "it's".to_owned(),
        seconds: Some(seconds),
        transactions: 500,
        ..Holder::default()
    };
    let table = |dead| TableCounters {
        deleted: 1_000,
        dead,
        live: 20_000,
        ..TableCounters::default()
    };
    let mut pinned = observed(&[], table(60_000));
    pinned.facts.holders = vec![holder(90.0)];
    let finding = only(&pinned);
    assert_eq!(finding.pattern, Pattern::PinnedHorizon);
    assert!(
        finding
            .summary
            .contains("it's has held a snapshot for 90 s"),
        "{finding:?}"
    );
    assert!(advises(&finding, "ROLLBACK PREPARED 'it''s'"));
    pinned.facts.holders = vec![holder(30.0)];
    assert_eq!(patterns(&pinned), []);
    let mut clean = observed(&[], table(100));
    clean.facts.holders = vec![holder(90.0)];
    assert_eq!(patterns(&clean), []);
}

#[test]
fn a_role_that_sees_nothing_finds_nothing_and_says_so() {
    let hidden = vec![Session::default(); 30];
    let observation = observed(&hidden, TableCounters::default());
    let (findings, notes) = evaluate(&observation);
    assert_eq!(findings, []);
    assert!(notes[0].contains("pg_read_all_stats"), "{notes:?}");
}

#[test]
fn no_value_of_a_statement_is_printed() {
    let seen = [
        "UPDATE t SET n = 1 WHERE k = 'secret'",
        "UPDATE t SET n = $1 WHERE k = E'secret'",
        "UPDATE t SET n = 1 WHERE k = 'secret",
    ];
    for sql in seen {
        let observation = observed(
            &sessions(20, sql, Some("Lock:tuple")),
            TableCounters::default(),
        );
        let finding = only(&observation);
        assert_eq!(finding.pattern, Pattern::HotRow, "{sql}");
        assert!(!format!("{finding:?}").contains("secret"), "{finding:?}");
    }
    let table = TableCounters {
        deleted: 1_000,
        dead: 60_000,
        live: 1_000,
        ..TableCounters::default()
    };
    let mut pinned = observed(&[], table);
    pinned.facts.holders = vec![Holder {
        kind: "session".to_owned(),
        name: "7".to_owned(),
        statement: Some("SELECT * FROM t WHERE k = 'secret'".to_owned()),
        seconds: Some(90.0),
        ..Holder::default()
    }];
    let finding = only(&pinned);
    assert!(
        finding.evidence[0]
            .fact
            .ends_with("SELECT * FROM t WHERE k = ?"),
        "{finding:?}"
    );
}

#[test]
fn outputs_escape_what_the_server_says() {
    let evil = "UPDATE \"<b>\n;DROP TABLE x\" SET n = 1 WHERE k = 5";
    let mut observation = observed(
        &sessions(20, evil, Some("Lock:tuple")),
        TableCounters::default(),
    );
    observation.after.tables[0].name = "<b>\n;DROP TABLE x".to_owned();
    observation.after.tables[0].qualified = "public.\"<b>\n;DROP TABLE x\"".to_owned();
    let (findings, _) = evaluate(&observation);
    assert_eq!(
        findings[0].table.as_deref(),
        Some("public.\"<b>\n;DROP TABLE x\"")
    );
    let page = format::html(&findings);
    assert!(
        page.contains("&lt;b&gt;") && !page.contains("<b>"),
        "{page}"
    );
    let script = format::sql(&findings);
    assert!(
        !script.lines().any(|line| line.starts_with(';')),
        "{script}"
    );
    let parsed: serde_json::Value = serde_json::from_str(&format::json(&findings)).unwrap();
    assert_eq!(parsed[0]["pattern"], "hot-row");
    assert_eq!(parsed[0]["severity"], "high");
    assert!(parsed[0]["advice"][0]["configuration"].is_string());
    assert_eq!(format::json(&[]), "[]");
    assert!(format::text(&findings).starts_with("high   hot-row"));
}

#[test]
fn counters_that_were_reset_say_nothing() {
    let table = TableCounters {
        updated: 5_000,
        blocks: 9_000,
        ..TableCounters::default()
    };
    let seen = sessions(20, UPDATE, Some("Lock:tuple"));
    let observation = observed(&seen, table);
    assert_eq!(only(&observation).table.as_deref(), Some("public.t"));
    let resets: [fn(&mut TableCounters); 2] = [|now| now.updated = 4_000, |now| now.blocks = 100];
    for reset in resets {
        let mut observation = observation.clone();
        observation.before.tables = observation.after.tables.clone();
        reset(&mut observation.after.tables[0]);
        let finding = only(&observation);
        assert_eq!((finding.pattern, finding.table), (Pattern::HotRow, None));
    }
}

/// What `pg_stat_statements` has counted of a statement.
fn counted(text: &str, calls: i64, rows: i64) -> StatementCounters {
    StatementCounters {
        id: Some("17".to_owned()),
        text: Some(text.to_owned()),
        calls,
        milliseconds: 2.5 * f64::from(i32::try_from(calls).unwrap()),
        rows,
    }
}

fn says(finding: &Finding, text: &str) -> bool {
    finding
        .evidence
        .iter()
        .any(|evidence| evidence.fact.contains(text))
}

#[test]
fn executions_are_those_between_the_readings() {
    let mut hot = observed(
        &sessions(20, UPDATE, Some("Lock:tuple")),
        TableCounters::default(),
    );
    assert!(!says(&only(&hot), "pg_stat_statements"));
    let text = "UPDATE t SET n = n - $1 WHERE k = $2";
    hot.statements_before = vec![counted(text, 1_000, 1_000)];
    hot.statements_after = vec![counted(text, 3_000, 3_000)];
    let expected = "pg_stat_statements: 200 executions per second, 2.5 ms and 1.0 rows each";
    assert!(says(&only(&hot), expected), "{:?}", only(&hot));
}

#[test]
fn a_statement_that_is_new_among_many_has_no_known_executions() {
    let text = "UPDATE t SET n = n - $1 WHERE k = $2";
    let mut hot = observed(
        &sessions(20, UPDATE, Some("Lock:tuple")),
        TableCounters::default(),
    );
    hot.statements_after = vec![counted(text, 3_000, 3_000)];
    assert!(says(&only(&hot), "300 executions per second"));
    let other = |n: usize| StatementCounters {
        id: Some(format!("other {n}")),
        ..counted("SELECT $1", 1, 1)
    };
    hot.statements_before = (0..crate::queries::STATEMENTS_MAX).map(other).collect();
    assert!(!says(&only(&hot), "pg_stat_statements"));
}

#[test]
fn a_statement_that_the_server_has_cut_is_read_from_the_extension() {
    let text = format!(
        "UPDATE t SET n = n - 1 WHERE k = 5 AND s <> '{}'",
        "x".repeat(2_000)
    );
    let cut = &text[..1_023];
    let mut hot = observed(
        &sessions(40, cut, Some("Lock:tuple")),
        TableCounters::default(),
    );
    let whole = "UPDATE t SET n = n - $1 WHERE k = $2 AND s <> $3";
    assert_ne!(patterns(&hot).first(), None);
    assert_ne!(only(&hot).statement.as_deref(), Some(whole));
    hot.statements_after = vec![counted(whole, 10, 10)];
    assert_eq!(only(&hot).statement.as_deref(), Some(whole));
    // A setting of the server.
    let size = ("track_activity_query_size".to_owned(), "4096B".to_owned());
    hot.facts.settings = [size].into_iter().collect();
    assert_ne!(only(&hot).statement.as_deref(), Some(whole));
}

#[test]
fn reads_by_a_key_without_an_index_need_one() {
    let read = "SELECT * FROM t WHERE customer = 5";
    let scanned = TableCounters {
        whole_scans: 500,
        whole_rows: 500 * 10_000,
        blocks: 50_000,
        ..TableCounters::default()
    };
    let mut reads = observed(&sessions(8, read, None), scanned);
    reads.statements_after = vec![counted("SELECT * FROM t WHERE customer = $1", 500, 2_500)];
    let finding = only(&reads);
    assert_eq!(finding.pattern, Pattern::ScatteredRead);
    let sql = "CREATE INDEX CONCURRENTLY \"t_customer_advised\" ON public.t (customer)";
    assert_eq!(finding.advice[0].sql.as_deref(), Some(sql));
    assert_eq!(finding.advice[0].apply, Apply::Safe);
    let found = |changed: &dyn Fn(&mut Observation)| {
        let mut other = reads.clone();
        changed(&mut other);
        patterns(&other).contains(&Pattern::ScatteredRead)
    };
    assert!(found(&|_| {}));
    // Without the extension, the number of rows that a read needs is unknown.
    assert!(!found(&|reads| reads.statements_after.clear()));
    assert!(!found(&|reads| reads.statements_after[0].rows = 500 * 5_000));
    assert!(!found(&|reads| {
        let index = &mut reads.facts.tables[0].indexes[0];
        index.columns = vec![Some("customer".to_owned())];
    }));
    assert!(!found(&|reads| {
        let distinct = &mut reads.facts.tables[0].distinct_values;
        distinct.insert("customer".to_owned(), 7.0);
    }));
    for text in [
        "SELECT count(*) FROM t WHERE customer = $1",
        "SELECT * FROM t WHERE customer = $1 OR id = $2",
        "SELECT * FROM t WHERE customer = $1 ORDER BY id LIMIT $2",
        "SELECT DISTINCT id FROM t WHERE customer = $1",
        "SELECT * FROM t WHERE id IN (SELECT id FROM t WHERE customer = $1)",
        "SELECT * FROM t WHERE region = $1",
    ] {
        let sql = text.replace("$1", "5").replace("$2", "6");
        let mut other = observed(&sessions(8, &sql, None), reads.after.tables[0].clone());
        other.statements_after = vec![counted(text, 500, 500)];
        assert_eq!(patterns(&other), [], "{text}");
    }
}

#[test]
fn a_queue_that_keeps_its_rows_needs_a_partial_index_and_a_parallel_vacuum() {
    let take = "UPDATE t SET n = 1 WHERE k = (SELECT k FROM t WHERE n = 0 ORDER BY k LIMIT 1 FOR UPDATE SKIP LOCKED)";
    let kept = TableCounters {
        updated: 1_000,
        live: 50_000,
        dead: 90_000,
        ..TableCounters::default()
    };
    let mut queue = observed(&sessions(30, take, None), kept);
    assert!(advises(
        &only(&queue),
        "CREATE INDEX CONCURRENTLY ON public.t (…) WHERE"
    ));
    assert!(!advises(&only(&queue), "VACUUM (PARALLEL"));
    let mut large = queue.facts.tables[0].indexes[0].clone();
    large.pages = 500.0;
    queue.facts.tables[0].indexes = vec![large.clone(), large];
    let workers = (
        "max_parallel_maintenance_workers".to_owned(),
        "4".to_owned(),
    );
    queue.facts.settings = [workers].into_iter().collect();
    assert!(advises(&only(&queue), "VACUUM (PARALLEL 2) public.t"));
}
