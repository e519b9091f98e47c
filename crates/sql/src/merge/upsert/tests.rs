//! Which ON CONFLICT clauses are rewritten, and how. End-to-end tests check the effect of the statements.

use super::{MultiRowUpsert, Then, Upsert, on_conflict, rewrite, rewrite_multi_row};
use crate::distribution::{DistributionRefusal, PerMemberParameter};
use crate::facts::{Collation, Column, Extent, TableFacts};
use crate::fold::{self, Fold};
use crate::merge::Insert;
use crate::type_name::TypeName;
use crate::{Effect, KeyValue, parse};

/// `degree (id bigint primary key, degree integer not null check (degree < 1000), name varchar(8), code char(2))`.
fn table() -> TableFacts {
    let column = |name: &str, type_name: &str, oid: u32| Column {
        name: name.to_owned(),
        type_name: type_name.to_owned(),
        bare_type_name: type_name.to_owned(),
        type_oid: oid,
        base_type_oid: oid,
        type_modifier: -1,
        deterministic: true,
        builtin: true,
        ..Column::default()
    };
    TableFacts {
        schema: "s".to_owned(),
        name: "degree".to_owned(),
        extent: Extent {
            tree: vec![16_400],
            ..Extent::default()
        },
        columns: vec![
            Column {
                fixed: true,
                not_null: true,
                ..column("id", "bigint", 20)
            },
            Column {
                not_null: true,
                ..column("degree", "integer", 23)
            },
            Column {
                type_name: "character varying(8)".to_owned(),
                type_modifier: 12,
                ..column("name", "character varying", 1043)
            },
            column("code", "character", 1042),
        ],
        keys: vec![vec!["id".to_owned()]],
        checks: vec!["(degree < 1000)".to_owned()],
        ..TableFacts::default()
    }
}

fn named(sql: &str) -> TypeName {
    TypeName {
        sql: sql.to_owned(),
        array: false,
        builtin: true,
        collatable: false,
    }
}

/// The statement, and the types of its parameters and RETURNING columns.
fn described(sql: &str, types: &[&str]) -> (Insert, Vec<TypeName>, Vec<TypeName>) {
    let insert = parse(sql).unwrap().insert;
    let insert = insert.unwrap_or_else(|| panic!("{sql}"));
    let returning = vec![named("text"); insert.returning.len()];
    (
        insert,
        types.iter().map(|sql| named(sql)).collect(),
        returning,
    )
}

fn rewritten_on(
    table: &TableFacts,
    sql: &str,
    types: &[&str],
) -> Result<Upsert, DistributionRefusal> {
    let (insert, types, returning) = described(sql, types);
    let change = on_conflict(&insert, table, &types)?;
    rewrite(&insert, change.as_ref(), table, &types, &returning)
}

fn multi_row_on(
    table: &TableFacts,
    sql: &str,
    types: &[&str],
) -> Result<MultiRowUpsert, DistributionRefusal> {
    let (insert, types, returning) = described(sql, types);
    let change = on_conflict(&insert, table, &types)?;
    rewrite_multi_row(&insert, change.as_ref(), table, &types, &returning)
}

fn rewritten(sql: &str, types: &[&str]) -> Result<Upsert, DistributionRefusal> {
    rewritten_on(&table(), sql, types)
}

fn folded(sql: &str, types: &[&str]) -> Fold {
    match rewritten(sql, types).unwrap().then {
        Then::Fold(fold) => *fold,
        nothing => panic!("{nothing:?}"),
    }
}

