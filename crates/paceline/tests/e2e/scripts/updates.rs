//! UPDATE statements of every shape, foldable or not: the answers are those of PostgreSQL in each case.

use super::script::{Script, Step, lockstep, q, run, x};
use crate::harness::message::{bind, describe, execute, parse};

pub(super) fn scripts() -> Vec<Script> {
    vec![
        lockstep("foldable updates, simple", foldable()),
        lockstep("foldable updates, extended", foldable_extended()),
        lockstep("other updates", others()),
        lockstep("hinted updates", hinted()),
        lockstep("failing updates", failing()),
    ]
}

fn foldable() -> Vec<Step> {
    vec![
        q("UPDATE t SET n = n + 1 WHERE id = 1"),
        q("UPDATE t SET n = n + 1 WHERE id = 1"),
        q("UPDATE t SET n = n + 1 WHERE id = 1 RETURNING n"),
        q("UPDATE t SET n = n + 1 WHERE id = 1 RETURNING n"),
        q("UPDATE t SET n = n - 9 WHERE id = 1 AND n >= 9 RETURNING n, s"),
        q("UPDATE t SET n = n - 9 WHERE id = 1 AND n >= 9 RETURNING n, s"),
        q("UPDATE t SET n = n - 9, s = s || '!', d = d * 1.1 WHERE id = 2 RETURNING *"),
        q("UPDATE t SET n = n - 9, s = s || '!', d = d * 1.1 WHERE id = 2 RETURNING *"),
        q("UPDATE public.t AS x SET s = x.n::text WHERE x.id = 3 RETURNING x.s AS \"S\", x.id + 1"),
        q("UPDATE public.t AS x SET s = x.n::text WHERE x.id = 3 RETURNING x.s AS \"S\", x.id + 1"),
        q("UPDATE pair SET n = n + 1 WHERE a = 1 AND b = 'x' RETURNING *"),
        q("UPDATE pair SET n = n + 1 WHERE a = 1 AND b = 'x' RETURNING *"),
        q("UPDATE pair SET n = n + 1 WHERE b = 'y' AND a = 1"),
        q("UPDATE part SET n = n + 1 WHERE id = 3 RETURNING tableoid::regclass, n"),
        q("UPDATE part SET n = n + 1 WHERE id = 3 RETURNING tableoid::regclass, n"),
        q("UPDATE t SET s = NULL WHERE id = 4 RETURNING s, s IS NULL"),
        q("UPDATE t SET s = coalesce(s, 'was null') || n WHERE id = 4 RETURNING s"),
        q("UPDATE t SET (n, s) = (n + 1, 'both') WHERE id = 4 RETURNING n, s"),
        q("UPDATE t SET (n, s) = ROW(n + 1, 'both') WHERE id = 4 RETURNING n, s"),
        q("UPDATE t SET n = CASE WHEN n > 20 THEN 0 ELSE n + 7 END WHERE id = 4 RETURNING n"),
        q("UPDATE t SET n = n + 1 WHERE 1 = id"),
        q("UPDATE t SET n = n + 1 WHERE id = 99 RETURNING n"),
        q("UPDATE t SET n = n WHERE id = 1 AND false"),
        q("UPDATE t SET n = 5, d = n WHERE id = 1 RETURNING d, n"),
        q("UPDATE t SET n = 5, d = n WHERE id = 1 RETURNING d, n"),
    ]
}

fn foldable_extended() -> Vec<Step> {
    let sale = "UPDATE t SET n = n - $1 WHERE id = $2 AND n >= $1 RETURNING n";
    let described = |parameters: &[Option<&str>]| {
        x(&[
            parse("", sale, &[]),
            describe(b'S', ""),
            bind("", "", parameters),
            describe(b'P', ""),
            execute("", 0),
        ])
    };
    vec![
        run(sale, &[Some("3"), Some("1")]),
        run(sale, &[Some("3"), Some("1")]),
        run(sale, &[Some("0"), Some("1")]),
        run(sale, &[None, Some("1")]),
        run(sale, &[Some("3"), None]),
        run(sale, &[Some("3"), Some("99")]),
        run(sale, &[Some("2147483648"), Some("1")]),
        described(&[Some("1"), Some("2")]),
        described(&[Some("1"), Some("2")]),
        run(
            "UPDATE pair SET n = n * $3 WHERE a = $1 AND b = $2 RETURNING *",
            &[Some("1"), Some("y"), Some("3")],
        ),
        run(
            "UPDATE pair SET n = n * $3 WHERE a = $1 AND b = $2 RETURNING *",
            &[Some("1"), Some("y"), Some("3")],
        ),
        run("UPDATE part SET n = $1 WHERE id = $2", &[None, Some("4")]),
        run(
            "UPDATE part SET n = $1 WHERE id = $2",
            &[Some("6"), Some("4")],
        ),
        run(
            "UPDATE t SET s = s || $1, d = $2 WHERE id = $3 RETURNING s, d",
            &[Some("é"), Some("1.005"), Some("5")],
        ),
        run(
            "UPDATE t SET s = s || $1, d = $2 WHERE id = $3 RETURNING s, d",
            &[Some("é"), Some("NaN"), Some("5")],
        ),
    ]
}

