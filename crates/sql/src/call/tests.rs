//! Which calls are rewritten, and how. End-to-end tests check the effect of the statements.

use super::{Call, rewrite};
use crate::distribution::{Distribution, DistributionRefusal};
use crate::facts::CatalogVersion;
use crate::function::FunctionFacts;
use crate::type_name::TypeName;
use crate::{Effect, KeyValue, parse};

const READ: &str = "SELECT msg_id, body || $2 FROM pgmq.read($1, 30, $3)";

fn call(sql: &str) -> Option<Call> {
    let statement = parse(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    assert_eq!(statement.effect, Effect::Read);
    statement.call
}

/// A function whose third argument is the limit.
fn function() -> FunctionFacts {
    FunctionFacts {
        schema: "pgmq".to_owned(),
        name: "read".to_owned(),
        limit_argument: 3,
        limit_name: Some("qty".to_owned()),
        limit_type: "integer".to_owned(),
        catalog_version: CatalogVersion::new(
            "pg_catalog.to_regproc('f')::pg_catalog.text".to_owned(),
            "{}".to_owned(),
        ),
    }
}

fn rewritten(sql: &str, returning: usize) -> Result<Distribution, DistributionRefusal> {
    let text = TypeName {
        sql: "text".to_owned(),
        array: false,
        builtin: true,
        collatable: false,
    };
    let columns = ["msg_id", "body"].map(str::to_owned);
    let (parameters, returning) = (vec![text.clone(); 3], vec![text; returning]);
    rewrite(
        &call(sql).unwrap(),
        &function(),
        &columns,
        &parameters,
        &returning,
    )
}

#[test]
fn a_call_has_its_parts_found() {
    let read = call(READ).unwrap();
    assert_eq!(read.function.schema.as_deref(), Some("pgmq"));
    assert_eq!((read.arguments.len(), read.targets.len()), (3, 2));
    assert_eq!((read.arguing().len(), read.selecting().len()), (3, 2));
    assert_eq!(
        read.all_columns_sql().unwrap(),
        "SELECT * FROM \"pgmq\".\"read\"((($1)), (30), (($3)))"
    );
    let named = call("SELECT m.* FROM read('q', qty => 1, vt => 2) AS m").unwrap();
    assert_eq!(named.arguments[1].name.as_deref(), Some("qty"));
    assert_eq!(
        named.all_columns_sql().unwrap(),
        "SELECT * FROM \"read\"(('q'), \"qty\" => (1), \"vt\" => (2)) AS \"m\""
    );
}

#[test]
fn other_selects_are_not_calls() {
    for sql in [
        "SELECT pgmq.read('q', 30, 1)",
        "SELECT * FROM q",
        "SELECT * FROM read('q', 30, 1) WHERE msg_id > 1",
        "SELECT * FROM read('q', 30, 1) LIMIT 1",
        "SELECT * FROM read('q', 30, 1) ORDER BY 1",
        "SELECT DISTINCT msg_id FROM read('q', 30, 1)",
        "SELECT count(*) FROM read('q', 30, 1)",
        "SELECT (SELECT 1) FROM read('q', 30, 1)",
        "SELECT * FROM read('q', 30, 1), other",
        "SELECT * FROM read('q', 30, 1) WITH ORDINALITY",
        "SELECT * FROM read('q', 30, 1) AS m(a, b)",
        "SELECT * FROM read('q', 30, 1) AS m(a int)",
        "SELECT * FROM ROWS FROM (read('q', 30, 1))",
        "SELECT * FROM read('q', 30, VARIADIC ARRAY[1])",
        "SELECT * FROM read((SELECT name FROM queues), 30, 1)",
        "WITH x AS (SELECT 1) SELECT * FROM read('q', 30, 1)",
        "SELECT * FROM read('q', 30, 1) UNION ALL SELECT * FROM read('q', 30, 1)",
    ] {
        assert_eq!(call(sql), None, "{sql}");
    }
}

#[test]
fn the_declared_argument_receives_the_sum_of_the_limits() {
    let read = rewritten(READ, 2).unwrap();
    assert_eq!(
        (read.limit, read.single, read.queue),
        (KeyValue::Parameter(3), false, true)
    );
    assert_eq!(read.shared, [1, 2]);
    assert!(read.per_member.is_empty() && read.raises_anything);
    let total = "(CASE WHEN facts.same THEN $1::pg_catalog.int8 END)::integer";
    assert!(
        read.text.contains(&format!(
            "LATERAL \"pgmq\".\"read\"((($3::text)), (30), {total}) WITH ORDINALITY AS t(c1, c2, n)"
        )),
        "{}",
        read.text
    );
    assert!(read.text.contains("t.c1)"), "{}", read.text);
    parse(&read.text).unwrap_or_else(|error| panic!("{error}: {}", read.text));
    let by_name = rewritten("SELECT * FROM pgmq.read($1, qty => 5, vt => 30)", 2).unwrap();
    assert!(
        by_name.text.contains(&format!("\"qty\" => {total}")),
        "{}",
        by_name.text
    );
    assert!(matches!(by_name.limit, KeyValue::Constant { text, .. } if text == "5"));
}

#[test]
fn a_limit_that_is_no_plain_value_is_refused() {
    for sql in [
        "SELECT * FROM pgmq.read($1, 30)",
        "SELECT * FROM pgmq.read($1, 30, $3 + 1)",
        "SELECT * FROM pgmq.read($1, $3, $3)",
        "SELECT msg_id, $3 FROM pgmq.read($1, 30, $3)",
    ] {
        assert_eq!(rewritten(sql, 2), Err(DistributionRefusal::Limit), "{sql}");
    }
    assert_eq!(
        rewritten("SELECT read FROM pgmq.read($1, 30, 1)", 1),
        Err(DistributionRefusal::Column("read".to_owned())),
        "the whole row"
    );
}
