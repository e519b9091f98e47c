//! psql: commands as users type them.

use super::compare::check;
use crate::harness::caretaker;
use crate::harness::programs::{output, program};

/// The \d family, \copy both ways, \gdesc, \gset, \gexec, \watch, \crosstabview, errors, transactions.
const SCRIPT: &str = r"
CREATE TABLE t (id int PRIMARY KEY, note text DEFAULT 'x', part int CHECK (part > 0));
CREATE INDEX ON t (note);
CREATE VIEW v AS SELECT id FROM t;
CREATE FUNCTION twice(n int) RETURNS int LANGUAGE sql AS 'SELECT n * 2';
CREATE SEQUENCE numbers;
CREATE TYPE mood AS ENUM ('sad', 'glad');
\d
\d t
\d+ v
\dt+ t
\di
\ds
\df twice
\dT
\dn
\sf twice
\sv v
INSERT INTO t SELECT n, 'note ' || n, n FROM generate_series(1, 2000) n;
\copy (SELECT * FROM t ORDER BY id) TO 'FILE'
TRUNCATE t;
\copy t FROM 'FILE'
SELECT count(*), sum(id), md5(string_agg(note, ',' ORDER BY id)) FROM t;
\copy t FROM 'FILE'
SELECT 1 AS one, 'two'::text AS two, now() AS three \gdesc
SELECT count(*) AS rows FROM t \gset
\echo :rows
SELECT format('SELECT %s * 2', n) FROM generate_series(1, 3) n \gexec
SELECT id % 2 AS a, id % 3 AS b, count(*) FROM t GROUP BY 1, 2 ORDER BY 1, 2 \crosstabview
\set FETCH_COUNT 100
SELECT id FROM t ORDER BY id LIMIT 250;
\unset FETCH_COUNT
BEGIN;
SELECT 1 / 0;
SELECT 1;
\echo :SQLSTATE :LAST_ERROR_MESSAGE
ROLLBACK;
\set ON_ERROR_ROLLBACK on
BEGIN;
SELECT nothing;
SELECT 'goes on';
COMMIT;
CREATE TABLE watched (n serial);
INSERT INTO watched DEFAULT VALUES RETURNING 1 / (2 - n) AS until_it_fails
\watch 0.01
SELECT 1 \; SELECT 2 \; SELECT 3;
DO $$ BEGIN RAISE NOTICE 'heard'; END $$;
\encoding
COPY t TO STDOUT (FORMAT csv, HEADER);
COPY (SELECT 1) TO STDOUT \; SELECT 'after';
COPY t FROM STDIN;
9001	typed	1
\.
SELECT * FROM t WHERE id > 9000;
";

#[test]
fn a_session_says_the_same() {
    check(0, |url| {
        let folder = caretaker::folder("psql");
        let script = SCRIPT.replace("FILE", folder.join("rows").to_str().unwrap());
        let file = folder.join("script");
        std::fs::write(&file, script).unwrap();
        // Its errors are printed where they happen.
        let mut psql = program("sh");
        psql.args(["-c", r#"exec "$0" "$@" 2>&1"#])
            .arg(program("psql").get_program());
        psql.args(["-X", "-a", "-f"])
            .arg(file)
            .args(["--dbname", url]);
        let said = output(&mut psql).replace(folder.to_str().unwrap(), "");
        // `\watch` shows the time.
        let kept = said.lines().filter(|line| !line.contains("(every "));
        kept.map(|line| format!("{line}\n")).collect()
    });
}
