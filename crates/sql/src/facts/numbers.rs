//! Tables that may read the last number of a sequence (`lastval`, `currval`) in a way that a statement's text does
//! not show: through a default, a check, a trigger, a policy, a view or a function.

use super::catalog::{class_array, name_array};
use crate::name::Name;

/// SQL condition: `which` is true, and `text` calls a function that reads the last number of a sequence. The CASE
/// limits the evaluation of `text`, which is expensive, to rows for which `which` is true.
fn reads_number(which: &str, text: &str) -> String {
    format!(
        "({which}) AND CASE WHEN {which} THEN {text} OPERATOR(pg_catalog.~*) '(currval|lastval) *[(]' ELSE false END"
    )
}

/// SQL condition: the column contains a relation of [`trees_sql`].
fn in_tree(column: &str) -> String {
    format!("{column} = ANY (ARRAY(SELECT id FROM tree))")
}

/// SQL condition: the column contains a type of [`trees_sql`].
fn in_types(column: &str) -> String {
    format!("{column} = ANY (ARRAY(SELECT id FROM types))")
}

/// CTEs for use after `WITH RECURSIVE`: `named(name)` are the names, `tree(id)` the relations with these names and
/// their partitions, `types(id)` the types of their columns and the types that these consist of.
fn trees_sql(relations: &[Name]) -> String {
    let classes = class_array(relations);
    format!(
        "named(name) AS (SELECT n FROM pg_catalog.unnest({classes}) AS n), \
         tree(id) AS MATERIALIZED (SELECT pg_catalog.to_regclass(name)::pg_catalog.oid FROM named WHERE pg_catalog.to_regclass(name) IS NOT NULL \
         UNION SELECT p.relid::pg_catalog.oid FROM named CROSS JOIN LATERAL pg_catalog.pg_partition_tree(pg_catalog.to_regclass(name)) p), \
         types(id) AS (SELECT a.atttypid FROM pg_catalog.pg_attribute a WHERE a.attrelid = ANY (ARRAY(SELECT id FROM tree)) AND a.attnum > 0 AND NOT a.attisdropped \
         UNION SELECT part.id FROM types CROSS JOIN LATERAL (SELECT t.typbasetype FROM pg_catalog.pg_type t WHERE t.oid = types.id \
           UNION ALL SELECT t.typelem FROM pg_catalog.pg_type t WHERE t.oid = types.id \
           UNION ALL SELECT r.rngsubtype FROM pg_catalog.pg_range r WHERE r.rngtypid = types.id \
           UNION ALL SELECT a.atttypid FROM pg_catalog.pg_type t JOIN pg_catalog.pg_attribute a ON a.attrelid = t.typrelid \
             WHERE t.oid = types.id AND a.attnum > 0 AND NOT a.attisdropped) AS part(id) WHERE part.id <> 0)"
    )
}

/// Query for one row with one boolean: whether a statement that reads or changes these tables executes no other code,
/// and their defaults at most draw sequence numbers. Then the statement reads the last number of a sequence only if
/// its text does. (Other code: triggers, whose copies on partitions count as internal before PostgreSQL 15, rules, policies,
/// foreign keys with actions, user-defined functions and operators, and types whose input functions may call them.)
pub fn quiet_tables_sql(relations: &[Name]) -> String {
    format!(
        "WITH RECURSIVE {trees} SELECT NOT EXISTS (SELECT FROM named WHERE pg_catalog.to_regclass(name) IS NULL) \
         AND NOT EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = ANY (ARRAY(SELECT id FROM tree)) AND (c.relkind NOT IN ('r', 'p') OR c.relrowsecurity OR c.relhasrules \
           OR EXISTS (SELECT FROM pg_catalog.pg_trigger g WHERE NOT g.tgisinternal \
             AND (g.tgrelid = c.oid OR g.tgrelid IN (SELECT a.relid::pg_catalog.oid FROM pg_catalog.pg_partition_ancestors(c.oid) a))) \
           OR (c.relkind = 'r' AND EXISTS (SELECT FROM pg_catalog.pg_inherits h WHERE h.inhparent = c.oid)))) \
         AND NOT EXISTS (SELECT FROM pg_catalog.pg_constraint k WHERE k.contype = 'f' AND k.confrelid = ANY (ARRAY(SELECT id FROM tree)) \
           AND (k.confdeltype NOT IN ('a', 'r') OR k.confupdtype NOT IN ('a', 'r'))) \
         AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d \
           WHERE d.refclassid IN ('pg_catalog.pg_proc'::pg_catalog.regclass, 'pg_catalog.pg_operator'::pg_catalog.regclass, 'pg_catalog.pg_opclass'::pg_catalog.regclass) \
           AND ((d.classid = 'pg_catalog.pg_constraint'::pg_catalog.regclass AND d.objid = ANY (ARRAY(SELECT k.oid FROM pg_catalog.pg_constraint k WHERE k.conrelid = ANY (ARRAY(SELECT id FROM tree))))) \
             OR (d.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass AND d.objid = ANY (ARRAY(SELECT f.oid FROM pg_catalog.pg_attrdef f WHERE f.adrelid = ANY (ARRAY(SELECT id FROM tree))))) \
             OR (d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.objid = ANY (ARRAY(SELECT id FROM tree UNION ALL \
               SELECT i.indexrelid FROM pg_catalog.pg_index i WHERE i.indrelid = ANY (ARRAY(SELECT id FROM tree))))))) \
         AND NOT EXISTS (SELECT FROM pg_catalog.pg_type t WHERE t.oid = ANY (ARRAY(SELECT id FROM types)) \
           AND t.typnamespace <> 'pg_catalog'::pg_catalog.regnamespace AND t.typtype <> 'e' AND t.typcategory <> 'A') \
         AND {unread}",
        trees = trees_sql(relations),
        unread = no_numbers_read(),
    )
}