#[test]
fn the_insert_skips_existing_rows_and_returns_the_inserted_keys() {
    let sql = "INSERT INTO degree AS d (id, degree) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING RETURNING d.degree";
    let upsert = rewritten(sql, &["bigint", "integer"]).unwrap();
    assert_eq!(upsert.then, Then::Nothing { same_key: true });
    for part in [
        "pg_catalog.unnest($3::pg_catalog.int4[]), pg_catalog.unnest($4::bigint[]), pg_catalog.unnest($5::integer[])) AS k(pos, p1, p2)",
        r#"ON CONFLICT ("id") DO NOTHING RETURNING true AS there, u."id" AS k1, ("#,
        "SELECT CASE WHEN facts.same THEN facts.analyzed END, w.k1, w.r1 FROM facts",
        "pg_catalog.set_config('lock_timeout', $2::pg_catalog.text, true)",
    ] {
        assert!(
            upsert.insert.contains(part),
            "{part} is missing: {}",
            upsert.insert
        );
    }
    assert!(parse(&upsert.insert).is_ok());
    let numbered = upsert.numbered.unwrap();
    for part in [
        "LATERAL (SELECT pg_catalog.set_config('geqo_generations', k.pos::pg_catalog.text, true) AS noted OFFSET 0) AS n WHERE n.noted IS NOT NULL",
        "RETURNING true AS there, pg_catalog.current_setting('geqo_generations')::pg_catalog.int4 AS pos, (",
        "SELECT CASE WHEN facts.same THEN facts.analyzed END, w.pos, w.r1 FROM facts",
    ] {
        assert!(numbered.contains(part), "{part} is missing: {numbered}");
    }
    assert!(parse(&numbered).is_ok());
    let probe = upsert.probe.unwrap();
    let keys = "ROWS FROM (pg_catalog.unnest($1::bigint[])) WITH ORDINALITY AS k(k1, pos)";
    assert!(
        probe.contains(keys)
            && probe.contains("OPERATOR(pg_catalog.=) $2::pg_catalog.timestamptz "),
        "{probe}"
    );
    assert_eq!(parse(&probe).unwrap().effect, Effect::Read);
    let any = "INSERT INTO degree (id, degree) VALUES ($1, $2) ON CONFLICT DO NOTHING";
    let then = rewritten(any, &["bigint", "integer"]).unwrap().then;
    assert_eq!(then, Then::Nothing { same_key: false });
}

#[test]
fn the_proposed_row_replaces_excluded() {
    let sql = "INSERT INTO degree (id, degree, name) VALUES ($1, $2, upper($3)) ON CONFLICT (id) DO UPDATE \
        SET degree = degree.degree + EXCLUDED.degree + $4, name = EXCLUDED.name WHERE degree.degree < EXCLUDED.degree";
    let fold = folded(sql, &["bigint", "integer", "text", "integer"]);
    for part in [
        "f.pos OPERATOR(pg_catalog.<) f.last",
        "((upper((($2::text[])[f.pos OPERATOR(pg_catalog.+) 1]))))::character varying AS e3",
        "(f.c2) < (e.e2)",
        "t.xmin OPERATOR(pg_catalog.=) pg_catalog.xid(pg_catalog.pg_current_xact_id_if_assigned())",
        "pg_catalog.num_nulls",
        "pg_catalog.char_length",
    ] {
        let text = fold.many_rows.replace("$6", "$2").replace("$7", "$2");
        assert!(text.contains(part), "{part} is missing: {text}");
    }
    assert!(fold.upsert && fold.one_each.is_none() && fold.one_row.contains("1000"));
    // All values are sent, so that PostgreSQL checks each.
    let carried: Vec<u32> = fold
        .carried
        .iter()
        .map(|carried| carried.parameter)
        .collect();
    assert_eq!(carried, [1, 2, 3, 4]);
}

