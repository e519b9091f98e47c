//! Which statements are recognized as consumers' and how they are rewritten. End-to-end tests check the effect of the
//! statements.

use super::{Take, rewrite};
use crate::distribution::{Distribution, DistributionRefusal, PositionedTexts};
use crate::facts::{CatalogVersion, Column, Extent, TableFacts};
use crate::type_name::TypeName;
use crate::{Effect, KeyValue, parse};

const POP: &str = "DELETE FROM q WHERE id = (SELECT id FROM q WHERE lane = $1 ORDER BY prio DESC, id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id, $2 AS who";
const CLAIM: &str = "UPDATE q SET prio = $2 WHERE id IN (SELECT id FROM q WHERE prio = $1 ORDER BY id LIMIT $3) RETURNING *";
const MOVE: &str = "WITH t AS (DELETE FROM q WHERE ctid = (SELECT ctid FROM q WHERE pg_try_advisory_xact_lock(id) ORDER BY id LIMIT 1) RETURNING id, prio AS p) \
     INSERT INTO done (id, p, at) SELECT id, p, now() FROM t RETURNING id";

fn take(sql: &str) -> Option<Take> {
    parse(sql)
        .unwrap_or_else(|error| panic!("{sql}: {error}"))
        .take
}

fn table(name: &str, columns: &[&str]) -> TableFacts {
    let column = |name: &&str| Column {
        name: (*name).to_owned(),
        type_name: "integer".to_owned(),
        bare_type_name: "integer".to_owned(),
        type_oid: 23,
        type_modifier: -1,
        base_type_oid: 23,
        deterministic: true,
        builtin: true,
        ..Column::default()
    };
    TableFacts {
        schema: "public".to_owned(),
        name: name.to_owned(),
        extent: Extent {
            tree: vec![16_400],
            ..Extent::default()
        },
        catalog_version: CatalogVersion::new(
            format!("pg_catalog.to_regclass('{name}')::pg_catalog.text"),
            name.to_owned(),
        ),
        columns: columns.iter().map(column).collect(),
        keys: vec![vec!["id".to_owned()]],
        ..TableFacts::default()
    }
}

fn queue() -> TableFacts {
    table("q", &["id", "lane", "prio"])
}

fn types(count: usize) -> Vec<TypeName> {
    let integer = TypeName {
        sql: "integer".to_owned(),
        array: false,
        builtin: true,
        collatable: false,
    };
    vec![integer; count]
}

fn rewritten(
    sql: &str,
    queue: &TableFacts,
    parameters: usize,
    returning: usize,
) -> Result<Distribution, DistributionRefusal> {
    let take = take(sql).unwrap_or_else(|| panic!("not a consumer: {sql}"));
    let mut done = table("done", &["id", "p", "at"]);
    done.extent.tree = vec![16_600];
    let onto = take.onward.as_ref().map(|_| &done);
    rewrite(&take, queue, onto, &types(parameters), &types(returning))
}

/// The text of a rewritten statement, checked to be one statement that writes.
fn text_of(sql: &str, parameters: usize, returning: usize) -> String {
    let taking = rewritten(sql, &queue(), parameters, returning)
        .unwrap_or_else(|why| panic!("{sql}: {why}"));
    let statement = parse(&taking.text).unwrap_or_else(|error| panic!("{error}: {}", taking.text));
    assert_eq!((statement.statements, statement.effect), (1, Effect::Write));
    taking.text
}

#[test]
fn the_parts_of_a_consumers_statement_are_found() {
    let pop = take(POP).unwrap();
    assert_eq!((pop.key.as_str(), pop.single), ("id", true));
    assert_eq!(pop.pick.locking, "FOR UPDATE SKIP LOCKED");
    assert_eq!((pop.pick.conditions.len(), pop.pick.order.len()), (1, 2));
    assert_eq!(pop.pick.order[0].1, " DESC");
    assert!(pop.assignments.is_none() && pop.onward.is_none());
    let claim = take(CLAIM).unwrap();
    assert_eq!(claim.pick.limit, KeyValue::Parameter(3));
    assert!(!claim.single && claim.assignments.is_some());
    let moving = take(MOVE).unwrap();
    assert_eq!(moving.key, "ctid");
    let onward = moving.onward.unwrap();
    assert_eq!(onward.columns, ["id", "p", "at"]);
    assert_eq!(onward.relation.name, "done");
}

