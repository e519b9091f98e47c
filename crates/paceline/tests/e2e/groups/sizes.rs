//! The storage of values: a group leaves the sizes and the compression that statements alone leave, except where only an intermediate row
//! version would have changed them; and a statement that reads them runs alone.

use super::Together;
use crate::harness::Stage;
use crate::harness::stage::Target;
use crate::harness::together::Tables;

const SETUP: &str = "
    CREATE TABLE z (id int PRIMARY KEY, k int, n numeric, t text, u text, e text, m text, v varchar(4000), b bytea, j jsonb, a int[], ta text[]);
    ALTER TABLE z ALTER e SET STORAGE EXTERNAL, ALTER m SET STORAGE MAIN, ALTER v SET COMPRESSION pglz;
    CREATE TABLE done (LIKE z);
    CREATE FUNCTION noise(seed int, length int) RETURNS text LANGUAGE sql IMMUTABLE AS
        $$SELECT left(string_agg(md5((seed * 1000 + i)::text), ''), length) FROM generate_series(1, length / 32 + 1) i$$";

/// Short values, values that fit into a row, values that only fit compressed, and values that do not fit at all.
const FILL: &str = "DELETE FROM z; DELETE FROM done;
    INSERT INTO z SELECT i, i % 2, i, repeat('t', s), noise(i, s), repeat('e', s), repeat('m', s), repeat('v', least(s, 4000)), decode(md5(i::text), 'hex'),
        jsonb_build_object('k', noise(i, s / 2), 'l', repeat('x', s)), array_fill(i, ARRAY[s / 8 + 1]), array_fill(noise(i, 20), ARRAY[s / 99 + 1])
    FROM (VALUES (0, 10), (1, 100), (2, 1500), (3, 3000), (4, 20000)) x(i, s)";

const CONTENT: &str = "SELECT id, k, n, md5(z::text), pg_column_size(n), pg_column_size(t), pg_column_size(u), pg_column_size(e), pg_column_size(m),
        pg_column_size(v), pg_column_size(b), pg_column_size(j), pg_column_size(a), pg_column_size(ta), pg_column_compression(t), pg_column_compression(u),
        pg_column_compression(e), pg_column_compression(m), pg_column_compression(v), pg_column_compression(j), pg_column_compression(a)
    FROM (SELECT * FROM z UNION ALL SELECT 100 + id, k, n, t, u, e, m, v, b, j, a, ta FROM done) z ORDER BY id";

/// Several members on a row, one each on rows of their own, inserts, upserts, consumers.
const WRITES: [&str; 12] = [
    "UPDATE z SET n = n + ?, t = t || 't', u = u || 'u', e = e || 'e', m = m || 'm', v = left(v, 3000) || 'v', b = b || 'b'::bytea, j = j || '{\"n\": 1}' WHERE id = 1",
    "UPDATE z SET n = n + ?, t = t || 't', u = u || 'u', e = e || 'e', m = m || 'm', v = left(v, 3000) || 'v', j = j || '{\"n\": 1}', a = a || 1 WHERE id = 3",
    "UPDATE z SET n = n * 1.10 + ?, t = left(t, 200), u = left(u, 100) || t, a = '{1,2,3}', ta = '{a,b}' WHERE id = 4",
    "UPDATE z SET n = n + ?, t = t, u = '', e = '', m = '', v = '', j = j, a = a, ta = '{}' WHERE id = 3",
    "UPDATE z SET n = n + ?, t = repeat('x', 3000), j = '{\"a\": 1}', v = 'short' WHERE id = 2",
    "UPDATE z SET n = n + 1, t = t || 't', u = u || 'u', j = j || '{}' WHERE id = ?",
    "INSERT INTO done (id, t, u, e, m, j, a, n) VALUES (?, repeat('t', 3000), 'short', repeat('e', 500), '', '{\"a\": [1, 2]}', '{1,2,3}', 1.50)",
    "INSERT INTO done (id, t, n, a) VALUES (?, 'short' || 'x', 1.0 + 0.5, ARRAY[1, 2] || 3)",
    "INSERT INTO z (id, t, u, n) VALUES (?, 'short', 'x', 1) ON CONFLICT (id) DO UPDATE SET n = z.n + 1, t = z.t, u = z.u || EXCLUDED.u, e = z.e, j = z.j, a = z.a",
    "INSERT INTO z (id, t, u, n) VALUES (3, 'short', 'x', ?) ON CONFLICT (id) DO UPDATE SET n = z.n + EXCLUDED.n, t = z.t || EXCLUDED.t, e = EXCLUDED.t, a = z.a",
    "UPDATE z SET k = 9, n = n + 1, t = t, u = u || 'x', e = e, j = j, a = a || 1 WHERE id IN (SELECT id FROM z WHERE k = 0 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)",
    "WITH job AS (DELETE FROM z WHERE id IN (SELECT id FROM z WHERE k = 0 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING *) INSERT INTO done (id, t, u, e, n) SELECT id, t, u || 'x', e, n FROM job",
];

/// Values are stored otherwise within a group than in a row.
const READING_SIZES: [&str; 5] = [
    "UPDATE z SET n = n + ? WHERE id = 1 RETURNING n, pg_column_size(n)",
    "UPDATE z SET n = n + ?, t = t || 'x' WHERE id = 3 AND pg_column_size(t) < 1000 RETURNING n, pg_column_compression(t)",
    "UPDATE z SET n = pg_column_size(t) + ? WHERE id = 3 RETURNING n",
    "INSERT INTO z (id, t, n) VALUES (?, 't', pg_column_size('t'::text)) ON CONFLICT (id) DO UPDATE SET n = pg_column_size(z.t) RETURNING n, pg_column_size(n)",
    "DELETE FROM z WHERE id IN (SELECT id FROM z WHERE k = 0 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id, pg_column_size(t), pg_column_size(n)",
];

fn compare_all(statements: &[&str]) -> Vec<bool> {
    let stage = Stage::for_groups();
    stage.direct().ok(SETUP);
    let tables = Tables {
        fill: FILL,
        content: CONTENT,
    };
    let together = Together {
        stage: &stage,
        tables,
        begin: "",
    };
    let forms = |sql: &&str| [true, false].map(|prepared| together.compare(sql, prepared));
    let grouped = statements.iter().flat_map(forms).collect();
    match stage.target() {
        Target::Bare => Vec::new(),
        _ => grouped,
    }
}

#[test]
fn groups_store_what_statements_alone_store() {
    let grouped = compare_all(&WRITES);
    assert!(grouped.iter().all(|grouped| *grouped), "{grouped:?}");
}

#[test]
fn reads_of_sizes_run_alone() {
    let grouped = compare_all(&READING_SIZES);
    assert!(grouped.iter().all(|grouped| !grouped), "{grouped:?}");
}
