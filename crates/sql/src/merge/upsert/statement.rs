//! The text of the INSERT with ON CONFLICT.

use super::key::Key;
use crate::distribution::{
    DistributionRefusal, PerMember, SET_LOCK_TIMEOUT_TO, Shared, answer_names,
};
use crate::expr::{Expr, PROPOSED};
use crate::facts::{SAME, TableFacts};
use crate::merge::insert::Insert;
use crate::merge::rewrite::returned;
use crate::operator::GE;
use crate::quote::quote_ident;
use crate::type_name::TypeName;

/// Number of result columns before the key: whether the catalog version is unchanged.
pub const UPSERT_RESULT_COLUMNS: usize = 1;

/// The setting in which a statement notes the number of the row that PostgreSQL inserts. It affects only the planning of
/// joins of many tables.
const ROW_NUMBER: &str = "'geqo_generations'";

/// How the result of the INSERT identifies the rows that were inserted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InsertedRows {
    /// By their keys. At most one member has inserted a row with each key.
    ByKey,
    /// By the numbers of the members, from 1.
    ByNumber,
}

/// Number of the first shared parameter, after the catalog version and the lock timeout.
const SHARED: usize = 3;

/// The inserted rows.
pub(super) struct Source<'a> {
    pub(super) per_member: &'a PerMember<'a>,
    pub(super) shared: &'a Shared<'a>,
    /// The columns with values, and their values.
    pub(super) valued: &'a [(String, &'a Expr)],
    pub(super) computed: &'a [Expr],
}

impl Source<'_> {
    /// SQL for a parameter with the same value for all members.
    pub(super) fn shared(&self, number: u32) -> Option<String> {
        self.shared.sql(number, SHARED)
    }

    fn parameter(&self, number: u32) -> String {
        let per_member = || {
            self.per_member
                .element(number, |place| format!("k.p{place}"))
        };
        self.shared(number).unwrap_or_else(per_member)
    }
}

pub(super) fn insert_sql(
    insert: &Insert,
    table: &TableFacts,
    key: &Key,
    source: &Source,
    (action, named): (&str, InsertedRows),
    returning: &[TypeName],
) -> Result<String, DistributionRefusal> {
    let parameter = |n: u32| source.parameter(n);
    let value =
        |expr: &Expr| Ok::<_, DistributionRefusal>(expr.to_sql(&|_| String::new(), &parameter)?);
    let (mut columns, mut values) = (Vec::new(), Vec::new());
    for (column, expr) in source.valued {
        columns.push(quote_ident(column));
        values.push(value(expr)?);
    }
    let computed = source.computed.iter().map(value);
    let computed = computed.collect::<Result<Vec<_>, _>>()?;
    let computed = match computed.is_empty() {
        true => String::new(),
        false => format!(" AND pg_catalog.num_nulls({}) {GE} 0", computed.join(", ")),
    };
    let conflict = insert
        .conflict
        .as_ref()
        .ok_or(DistributionRefusal::Conflict)?;
    let target = match &conflict.target {
        Some(target) => {
            let target: Vec<String> = target.iter().map(|name| quote_ident(name)).collect();
            format!(" ({})", target.join(", "))
        }
        None => String::new(),
    };
    let numbered = || (1..).zip(&key.0);
    let (keys, key_names): (String, String) = match named {
        InsertedRows::ByKey => numbered()
            .map(|(n, (column, _))| {
                let name = quote_ident(&column.name);
                (format!(", u.{name} AS k{n}"), format!(", w.k{n}"))
            })
            .unzip(),
        InsertedRows::ByNumber => (
            format!(", pg_catalog.current_setting({ROW_NUMBER})::pg_catalog.int4 AS pos"),
            ", w.pos".to_owned(),
        ),
    };
    let names = answer_names(returning.len());
    let members = source.per_member.rows("1", SHARED + source.shared.len());
    let rows = format!("facts, {members} WHERE facts.same{computed} ORDER BY k.pos");
    let rows = match named {
        InsertedRows::ByKey => rows,
        // PostgreSQL computes the sub-select for a row immediately before it inserts the row, as OFFSET keeps both apart.
        InsertedRows::ByNumber => format!(
            "(SELECT k.* FROM {rows}) AS k, LATERAL (SELECT pg_catalog.set_config({ROW_NUMBER}, k.pos::pg_catalog.text, true) AS noted OFFSET 0) AS n \
             WHERE n.noted IS NOT NULL"
        ),
    };
    Ok(format!(
        "WITH facts AS MATERIALIZED ({facts}), \
         moved AS (INSERT INTO {table} AS u ({columns}) SELECT {values} FROM {rows} \
         ON CONFLICT{target} {action} RETURNING true AS there{keys}{returned}) \
         SELECT {SAME}{key_names}{names} FROM facts LEFT JOIN moved AS w ON true",
        facts = table.catalog_version.facts_sql(
            1,
            &format!("{} AND {SET_LOCK_TIMEOUT_TO}", insert.rights(table))
        ),
        table = table.qualified(),
        columns = columns.join(", "),
        values = values.join(", "),
        returned = returned(insert, table, &|_| String::new(), returning)?,
    ))
}

/// The DO UPDATE clause, if its values are values of EXCLUDED or `shared` by all members.
pub(super) fn change_sql(
    insert: &Insert,
    shared: &dyn Fn(u32) -> Option<String>,
) -> Result<Option<String>, DistributionRefusal> {
    let conflict = insert.conflict.as_ref();
    let Some(change) = conflict.and_then(|conflict| conflict.change.as_ref()) else {
        return Ok(None);
    };
    let value = |number: u32| match number.checked_sub(PROPOSED) {
        Some(place) => {
            let name = change.proposed.get(place as usize)?;
            Some(format!("EXCLUDED.{}", quote_ident(name)))
        }
        None => shared(number),
    };
    let assigned = change.assignments.iter().map(|(_, expr)| expr);
    let mut parameters = assigned.chain(&change.guard).flat_map(Expr::parameters);
    if parameters.any(|number| value(number).is_none()) {
        return Ok(None);
    }
    let sql = |expr: &Expr| {
        let value = |number| value(number).unwrap_or_default();
        expr.to_sql(&|name| format!("u.{}", quote_ident(name)), &value)
    };
    let set = |(name, expr): &(String, Expr)| Ok(format!("{} = {}", quote_ident(name), sql(expr)?));
    let sets = change.assignments.iter().map(set);
    let sets = sets
        .collect::<Result<Vec<_>, DistributionRefusal>>()?
        .join(", ");
    let guard = match &change.guard {
        Some(guard) => format!(" WHERE {}", sql(guard)?),
        None => String::new(),
    };
    Ok(Some(format!("DO UPDATE SET {sets}{guard}")))
}