#[test]
fn other_notations_of_the_condition_are_recognized() {
    for condition in [
        "id = (SELECT q.id FROM public.q ORDER BY q.id LIMIT 1)",
        "id IN (SELECT id FROM public.q FETCH FIRST 2 ROWS ONLY)",
        "id = ANY (SELECT b.id FROM public.q AS b WHERE b.lane > 3 LIMIT 2 FOR NO KEY UPDATE OF b)",
        "a.id = ANY (ARRAY(SELECT id FROM public.q ORDER BY id NULLS FIRST LIMIT 2 FOR UPDATE))",
        "id = (SELECT id AS job FROM public.q ORDER BY lane, id LIMIT 1)",
        "id = (SELECT q.id AS id FROM public.q ORDER BY id DESC LIMIT 1)",
        // Only a name alone can be that of the target.
        "id = (SELECT id AS lane FROM public.q ORDER BY lane + 0 LIMIT 1)",
    ] {
        let sql = format!("DELETE FROM public.q AS a WHERE {condition} RETURNING a.*");
        assert!(take(&sql).is_some(), "{sql}");
    }
}

#[test]
fn other_statements_are_not_consumers() {
    for sql in [
        "DELETE FROM q WHERE id = (SELECT id FROM q ORDER BY id)",
        "DELETE FROM q WHERE id = (SELECT id FROM other LIMIT 1)",
        "DELETE FROM q WHERE id = (SELECT lane FROM q LIMIT 1)",
        "DELETE FROM q WHERE id > (SELECT id FROM q LIMIT 1)",
        "DELETE FROM q WHERE id = (SELECT id FROM q LIMIT 1) AND lane = 3",
        "DELETE FROM q WHERE id = (SELECT id FROM q LIMIT 1 OFFSET 1)",
        "DELETE FROM q WHERE id IN (SELECT DISTINCT id FROM q LIMIT 1)",
        "DELETE FROM q WHERE id IN (SELECT id FROM q ORDER BY 1 LIMIT 1)",
        "DELETE FROM q WHERE id = (SELECT id AS prio FROM q ORDER BY prio LIMIT 1)",
        "DELETE FROM q WHERE id = (SELECT id AS prio FROM q ORDER BY lane, prio DESC LIMIT 1)",
        "WITH t AS (DELETE FROM q WHERE ctid = (SELECT ctid AS id FROM q ORDER BY id LIMIT 1) RETURNING id) INSERT INTO done SELECT id FROM t",
        "DELETE FROM q WHERE id IN (SELECT id FROM q LIMIT ALL)",
        "DELETE FROM q WHERE id IN (SELECT id FROM q LIMIT 1 FOR UPDATE NOWAIT)",
        "DELETE FROM q WHERE id IN (SELECT id FROM q ORDER BY id FETCH FIRST 1 ROWS WITH TIES)",
        "DELETE FROM q WHERE id IN (SELECT id FROM q WHERE EXISTS (SELECT FROM other) LIMIT 1)",
        "DELETE FROM q AS a WHERE id IN (SELECT id FROM q AS b WHERE a.lane = b.lane LIMIT 1)",
        "DELETE FROM q USING other WHERE q.id = (SELECT id FROM q LIMIT 1)",
        "WITH t AS (DELETE FROM q WHERE id = (SELECT id FROM q LIMIT 1) RETURNING id) INSERT INTO done SELECT id FROM t ON CONFLICT DO NOTHING",
        "WITH t AS (DELETE FROM q WHERE id = (SELECT id FROM q LIMIT 1) RETURNING id) INSERT INTO done SELECT id FROM t WHERE id > 3",
        "WITH t AS (DELETE FROM q WHERE id = (SELECT id FROM q LIMIT 1) RETURNING id) INSERT INTO done SELECT id FROM q",
    ] {
        assert!(take(sql).is_none(), "{sql}");
    }
}

#[test]
fn parameters_that_pick_are_shared_and_others_differ_per_consumer() {
    let taking = rewritten(POP, &queue(), 2, 2).unwrap();
    let [per_member] = taking.per_member.as_slice() else {
        panic!("{:?}", taking.per_member);
    };
    assert_eq!(taking.shared, [1]);
    assert_eq!(
        (per_member.numbers.as_slice(), per_member.as_text),
        (&[2][..], false)
    );
    let text = text_of(POP, 2, 2);
    for part in [
        r#"(s."lane") = ($3::integer)"#,
        r#"ORDER BY ((s."prio")) DESC, ((s."id")) LIMIT $1::pg_catalog.int8 FOR UPDATE OF s SKIP LOCKED"#,
        "($5::integer[])[($4::pg_catalog.int4[])[p.n]]",
        r#"DELETE FROM ONLY "public"."q" AS t USING picked AS p WHERE t."id" OPERATOR(pg_catalog.=) p.k"#,
    ] {
        assert!(text.contains(part), "{part} is missing: {text}");
    }
}