fn others() -> Vec<Step> {
    vec![
        q("UPDATE t SET n = n + 1 WHERE id IN (1, 2) RETURNING id, n"),
        q("UPDATE t SET n = n + 1 WHERE id > 3 RETURNING id, n"),
        q("UPDATE t SET n = n + 1 WHERE id = 1 OR id = 2"),
        q("UPDATE t SET n = n + 1 WHERE id = 1 AND id = 2"),
        q("UPDATE t SET id = 50 WHERE id = 5 RETURNING id"),
        q("UPDATE t SET n = (SELECT max(n) + 1 FROM t) WHERE id = 1 RETURNING n"),
        q(
            "UPDATE t SET n = t.n + pair.n FROM pair WHERE t.id = 1 AND pair.a = 2 RETURNING t.n, pair.b",
        ),
        q("UPDATE t SET n = DEFAULT WHERE id = 1"),
        q("UPDATE t SET s = DEFAULT WHERE id = 1 RETURNING s"),
        q("UPDATE ONLY t SET n = n + 1 WHERE id = 2 RETURNING n"),
        q("UPDATE part0 SET n = n + 1 WHERE id = 1"),
        q("UPDATE part SET n = n + 1 WHERE n = 5"),
        q("UPDATE part SET id = id + 100 WHERE id = 7"),
        q("UPDATE t SET n = n + (random() * 0)::int WHERE id = 3 RETURNING n"),
        q("WITH x AS (SELECT 2 AS n) UPDATE t SET n = t.n + x.n FROM x WHERE id = 3 RETURNING t.n"),
        q("EXPLAIN (COSTS OFF) UPDATE t SET n = n + 1 WHERE id = 1"),
        q(
            "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) UPDATE t SET n = n + 1 WHERE id = 1",
        ),
        q("UPDATE t SET n = 1 WHERE id = 1; UPDATE t SET n = 2 WHERE id = 1 RETURNING n"),
    ]
}

fn hinted() -> Vec<Step> {
    vec![
        q("UPDATE /*+ COMMIT_ON_SUCCESS */ t SET n = n + 1 WHERE id = 1 RETURNING n"),
        q("UPDATE /*+ COMMIT_ON_SUCCESS */ t SET n = n + 1 WHERE id = 1 RETURNING n"),
        q(
            "UPDATE /*+ COMMIT_ON_SUCCESS ROLLBACK_ON_FAIL */ t SET n = n - 1000 WHERE id = 1 RETURNING n",
        ),
        q("/*+ COMMIT_ON_SUCCESS */ UPDATE t SET n = n + 1 WHERE id = 2"),
        q("INSERT /*+ COMMIT_ON_SUCCESS */ INTO pair VALUES (9, 'h', 1) ON CONFLICT DO NOTHING"),
        q("DELETE /*+ COMMIT_ON_SUCCESS */ FROM pair WHERE a = 9"),
        run(
            "UPDATE /*+ COMMIT_ON_SUCCESS */ t SET n = n + $1 WHERE id = $2 RETURNING n",
            &[Some("2"), Some("3")],
        ),
        run(
            "UPDATE /*+ COMMIT_ON_SUCCESS */ t SET n = n + $1 WHERE id = $2 RETURNING n",
            &[Some("2"), Some("3")],
        ),
        run(
            "UPDATE /*+ COMMIT_ON_SUCCESS */ t SET n = n + $1 WHERE id = $2 RETURNING n",
            &[Some("-900"), Some("3")],
        ),
        q("UPDATE /*+ NO_SUCH_HINT */ t SET n = n + 1 WHERE id = 1"),
    ]
}

fn failing() -> Vec<Step> {
    vec![
        q("UPDATE t SET n = n / 0 WHERE id = 1"),
        q("UPDATE t SET n = n / 0 WHERE id = 99"),
        q("UPDATE t SET n = -1 WHERE id = 1"),
        q("UPDATE t SET n = n - 4 WHERE id = 1 RETURNING n"),
        q("UPDATE t SET n = n - 4 WHERE id = 1 RETURNING n"),
        q("UPDATE t SET n = NULL WHERE id = 1"),
        q("UPDATE t SET n = 2147483647 WHERE id = 1"),
        q("UPDATE t SET n = n + 1 WHERE id = 1"),
        q("UPDATE t SET d = 1e9 WHERE id = 1"),
        q("UPDATE t SET n = 'x' WHERE id = 1"),
        q("UPDATE t SET n = s WHERE id = 1"),
        q("UPDATE t SET missing = 1 WHERE id = 1"),
        q("UPDATE missing SET n = 1 WHERE id = 1"),
        q("UPDATE t SET n = 1, n = 2 WHERE id = 1"),
        q("UPDATE t SET n = 1 WHERE id = 'x'"),
        q("UPDATE t SET n = 1 WHERE id = 1 RETURNING missing"),
        q("UPDATE t SET n = 1 WHERE id = 2 RETURNING 1 / (n - 1)"),
        q("SELECT n FROM t ORDER BY id"),
    ]
}
