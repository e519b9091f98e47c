//! Accepted texts, and the same text on another table.

use super::*;
use crate::literals::{LiteralKind, take_out_literals};
use crate::value::KeyValue;

fn read(sql: &str) -> KeyedStatement {
    KeyedStatement::read(sql).unwrap_or_else(|why| panic!("{sql}: {why}"))
}

fn on_shard(sql: &str) -> String {
    read(sql)
        .on(sql, 0, "s", "t_1")
        .map_or_else(String::new, |moved| moved.text)
}

fn columns(sql: &str) -> Vec<String> {
    match read(sql).values {
        KeyValues::Conjuncts(found) => found.into_iter().map(|found| found.column).collect(),
        KeyValues::Rows { columns, .. } => columns,
    }
}

#[test]
fn equalities_among_the_conjuncts_of_where_are_found() {
    for (sql, wanted) in [
        ("SELECT * FROM t WHERE id = $1", &["id"][..]),
        (
            "SELECT v FROM t WHERE v > 1 AND (t.id = 5 AND 'x' = k)",
            &["id", "k"],
        ),
        ("UPDATE t SET v = v + 1 WHERE id IN ($1)", &["id"]),
        (
            "DELETE FROM s.t AS a WHERE a.id = $1::uuid RETURNING *",
            &["id"],
        ),
        (
            "SELECT count(*) FROM t WHERE id = 1 AND (k = 2 OR k = 3)",
            &["id"],
        ),
        (
            "INSERT INTO t (id, v) VALUES ($1, $2), (3, now())",
            &["id", "v"],
        ),
    ] {
        assert_eq!(columns(sql), wanted, "{sql}");
    }
}

#[test]
fn a_cast_belongs_to_the_value() {
    let statement = read("SELECT 1 FROM t WHERE id = '5'::int");
    let KeyValues::Conjuncts(found) = statement.values else {
        panic!("no conjuncts");
    };
    let value = KeySource::Value {
        value: KeyValue::Constant {
            kind: LiteralKind::Unknown,
            text: "5".to_owned(),
        },
        cast: Name::from_parts(vec!["pg_catalog".to_owned(), "int4".to_owned()]),
    };
    assert_eq!(found.first().map(|found| &found.value), Some(&value));
}

#[test]
fn signs_and_truth_values_belong_to_literals() {
    let value = |sql: &str| {
        let KeyValues::Conjuncts(found) = read(sql).values else {
            panic!("no conjuncts");
        };
        found.into_iter().next().map(|found| found.value)
    };
    let boolean = |text: &str| KeySource::Value {
        value: KeyValue::Constant {
            kind: LiteralKind::Unknown,
            text: text.to_owned(),
        },
        cast: Name::from_parts(vec!["pg_catalog".to_owned(), "bool".to_owned()]),
    };
    assert_eq!(value("SELECT 1 FROM t WHERE b = true"), Some(boolean("t")));
    assert_eq!(value("SELECT 1 FROM t WHERE FALSE = b"), Some(boolean("f")));
    assert_eq!(
        value("SELECT 1 FROM t WHERE id = -$2"),
        Some(KeySource::Negative(2))
    );
    for sql in [
        "SELECT 1 FROM t WHERE id = +$1",
        "SELECT 1 FROM t WHERE id = 1 - $1",
        "SELECT 1 FROM t WHERE id = -$1::int",
        "SELECT 1 FROM t WHERE id = -v",
        "SELECT 1 FROM t WHERE id OPERATOR(s.=) -$1",
    ] {
        assert!(KeyedStatement::read(sql).is_err(), "{sql}");
    }
}