/// PostgreSQL converts a consumer's own value to the type of its column at planning, whether there is a row or not.
#[test]
fn a_value_that_may_not_fit_its_column_is_converted_for_each_consumer() {
    let claim =
        "UPDATE q SET prio = $1, lane = $2 WHERE id = (SELECT id FROM q WHERE prio > 3 LIMIT 1)";
    let converts = |type_modifier, bare_type_name: &str| {
        let mut queue = queue();
        queue.columns[2].type_modifier = type_modifier;
        queue.columns[2].bare_type_name = bare_type_name.to_owned();
        let taking = rewritten(claim, &queue, 2, 0).unwrap();
        assert!(!taking.may_fail_unseen, "{}", taking.text);
        let computed = "::integer)) \
            FROM ROWS FROM (pg_catalog.unnest($4::integer[]), pg_catalog.unnest($5::integer[])) AS k(p1, p2)) OPERATOR(pg_catalog.>=) 0 AS same";
        taking.text.contains(computed)
    };
    assert!(!converts(-1, "integer"));
    assert!(!converts(-1, "bigint"));
    assert!(converts(-1, "smallint"));
    assert!(converts(12, "integer"));
}

#[test]
fn expressions_without_columns_are_computed_for_each_consumer() {
    let computed = |sql: &str, parameters| {
        let taking = rewritten(sql, &queue(), parameters, 1).unwrap();
        assert!(!taking.may_fail_unseen, "{}", taking.text);
        let computed = taking.text.split(" AND (SELECT pg_catalog.count(").nth(1)?;
        computed
            .split(" OPERATOR(pg_catalog.>=) 0 AS same")
            .next()
            .map(str::to_owned)
    };
    let pop = "DELETE FROM q WHERE id = (SELECT id FROM q LIMIT 1) RETURNING ";
    let values = |values: &str, parameters| computed(&format!("{pop}{values}"), parameters);
    assert_eq!(values("id", 0), None);
    assert_eq!(values("1 / 0", 0), None);
    assert_eq!(values("id + $1", 1), None);
    let divided = values("id + 7 / $1", 1).unwrap();
    assert!(divided.contains("num_nulls((7 / (k.p1))))"), "{divided}");
    // Expressions that pick rows are the same for all consumers.
    let picked =
        "DELETE FROM q WHERE id = (SELECT id FROM q WHERE lane = $1 LIMIT 1) RETURNING 7 / $1";
    let divided = computed(picked, 1).unwrap();
    assert!(
        divided.contains("num_nulls((7 / ($3::integer))))"),
        "{divided}"
    );
    assert!(divided.ends_with("FROM (SELECT) AS k)"), "{divided}");
}

#[test]
fn an_array_is_converted_for_each_consumer() {
    let array = TypeName {
        sql: "integer[]".to_owned(),
        array: true,
        builtin: true,
        collatable: false,
    };
    let sql = "DELETE FROM q WHERE id = (SELECT id FROM q LIMIT 1) RETURNING $1";
    let taking = rewrite(&take(sql).unwrap(), &queue(), None, &[array], &types(1)).unwrap();
    let read = "num_nulls(k.p1::integer[])) FROM ROWS FROM (pg_catalog.unnest($4::pg_catalog.text[])) AS k(p1)) OPERATOR(pg_catalog.>=) 0 AS same";
    assert!(taking.text.contains(read), "{}", taking.text);
    assert!(!taking.may_fail_unseen);
}