#[test]
fn a_proposed_value_is_compared_only_under_a_collation_that_can_be_named() {
    let mut collated = table();
    collated.columns[2].collation = Collation::BuiltIn("tr-x-icu".to_owned());
    let sql = "INSERT INTO degree (id, name) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET name = EXCLUDED.name";
    let (change, types) = (" || 'x'", ["bigint", "text"]);
    let changed = rewritten_on(&collated, &format!("{sql}{change}"), &types).unwrap();
    let Then::Fold(fold) = changed.then else {
        panic!("no fold");
    };
    let part = r#"::character varying COLLATE pg_catalog."tr-x-icu" AS e2"#;
    assert!(fold.many_rows.contains(part), "{}", fold.many_rows);
    collated.columns[2].collation = Collation::UserDefined;
    assert!(rewritten_on(&collated, sql, &types).is_ok());
    let refused = rewritten_on(&collated, &format!("{sql}{change}"), &types);
    let refusal = fold::FoldRefusal::Collation("name".to_owned());
    assert_eq!(refused.unwrap_err(), refusal.clone().into());
    collated.checks = vec!["((name)::text <> 'x'::text)".to_owned()];
    let refused = rewritten_on(&collated, sql, &types);
    assert_eq!(refused.unwrap_err(), refusal.into());
}

