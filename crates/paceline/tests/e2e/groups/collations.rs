//! Values that stand for a column in a group have the collation of the column.

use super::{prepared, simple};
use crate::harness::Stage;
use crate::harness::stage::Target;
use crate::harness::together::Tables;

const SETUP: &str = r#"
    CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
    CREATE TABLE u (id int PRIMARY KEY, name text COLLATE "tr-x-icu" CHECK (lower(name) <> 'ıı'), slug text, code text COLLATE "C",
        word text COLLATE nocase CHECK (word <> 'admin'), tags text[] COLLATE "tr-x-icu", short varchar(9) COLLATE "tr-x-icu")"#;
const TABLES: Tables = Tables {
    fill: "DELETE FROM u; INSERT INTO u VALUES (1, 'I', 'I', 'I', 'I', '{I}', 'I')",
    content: "SELECT * FROM u ORDER BY id",
};
/// Values of `$1` for row `$2`, which upper and lower case, or the collation of a CHECK, distinguish.
const VALUES: [&[&str]; 4] = [
    &["TITLE", "1"],
    &["ADMIN", "1"],
    &["II", "1"],
    &["INFO", "1"],
];

fn stage() -> Stage {
    let stage = Stage::for_groups();
    stage.direct().ok(SETUP);
    stage
}

/// The first finds no row.
const LATER_VALUES: [&[&str]; 4] = [
    &["TITLE", "9"],
    &["TITLE", "1"],
    &["II", "1"],
    &["INFO", "8"],
];

/// Compares, as prepared statements and as queries. True: each time members were grouped.
#[track_caller]
fn compare(stage: &Stage, sql: &str) -> bool {
    let one = TABLES.compare_asks(stage, &prepared(sql, &VALUES));
    let quoted = sql.replace("$1", "'$1'");
    TABLES.compare_asks(stage, &simple(&quoted, &VALUES)) && one
}

#[track_caller]
fn compare_grouped(stage: &Stage, sql: &str) {
    assert!(compare(stage, sql), "not grouped: {sql}");
}

#[test]
fn an_assigned_value_has_the_collation_of_its_column() {
    let stage = stage();
    for sql in [
        "UPDATE u SET name = $1 WHERE id = $2 RETURNING lower(name), name < 'b', name || slug",
        "UPDATE u SET name = $1, slug = name WHERE id = $2 RETURNING lower(slug), lower(name)",
        "UPDATE u SET short = $1 WHERE id = $2 RETURNING lower(short), upper(lower(short))",
        "UPDATE u SET tags = ARRAY[$1] WHERE id = $2 RETURNING lower(tags[1])",
        r#"UPDATE u SET slug = $1 COLLATE "tr-x-icu" WHERE id = $2 RETURNING lower(slug)"#,
        r#"UPDATE u SET name = $1 COLLATE "C" WHERE id = $2 RETURNING lower(name COLLATE "C"), lower(name)"#,
        "UPDATE u SET code = $1 WHERE id = $2 RETURNING lower(code), code < 'a', code",
    ] {
        compare_grouped(&stage, sql);
    }
}

/// Without a value of its own in a member, too.
#[test]
fn a_returned_column_may_have_any_collation() {
    let stage = stage();
    for sql in [
        "UPDATE u SET slug = $1 WHERE id = $2 RETURNING *",
        "UPDATE u SET slug = $1 WHERE id = $2 RETURNING name, code, word, tags, short, lower(name), code::name",
        "INSERT INTO u (id, slug) VALUES ($2, $1) ON CONFLICT (id) DO UPDATE SET slug = EXCLUDED.slug RETURNING *",
    ] {
        compare_grouped(&stage, sql);
    }
}

#[test]
fn a_proposed_value_has_the_collation_of_its_column() {
    let stage = stage();
    for action in [
        "name = EXCLUDED.name, slug = lower(EXCLUDED.name)",
        "slug = u.slug || lower(EXCLUDED.name) || $1",
        "slug = lower(u.name || EXCLUDED.name) WHERE EXCLUDED.name < 'b' || $1",
        "name = EXCLUDED.name || $1",
    ] {
        let sql = format!(
            "INSERT INTO u (id, name) VALUES ($2, $1) ON CONFLICT (id) DO UPDATE SET {action} RETURNING name, slug"
        );
        compare_grouped(&stage, &sql);
    }
    let cast = r#"INSERT INTO u (id, slug) VALUES ($2, $1 COLLATE "tr-x-icu") ON CONFLICT (id)
        DO UPDATE SET name = u.name || lower(EXCLUDED.slug), slug = EXCLUDED.slug RETURNING lower(u.slug), u.name"#;
    compare_grouped(&stage, cast);
    let both = "INSERT INTO u (id, name, code) VALUES ($2, $1, $1) ON CONFLICT (id)
        DO UPDATE SET code = EXCLUDED.code, slug = lower(EXCLUDED.name) || lower(EXCLUDED.code) RETURNING slug";
    compare_grouped(&stage, both);
}

/// PostgreSQL cannot choose between the collations of two columns.
#[test]
fn two_collations_conflict_as_without_a_group() {
    let stage = stage();
    for sql in [
        "INSERT INTO u (id, name) VALUES ($2, $1) ON CONFLICT (id) DO UPDATE SET slug = lower(EXCLUDED.name || u.code)",
        "UPDATE u SET name = $1 WHERE id = $2 RETURNING lower(name || code)",
        "UPDATE u SET name = code || $1 WHERE id = $2 RETURNING lower(name)",
    ] {
        TABLES.compare_asks(&stage, &prepared(sql, &LATER_VALUES));
    }
}

/// Collations that users have defined.
#[test]
fn a_check_compares_under_the_collation_of_its_column() {
    let stage = stage();
    for sql in [
        "UPDATE u SET word = $1 WHERE id = $2",
        "UPDATE u SET word = $1 WHERE id = $2 RETURNING word = 'title', word",
        "UPDATE u SET slug = $1 WHERE id = $2 AND word = 'i' RETURNING word = 'i'",
        "INSERT INTO u (id, word) VALUES ($2, $1) ON CONFLICT (id) DO UPDATE SET word = EXCLUDED.word || $1",
        "INSERT INTO u (id, word) VALUES ($2, $1) ON CONFLICT (id) DO UPDATE SET slug = $1 WHERE EXCLUDED.word = 'title'",
    ] {
        compare(&stage, sql);
    }
    let unread = "UPDATE u SET slug = $1 WHERE id = $2 AND word = 'i' RETURNING word = 'i', *";
    compare_grouped(&stage, unread);
    assert!(stage.target() == Target::Bare || stage.counters().groups > 0);
}

/// The other strategies leave columns where they are.
#[test]
fn other_groups_keep_the_collations_of_columns() {
    let stage = stage();
    compare_grouped(
        &stage,
        "INSERT INTO u (id, name) VALUES (10 + ascii($1) + $2, $1) RETURNING lower(name), name < 'b', *",
    );
    compare_grouped(
        &stage,
        "DELETE FROM u WHERE id = (SELECT id FROM u WHERE name < 'z' ORDER BY name LIMIT 1 FOR UPDATE SKIP LOCKED)
         RETURNING lower(name), $1::text, $2::int",
    );
}