#[test]
fn errors_that_the_group_cannot_detect_are_marked() {
    let moves = |values: &str, type_oid| {
        let sql = format!(
            "WITH t AS (DELETE FROM q WHERE id = (SELECT id FROM q LIMIT 1) RETURNING id) INSERT INTO done (id, p) SELECT {values} FROM t"
        );
        let mut done = table("done", &["id", "p"]);
        done.extent.tree = vec![16_600];
        done.columns[1].type_modifier = 12;
        done.columns[1].base_type_oid = type_oid;
        let distribution = rewrite(&take(&sql).unwrap(), &queue(), Some(&done), &types(1), &[]);
        distribution.unwrap().may_fail_unseen
    };
    // A cast to character(n) truncates where an assignment raises an error.
    assert!(moves("id, $1", 1042));
    assert!(!moves("id, $1", 23));
    assert!(!moves("$1, id", 1042));
    assert!(!moves("id, id", 1042));
    assert!(moves("nextval('s') + $1, id", 23));
    assert!(!moves("nextval('s'), id", 23));
}

#[test]
fn a_claimed_row_must_not_be_claimable_again() {
    let text = text_of(CLAIM, 3, 3);
    assert!(
        text.contains(r#"((t."prio") = ($3::integer))) AS again"#),
        "{text}"
    );
    assert!(
        text.contains("NOT EXISTS (SELECT FROM taken WHERE again)"),
        "{text}"
    );
}

#[test]
fn rows_are_moved_in_order() {
    let text = text_of(MOVE, 0, 1);
    for part in [
        r#"((t."prio")) AS "c_p")"#,
        r#"INSERT INTO "public"."done" AS u ("id", "p", "at") SELECT ((w."c_id")), ((w."c_p")), (now()) FROM taken AS w ORDER BY w.n"#,
        "(SELECT pg_catalog.count(*) FROM moved) OPERATOR(pg_catalog.=) (SELECT pg_catalog.count(*) FROM taken)",
    ] {
        assert!(text.contains(part), "{part} is missing: {text}");
    }
}

#[test]
fn takes_that_cannot_be_rewritten_are_refused() {
    let mut refusing = queue();
    refusing.refused = Some("triggers".to_owned());
    assert!(matches!(
        rewritten(POP, &refusing, 2, 2),
        Err(DistributionRefusal::Table(..))
    ));
    let mut partitioned = queue();
    partitioned.extent.tree.push(16_500);
    assert!(matches!(
        rewritten(MOVE, &partitioned, 0, 1),
        Err(DistributionRefusal::Key(_))
    ));
    let refused = |sql: &str| rewritten(sql, &queue(), 2, 0).unwrap_err();
    let lane = refused("DELETE FROM q WHERE lane = (SELECT lane FROM q LIMIT 1)");
    assert_eq!(lane, DistributionRefusal::Key("lane".to_owned()));
    let all = refused("UPDATE q SET prio = 1 WHERE id = (SELECT id FROM q ORDER BY id LIMIT 1)");
    assert_eq!(all, DistributionRefusal::Condition);
    let key = refused("UPDATE q SET id = 1 WHERE id = (SELECT id FROM q WHERE prio = 3 LIMIT 1)");
    assert_eq!(key, DistributionRefusal::Key("id".to_owned()));
    let unnamed = refused(
        "WITH t AS (DELETE FROM q WHERE id = (SELECT id FROM q LIMIT 1) RETURNING id + 1) INSERT INTO done (id) SELECT 1 FROM t",
    );
    assert!(matches!(unnamed, DistributionRefusal::Column(_)));
}

/// A partition has rows of its own, each with a `ctid` of its own.
#[test]
fn takes_from_a_partition_are_rewritten() {
    let mut partition = ordered();
    partition.is_partition = true;
    for (sql, parameters, returning) in [(POP, 2, 2), (CLAIM, 3, 3), (MOVE, 0, 1)] {
        let taking = rewritten(sql, &partition, parameters, returning);
        assert!(taking.is_ok(), "{sql}: {taking:?}");
    }
    let positioned = rewritten(POP, &partition, 2, 2).unwrap();
    assert!(positioned.positioned.is_some());
}

/// The queue with ORDER BY columns that a position may have.
fn ordered() -> TableFacts {
    let mut queue = queue();
    for column in &mut queue.columns {
        column.never_null = true;
    }
    queue
}

fn positioned(sql: &str, queue: &TableFacts) -> Option<PositionedTexts> {
    let taking = rewritten(sql, queue, 2, 2).unwrap_or_else(|why| panic!("{sql}: {why}"));
    taking.positioned
}

#[test]
fn the_statement_without_a_position_is_the_same_for_every_order() {
    let (without, with) = (
        rewritten(POP, &queue(), 2, 2),
        rewritten(POP, &ordered(), 2, 2),
    );
    let (without, with) = (without.expect("a take"), with.expect("a take"));
    assert_eq!(without.positioned, None);
    assert!(with.positioned.is_some());
    assert_eq!(without.text, with.text);
    assert_eq!(without.text_of_few, with.text_of_few);
    let picked = r#", picked AS MATERIALIZED (SELECT q.k, (pg_catalog.row_number() OVER ())::pg_catalog.int4 AS n FROM (SELECT s."id" AS k FROM ONLY "public"."q" AS s WHERE (SELECT same FROM facts) AND ((s."lane") = ($3::integer)) ORDER BY ((s."prio")) DESC, ((s."id")) LIMIT $1::pg_catalog.int8 FOR UPDATE OF s SKIP LOCKED) AS q), taken AS ("#;
    assert!(with.text.contains(picked), "{}", with.text);
}

#[test]
fn a_position_is_compared_by_columns_of_one_direction_at_a_time() {
    let texts = positioned(POP, &ordered()).expect("a position");
    assert_eq!(texts.columns, 2);
    let text = &texts.from_position.text;
    let parts = [
        // $4 and $5 are the members' numbers and values.
        r#"s."prio" OPERATOR(pg_catalog.=) $6::integer AND s."id" OPERATOR(pg_catalog.>=) $7::integer"#,
        r#"OPERATOR(pg_catalog.>) 0 AND s."prio" OPERATOR(pg_catalog.<) $6::integer AND (("#,
        r#"s."prio" OPERATOR(pg_catalog.>=) $6::integer AND ((s."prio" OPERATOR(pg_catalog.>) $6::integer) OR (s."prio" OPERATOR(pg_catalog.=) $6::integer AND s."id" OPERATOR(pg_catalog.<) $7::integer))"#,
        "FROM (SELECT * FROM earlier UNION ALL SELECT * FROM p1 UNION ALL SELECT * FROM p2) AS q)",
        ", (SELECT p.o1 FROM picked AS p WHERE p.n OPERATOR(pg_catalog.=) 1), (SELECT p.o2",
    ];
    for part in parts {
        assert!(text.contains(part), "{part} is missing: {text}");
    }
    assert!(!texts.whole.text.contains("$6"), "{}", texts.whole.text);
    let same = POP.replace("prio DESC, id", "prio DESC, id DESC");
    let texts = positioned(&same, &ordered()).expect("a position");
    let row = r#"ROW(s."prio", s."id") OPERATOR(pg_catalog.<=) ROW($6::integer, $7::integer)"#;
    let text = &texts.from_position.text;
    assert!(text.contains(row), "{row} is missing: {text}");
    for text in [&texts.whole, &texts.from_position] {
        assert!(text.text_of_few.is_some());
        let statement = parse(&text.text).unwrap_or_else(|error| panic!("{error}: {}", text.text));
        assert_eq!((statement.statements, statement.effect), (1, Effect::Write));
    }
}

#[test]
fn orders_and_locks_without_positions() {
    let other = |from: &str, to: &str| POP.replace(from, to);
    for sql in [
        other("ORDER BY prio DESC, id", ""),
        other("ORDER BY prio DESC, id", "ORDER BY prio + 1, id"),
        other(" SKIP LOCKED", ""),
    ] {
        assert_eq!(positioned(&sql, &ordered()), None, "{sql}");
    }
    assert!(positioned(&other("FOR UPDATE SKIP LOCKED", ""), &ordered()).is_some());
    // PostgreSQL may try the advisory lock of a row before it compares the position.
    let locked = |order: &str| {
        format!(
            "DELETE FROM q WHERE id = (SELECT id FROM q WHERE lane = $1 AND pg_try_advisory_xact_lock(id) \
             ORDER BY {order} LIMIT 1) RETURNING id, $2 AS who"
        )
    };
    assert_eq!(positioned(&locked("prio, id"), &ordered()), None);
    assert!(positioned(&locked("id"), &ordered()).is_some());
    let changes: [fn(&mut TableFacts); 5] = [
        |queue| queue.columns[2].never_null = false,
        |queue| queue.columns[2].type_oid = 16_500,
        // A domain over int4.
        |queue| queue.columns[0].type_oid = 16_500,
        |queue| queue.extent.tree.push(16_700),
        |queue| queue.columns[0].converted = true,
    ];
    for change in changes {
        let mut queue = ordered();
        change(&mut queue);
        assert_eq!(positioned(POP, &queue), None);
    }
}