/// SQL condition: no default and no check of the relations in [`trees_sql`] or of the types of their columns reads
/// the last number of a sequence.
fn no_numbers_read() -> String {
    let checked = format!("{} OR {}", in_tree("k.conrelid"), in_types("k.contypid"));
    format!(
        "NOT EXISTS (SELECT FROM pg_catalog.pg_attrdef f WHERE {default}) \
         AND NOT EXISTS (SELECT FROM pg_catalog.pg_constraint k WHERE k.contype = 'c' AND {check}) \
         AND NOT EXISTS (SELECT FROM pg_catalog.pg_type t WHERE {domain})",
        default = reads_number(
            &in_tree("f.adrelid"),
            "pg_catalog.pg_get_expr(f.adbin, f.adrelid)"
        ),
        check = reads_number(&checked, "pg_catalog.pg_get_constraintdef(k.oid)"),
        domain = reads_number(&in_types("t.oid"), "t.typdefault"),
    )
}

/// Query for one row with one boolean: whether no default, check, view, rule, policy or trigger function of these
/// relations, and none of these functions, reads the last number of a sequence in its own text. (Functions that these
/// call in turn are not checked.)
pub fn no_numbers_read_sql(relations: &[Name], functions: &[Name]) -> String {
    let called = format!(
        "p.proname = ANY ({}) AND p.pronamespace <> 'pg_catalog'::pg_catalog.regnamespace",
        name_array(functions)
    );
    // Before PostgreSQL 15, the copies of row triggers in partitions count as internal.
    let fired = format!(
        "({} OR g.tgrelid = ANY (ARRAY(SELECT a.relid::pg_catalog.oid FROM tree \
         CROSS JOIN LATERAL pg_catalog.pg_partition_ancestors(tree.id) a))) AND NOT g.tgisinternal",
        in_tree("g.tgrelid")
    );
    let source =
        "CASE WHEN p.prokind IN ('f', 'p') THEN pg_catalog.pg_get_functiondef(p.oid) ELSE '' END";
    let fires = format!("pg_catalog.concat({source}, pg_catalog.pg_get_triggerdef(g.oid))");
    let policy = "pg_catalog.concat(pg_catalog.pg_get_expr(l.polqual, l.polrelid), pg_catalog.pg_get_expr(l.polwithcheck, l.polrelid))";
    format!(
        "WITH RECURSIVE {trees} SELECT {unread} \
         AND NOT EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE {function}) \
         AND NOT EXISTS (SELECT FROM pg_catalog.pg_trigger g JOIN pg_catalog.pg_proc p ON p.oid = g.tgfoid WHERE {trigger}) \
         AND NOT EXISTS (SELECT FROM pg_catalog.pg_rewrite r WHERE {rule}) \
         AND NOT EXISTS (SELECT FROM pg_catalog.pg_policy l WHERE {policy})",
        trees = trees_sql(relations),
        unread = no_numbers_read(),
        function = reads_number(&called, source),
        trigger = reads_number(&fired, &fires),
        rule = reads_number(&in_tree("r.ev_class"), "pg_catalog.pg_get_ruledef(r.oid)"),
        policy = reads_number(&in_tree("l.polrelid"), policy),
    )
}