/// The values are parameters in the group's statements, and the fold reads the columns that it assigns.
#[test]
fn a_column_of_excluded_that_is_not_assigned_needs_its_privilege() {
    let right = |column: &str| {
        format!(r#"has_column_privilege(pg_catalog.to_regclass('"degree"'), '{column}', 'SELECT')"#)
    };
    let sql = "INSERT INTO degree (id, degree, name) VALUES ($1, $2, 'x') ON CONFLICT (id) DO UPDATE SET degree = ";
    for (change, name) in [
        ("EXCLUDED.degree", false),
        ("length(EXCLUDED.name)", true),
        ("3 WHERE EXCLUDED.name < 'b'", true),
    ] {
        let upsert = rewritten(&format!("{sql}{change}"), &["bigint", "integer"]).unwrap();
        let insert = upsert.insert;
        let Then::Fold(fold) = upsert.then else {
            panic!("no fold");
        };
        for text in [&insert, &fold.many_rows, &fold.one_row] {
            assert_eq!(text.contains(&right("name")), name, "{text}");
            assert!(!text.contains(&right("degree")), "{text}");
        }
    }
}

#[test]
fn without_parameters_in_do_update_the_upsert_itself_serves_all() {
    let of = |change: &str| {
        let sql = format!(
            "INSERT INTO degree AS d (id, degree) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET {change}"
        );
        rewritten(&sql, &["bigint", "integer"]).unwrap().one_each
    };
    let text = of("degree = d.degree + EXCLUDED.degree WHERE d.degree < EXCLUDED.degree").unwrap();
    let part = r#"ON CONFLICT ("id") DO UPDATE SET "degree" = ((u."degree") + (EXCLUDED."degree")) WHERE ((u."degree") < (EXCLUDED."degree")) RETURNING"#;
    assert!(text.contains(part), "{text}");
    assert_eq!(of("degree = d.degree + $2"), None);
}

#[test]
fn upserts_that_cannot_be_rewritten_are_refused() {
    let refused = |sql: &str, types: &[&str]| rewritten(sql, types).unwrap_err();
    let two = ["bigint", "integer"];
    for sql in [
        "INSERT INTO degree (id, degree) VALUES ($1, $2) ON CONFLICT (degree) DO NOTHING",
        "INSERT INTO degree (degree) VALUES ($2) ON CONFLICT (id) DO NOTHING",
        "INSERT INTO degree (degree) VALUES ($2) ON CONFLICT DO NOTHING",
        "INSERT INTO degree (id, degree) VALUES ($1 + 1, $2) ON CONFLICT (id) DO NOTHING",
    ] {
        assert_eq!(refused(sql, &two), DistributionRefusal::Conflict, "{sql}");
    }
    let multi_row =
        "INSERT INTO degree (id, degree) VALUES ($1, $2), ($1, $2) ON CONFLICT (id) DO NOTHING";
    assert_eq!(refused(multi_row, &two), DistributionRefusal::Rows);
    let returning =
        "INSERT INTO degree (id, degree) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING RETURNING $2";
    assert_eq!(refused(returning, &two), DistributionRefusal::Returning);
    let key =
        "INSERT INTO degree (id, degree) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET id = 3";
    assert!(matches!(refused(key, &two), DistributionRefusal::Fold(_)));
    let default =
        "INSERT INTO degree (id) VALUES ($1) ON CONFLICT (id) DO UPDATE SET name = EXCLUDED.name";
    assert_eq!(
        refused(default, &two),
        DistributionRefusal::Column("name".to_owned())
    );
    let cut = "INSERT INTO degree (id, degree, code) VALUES ($1, $2, 'x') ON CONFLICT (id) DO UPDATE SET degree = 3";
    assert!(matches!(refused(cut, &two), DistributionRefusal::Fold(_)));
}

#[test]
fn a_check_may_read_values_or_defaults_but_not_both() {
    let mut both = table();
    both.checks = vec!["((degree > 0) OR (name IS NULL))".to_owned()];
    let sql =
        "INSERT INTO degree (id, degree) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET degree = 3";
    let refused = rewritten_on(&both, sql, &["bigint", "integer"]);
    assert_eq!(refused.unwrap_err(), DistributionRefusal::Check);
    both.checks = vec!["(name IS NULL)".to_owned()];
    assert!(rewritten_on(&both, sql, &["bigint", "integer"]).is_ok());
}

#[test]
fn a_key_that_postgresql_rounds_is_refused() {
    let mut table = table();
    let id = &mut table.columns[0];
    (id.type_oid, id.base_type_oid, id.type_modifier) = (1700, 1700, 655_366);
    (id.type_name, id.bare_type_name) = ("numeric(10,2)".to_owned(), "numeric".to_owned());
    let sql = "INSERT INTO degree (id, degree) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING";
    let refused = rewritten_on(&table, sql, &["numeric", "integer"]);
    assert_eq!(refused.unwrap_err(), DistributionRefusal::Conflict);
}

#[test]
fn a_value_of_do_update_that_may_not_fit_is_converted_for_each_member() {
    let sql = "INSERT INTO degree (id, degree) VALUES ($1, 1) ON CONFLICT (id) DO UPDATE SET name = $2 WHERE degree.degree > 5";
    let upsert = rewritten(sql, &["bigint", "text"]).unwrap();
    let converted = "\"varchar\"((k.p2)::varchar, 12, false)";
    assert!(upsert.insert.contains(converted), "{}", upsert.insert);
    // In the fold, only a member with too many characters is executed alone.
    let fold = folded(sql, &["bigint", "text"]).many_rows;
    assert!(
        fold.contains("::varchar) OPERATOR(pg_catalog.<=) 8, true)"),
        "{fold}"
    );
    assert!(!fold.contains("12, false)"), "{fold}");
    let fitting = sql.replace("name = $2", "degree = $2");
    let upsert = rewritten(&fitting, &["bigint", "integer"]).unwrap();
    assert!(
        !upsert.insert.contains("num_nulls(k.p2"),
        "{}",
        upsert.insert
    );
}

#[test]
fn several_rows_of_many_clients_become_one_upsert() {
    let sql = "INSERT INTO degree AS d (id, degree) VALUES ($1, $2 + 1), ($3, $4 + 1) ON CONFLICT (id) \
        DO UPDATE SET degree = d.degree + EXCLUDED.degree * $5 WHERE d.degree < $6 RETURNING d.id";
    let types = [
        "bigint", "integer", "bigint", "integer", "integer", "integer",
    ];
    let multi_row = multi_row_on(&table(), sql, &types).unwrap();
    for part in [
        "ROWS FROM (pg_catalog.unnest($5::pg_catalog.int4[]), pg_catalog.unnest($6::bigint[]), pg_catalog.unnest($7::integer[])) AS k(pos, p1, p2)",
        "ORDER BY k.pos",
        r#"DO UPDATE SET "degree" = ((u."degree") + (EXCLUDED."degree") * ($3::integer)) "#,
        r#"WHERE ((u."degree") < ($4::integer)) RETURNING true AS there, u."id" AS k1"#,
        "SELECT CASE WHEN facts.same THEN facts.analyzed END, w.k1, w.r1 FROM facts",
        "pg_catalog.set_config('lock_timeout', $2::pg_catalog.text, true)",
    ] {
        let text = multi_row.text.replace("k.p1", "$6").replace("k.p2", "$7");
        assert!(text.contains(part), "{part} is missing: {text}");
    }
    assert!(parse(&multi_row.text).is_ok());
    assert_eq!((multi_row.shared, multi_row.changes), (vec![5, 6], true));
    let per_member = [vec![1, 3], vec![2, 4]].map(|numbers| PerMemberParameter {
        numbers,
        as_text: false,
    });
    assert_eq!(multi_row.per_member, per_member);
    let keys = multi_row.keys.iter().map(|key| key[0].value.clone());
    let expected = [KeyValue::Parameter(1), KeyValue::Parameter(3)];
    assert_eq!(keys.collect::<Vec<_>>(), expected);
}

#[test]
fn do_nothing_is_supported_with_and_without_a_target() {
    for target in ["", " (id)"] {
        let sql = format!(
            "INSERT INTO degree (id, degree) VALUES ($1, 3), ($2, 3), ($3, 3) ON CONFLICT{target} DO NOTHING"
        );
        let multi_row = multi_row_on(&table(), &sql, &["bigint"; 3]).unwrap();
        assert!(multi_row.text.contains("DO NOTHING") && !multi_row.changes);
        assert_eq!(multi_row.per_member[0].numbers, [1, 2, 3]);
        assert!(multi_row.shared.is_empty());
    }
}

#[test]
fn several_rows_that_cannot_be_rewritten_are_refused() {
    let refused = |sql: &str, types: &[&str]| multi_row_on(&table(), sql, types).unwrap_err();
    let four = ["bigint", "integer", "bigint", "integer"];
    let unlike =
        "INSERT INTO degree (id, degree) VALUES ($1, $2), ($3, $4 + 1) ON CONFLICT DO NOTHING";
    assert_eq!(refused(unlike, &four), DistributionRefusal::Rows);
    let without_parameters =
        "INSERT INTO degree (id, degree) VALUES (1, 2), (1, 2) ON CONFLICT (id) DO NOTHING";
    assert_eq!(refused(without_parameters, &[]), DistributionRefusal::Rows);
    let mixed = "INSERT INTO degree (id, degree) VALUES ($1, $2), ($3, $4) ON CONFLICT (id) DO UPDATE SET degree = $4";
    assert_eq!(refused(mixed, &four), DistributionRefusal::Mixed);
    let returning = "INSERT INTO degree (id, degree) VALUES ($1, $2), ($3, $4) ON CONFLICT (id) DO NOTHING RETURNING $2";
    assert_eq!(refused(returning, &four), DistributionRefusal::Returning);
    // Also refused for one row.
    let key = "INSERT INTO degree (id, degree) VALUES ($1, $2), ($3, $4) ON CONFLICT (id) DO UPDATE SET id = EXCLUDED.id";
    assert!(matches!(refused(key, &four), DistributionRefusal::Fold(_)));
    let target =
        "INSERT INTO degree (id, degree) VALUES ($1, $2), ($3, $4) ON CONFLICT (degree) DO NOTHING";
    assert_eq!(refused(target, &four), DistributionRefusal::Conflict);
    // Only PostgreSQL can compare such keys.
    let mut prices = table();
    let id = &mut prices.columns[0];
    (id.type_oid, id.base_type_oid) = (1700, 1700);
    (id.type_name, id.bare_type_name) = ("numeric".to_owned(), "numeric".to_owned());
    let sql = "INSERT INTO degree (id) VALUES ($1), ($2) ON CONFLICT (id) DO NOTHING";
    let refused = multi_row_on(&prices, sql, &["numeric"; 2]).unwrap_err();
    assert_eq!(refused, fold::FoldRefusal::KeyType("id".to_owned()).into());
}