#[test]
fn what_may_mean_something_else_is_refused() {
    use KeyedRefusal::*;
    for (sql, why) in [
        ("SELECT 1", NotOneTable),
        ("SELECT * FROM t", NoKey),
        ("SELECT * FROM t WHERE id = 1 OR id = 2", NoKey),
        ("SELECT * FROM t WHERE id > 1", NoKey),
        ("SELECT * FROM t WHERE id IN (1, 2)", NoKey),
        ("SELECT * FROM t WHERE id = 1 + 1", NoKey),
        ("SELECT * FROM t WHERE NOT id = 1", NoKey),
        ("SELECT * FROM t WHERE id = v", NoKey),
        ("SELECT * FROM t WHERE id <> 1", NoKey),
        ("SELECT * FROM t WHERE id = '5'::varchar(3)", NoKey),
        (
            "SELECT * FROM t JOIN u USING (id) WHERE id = 1",
            NotOneTable,
        ),
        ("SELECT * FROM t, u WHERE t.id = 1", NotOneTable),
        ("SELECT * FROM t WHERE id = 1 AND v = (SELECT 1)", Subselect),
        (
            "WITH w AS (SELECT 1) SELECT * FROM t WHERE id = 1",
            Subselect,
        ),
        (
            "SELECT * FROM t WHERE id = 1 UNION SELECT * FROM t",
            NotOneTable,
        ),
        ("SELECT * FROM ONLY t WHERE id = 1", Only),
        ("SELECT * FROM t * WHERE id = 1", Only),
        ("SELECT * FROM t WHERE id = 1 FOR UPDATE", Locks),
        (
            "SELECT * FROM t TABLESAMPLE system (1) WHERE id = 1",
            Sample,
        ),
        ("UPDATE t SET v = 1 FROM u WHERE t.id = 1", NotOneTable),
        ("DELETE FROM t USING u WHERE t.id = 1", NotOneTable),
        ("DELETE FROM t WHERE CURRENT OF c", Cursor),
        ("SELECT tableoid FROM t WHERE id = 1", SystemColumn),
        (
            "UPDATE t SET v = 1 WHERE id = 1 RETURNING t.xmin",
            SystemColumn,
        ),
        ("SELECT current_user FROM t WHERE id = 1", SystemColumn),
        ("SELECT t FROM t WHERE id = 1", WholeRow),
        ("SELECT row_to_json(t) FROM t WHERE id = 1", WholeRow),
        ("SELECT count(t.*) FROM t WHERE id = 1", WholeRow),
        ("SELECT (t).v FROM t WHERE id = 1", WholeRow),
        ("SELECT t IS NULL FROM t AS x(id) WHERE id = 1", Alias),
        ("SELECT public.t.v FROM public.t WHERE id = 1", Alias),
        ("SELECT a.v FROM t AS new WHERE id = 1", Alias),
        ("SELECT v COLLATE \"C\" FROM t WHERE id = 1", Collation),
        ("UPDATE t SET v[1] = 1 WHERE id = 1", PartOfColumn),
        ("INSERT INTO t SELECT 1", InsertForm),
        ("INSERT INTO t DEFAULT VALUES", InsertForm),
        (
            "INSERT INTO t OVERRIDING SYSTEM VALUE VALUES (1)",
            InsertForm,
        ),
        (
            "INSERT INTO t VALUES (1) ON CONFLICT ON CONSTRAINT k DO NOTHING",
            InsertForm,
        ),
        ("TABLE t", NoKey),
        ("SELECT 1; SELECT 2", NotOneStatement),
        ("", NotOneStatement),
        ("TRUNCATE t", OtherStatement),
        ("SELEC", NotParsed),
    ] {
        assert_eq!(KeyedStatement::read(sql).err(), Some(why), "{sql}");
    }
}

#[test]
fn only_the_name_of_the_table_is_replaced() {
    for (sql, wanted) in [
        (
            "SELECT t.* /* t */ FROM  public . t  WHERE id = 1",
            "SELECT t.* /* t */ FROM  \"s\".\"t_1\" AS \"t\"  WHERE id = 1",
        ),
        (
            "UPDATE \"T\" SET v = 't' WHERE id = 1",
            "UPDATE \"s\".\"t_1\" AS \"T\" SET v = 't' WHERE id = 1",
        ),
        (
            "DELETE FROM t AS a WHERE a.id = 1",
            "DELETE FROM \"s\".\"t_1\" AS a WHERE a.id = 1",
        ),
        (
            "INSERT INTO t(id) VALUES (1) RETURNING t.id -- t",
            "INSERT INTO \"s\".\"t_1\" AS \"t\"(id) VALUES (1) RETURNING t.id -- t",
        ),
    ] {
        assert_eq!(on_shard(sql), wanted);
        assert!(crate::parse(&on_shard(sql)).is_ok(), "{sql}");
    }
}

#[test]
fn the_place_is_found_in_the_text_with_literals() {
    let sql = "SELECT 'it''s', 123456, v FROM t WHERE id = 7";
    let normal = take_out_literals(sql, true).unwrap();
    let statement = read(&normal.text);
    assert_eq!(statement.parameters_before(), 2);
    let shift = in_original(&normal.literals, statement.parameters_before());
    let moved = statement.on(sql, shift, "s", "t_1").unwrap();
    assert_eq!(
        moved.text,
        "SELECT 'it''s', 123456, v FROM \"s\".\"t_1\" AS \"t\" WHERE id = 7"
    );
}

#[test]
fn positions_are_those_of_the_clients_text() {
    let sql = "SELECT 'ä' FROM t WHERE id = 'x'";
    let moved = read(sql).on(sql, 0, "s", "t_1").unwrap();
    let place = |text: &str, part: &str| {
        let at = text.find(part).unwrap_or_default();
        text.get(..at).unwrap_or_default().chars().count() + 1
    };
    for part in ["SELECT", "'ä'", "FROM", "WHERE", "'x'"] {
        let there = place(&moved.text, part);
        assert_eq!(moved.replaced.back(there), place(sql, part), "{part}");
    }
    let name = place(&moved.text, "\"s\"");
    for inside in 0.."\"s\".\"t_1\"".len() {
        assert_eq!(moved.replaced.back(name + inside), place(sql, "t WHERE"));
    }
}

#[test]
fn a_parameter_in_two_places_has_no_type_of_its_own() {
    let statement = read("UPDATE t SET v = $2 WHERE id = $1 AND v <> $2");
    assert!(statement.has_once(1));
    assert!(!statement.has_once(2) && !statement.has_once(3) && !statement.has_once(0));
}
