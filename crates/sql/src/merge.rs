//! The parts of an INSERT, and one statement that inserts the rows of many clients in order of arrival. ON CONFLICT
//! is handled in [`upsert`].

mod rows;
#[cfg(test)]
mod tests;
pub mod upsert;

use pg_query::protobuf::{
    InferClause, InsertStmt, OnConflictAction, OnConflictClause, OverridingKind, RangeVar,
};
use pg_query::{Node, NodeEnum};

use crate::dealing::{Dealing, Own, Refusal, UNCERTAIN, check_columns, check_intervals};
use crate::expr::Expr;
use crate::facts::{TableFacts, regclass_literal};
use crate::literals::LiteralKind;
use crate::name::{Name, push_distinct};
use crate::operator::{CONCAT, NE};
use crate::type_name::TypeName;
use crate::update::{Returning, as_target, read_assignments_by, read_returning};
use crate::value::KeyValue;
use crate::{quote_ident, quote_literal};
use rows::Rows;
use std::collections::BTreeSet;

/// The parts of `INSERT INTO relation (columns) VALUES (…), (…) ON CONFLICT … RETURNING …`.
#[derive(Clone, PartialEq, Debug)]
pub struct Insert {
    /// The table.
    pub relation: Name,
    /// The column list, empty if there is none.
    pub columns: Vec<String>,
    /// For each row, the value of each column; `None` for DEFAULT. The expressions read no columns. There is at least
    /// one row.
    pub rows: Vec<Vec<Option<Expr>>>,
    /// The ON CONFLICT clause.
    pub conflict: Option<Conflict>,
    /// The items of RETURNING.
    pub returning: Vec<Returning>,
}

/// `ON CONFLICT (target) DO NOTHING` or `DO UPDATE SET …`.
#[derive(Clone, PartialEq, Debug)]
pub struct Conflict {
    /// The columns of the unique index; `None` for any index.
    pub target: Option<Vec<String>>,
    /// The update of the existing row; `None` for DO NOTHING.
    pub change: Option<Change>,
}

/// The DO UPDATE clause.
#[derive(Clone, PartialEq, Debug)]
pub struct Change {
    /// `SET column = expression`. In these expressions and in `guard`, parameter [`PROPOSED`]` + n` is column n of
    /// `proposed`.
    pub assignments: Vec<(String, Expr)>,
    /// The WHERE condition.
    pub guard: Option<Expr>,
    /// The columns of EXCLUDED that the expressions read.
    pub proposed: Vec<String>,
}

/// A number above the maximum number of a parameter in PostgreSQL (65,535).
pub const PROPOSED: u32 = 1 << 20;

impl Insert {
    /// The parameters of DO UPDATE.
    fn change_parameters(&self) -> BTreeSet<u32> {
        let change = self.conflict.as_ref().and_then(|c| c.change.as_ref());
        let assigned = change.iter().flat_map(|c| &c.assignments);
        let guard = change.and_then(|c| c.guard.as_ref());
        let exprs = assigned.map(|(_, expr)| expr).chain(guard);
        let numbers = exprs.flat_map(Expr::parameters);
        numbers.filter(|number| *number < PROPOSED).collect()
    }

    /// All expressions of VALUES and RETURNING.
    pub fn exprs(&self) -> Vec<&Expr> {
        let values = self.rows.iter().flatten().flatten();
        values.chain(self.returned()).collect()
    }

    fn returned(&self) -> impl Iterator<Item = &Expr> {
        self.returning.iter().filter_map(|item| match item {
            Returning::Expr { expr, .. } => Some(expr),
            Returning::All => None,
        })
    }

    /// SQL conditions: the client has the INSERT privilege on columns with DEFAULT, which the generated statement
    /// omits.
    fn rights(&self, table: &TableFacts) -> String {
        let first = self.rows.first().into_iter().flatten().enumerate();
        let defaults = first.filter(|(_, value)| value.is_none());
        let implied = |place: usize| table.columns.get(place).map(|column| &column.name);
        let columns =
            defaults.filter_map(|(place, _)| self.columns.get(place).or_else(|| implied(place)));
        let table = regclass_literal(&self.relation);
        let right = |column: &String| {
            let column = quote_literal(column);
            format!(
                " AND pg_catalog.has_column_privilege(pg_catalog.to_regclass({table}), {column}, 'INSERT')"
            )
        };
        columns.map(right).collect()
    }

    /// Name and value of each column in the first row, in order, without columns with DEFAULT.
    fn valued(&self, table: &TableFacts) -> Result<Vec<(String, &Expr)>, Refusal> {
        let mut valued = Vec::new();
        for (place, expr) in self.rows.first().into_iter().flatten().enumerate() {
            let implied = || table.columns.get(place).map(|column| column.name.clone());
            let column = self.columns.get(place).cloned().or_else(implied);
            let column = column.ok_or_else(|| Refusal::Column(format!("number {}", place + 1)))?;
            valued.extend(expr.as_ref().map(|expr| (column, expr)));
        }
        match valued.is_empty() {
            true => Err(Refusal::Column("without a value".to_owned())),
            false => Ok(valued),
        }
    }
}

/// The parts, if the statements are one INSERT of values.
pub(crate) fn of_statements(statements: &[NodeEnum]) -> Option<Insert> {
    match statements {
        [NodeEnum::InsertStmt(insert)] => parts_of(insert),
        _ => None,
    }
}

fn parts_of(insert: &InsertStmt) -> Option<Insert> {
    let relation = insert.relation.as_ref()?;
    let plain = insert.with_clause.is_none()
        && insert.r#override() == OverridingKind::OverridingNotSet
        && relation.catalogname.is_empty();
    let qualifier = qualifier(relation);
    if !plain || matches!(qualifier, "old" | "new" | "excluded") {
        return None;
    }
    let column = |target| {
        let target = as_target(target)?;
        target.indirection.is_empty().then(|| target.name.clone())
    };
    let columns: Vec<String> = insert.cols.iter().map(column).collect::<Option<_>>()?;
    let rows = read_values(insert.select_stmt.as_deref()?)?;
    let width = rows.first()?.len();
    let even = rows.iter().all(|row| row.len() == width);
    let named = columns.is_empty() || columns.len() == width;
    (even && named).then_some(Insert {
        relation: Name {
            schema: Some(relation.schemaname.clone()).filter(|schema| !schema.is_empty()),
            name: relation.relname.clone(),
        },
        columns,
        rows,
        conflict: match insert.on_conflict_clause.as_deref() {
            Some(clause) => Some(read_conflict(clause, qualifier)?),
            None => None,
        },
        returning: read_returning(insert.returning_clause.as_ref(), qualifier)?,
    })
}

fn qualifier(relation: &RangeVar) -> &str {
    match &relation.alias {
        Some(alias) => &alias.aliasname,
        None => &relation.relname,
    }
}

/// The rows of `VALUES (…), (…)` without other clauses.
fn read_values(source: &Node) -> Option<Vec<Vec<Option<Expr>>>> {
    let NodeEnum::SelectStmt(select) = source.node.as_ref()? else {
        return None;
    };
    let bare = select.sort_clause.is_empty()
        && select.limit_count.is_none()
        && select.limit_offset.is_none()
        && select.with_clause.is_none()
        && select.locking_clause.is_empty();
    let value = |node: &Node| match node.node.as_ref()? {
        NodeEnum::SetToDefault(_) => Some(None),
        other => {
            let expr = Expr::new(other.clone(), None).ok()?;
            expr.columns().is_empty().then_some(Some(expr))
        }
    };
    let row = |node: &Node| match node.node.as_ref()? {
        NodeEnum::List(row) => row.items.iter().map(value).collect::<Option<Vec<_>>>(),
        _ => None,
    };
    bare.then(|| select.values_lists.iter().map(row).collect())?
}

fn read_conflict(clause: &OnConflictClause, qualifier: &str) -> Option<Conflict> {
    let target = match clause.infer.as_deref() {
        Some(infer) => Some(read_target(infer)?),
        None => None,
    };
    let change = match clause.action() {
        OnConflictAction::OnconflictNothing => None,
        OnConflictAction::OnconflictUpdate => Some(read_change(clause, qualifier)?),
        _ => return None,
    };
    Some(Conflict { target, change })
}

/// The columns of a conflict target that contains only column names.
fn read_target(infer: &InferClause) -> Option<Vec<String>> {
    let column = |node: &Node| match node.node.as_ref()? {
        NodeEnum::IndexElem(element) => {
            let plain = element.expr.is_none()
                && element.collation.is_empty()
                && element.opclass.is_empty();
            (plain && !element.name.is_empty()).then(|| element.name.clone())
        }
        _ => None,
    };
    let plain = infer.where_clause.is_none() && infer.conname.is_empty();
    plain.then(|| infer.index_elems.iter().map(column).collect())?
}

fn read_change(clause: &OnConflictClause, qualifier: &str) -> Option<Change> {
    let mut proposed: Vec<String> = Vec::new();
    let mut expr = |node: &NodeEnum| {
        let mut parameter_of = |name: &str| {
            push_distinct(&mut proposed, name.to_owned());
            let place = proposed.iter().position(|known| known == name)?;
            Some(PROPOSED + u32::try_from(place).ok()?)
        };
        Expr::with_excluded(node.clone(), qualifier, &mut parameter_of).ok()
    };
    let assignments = read_assignments_by(&clause.target_list, &mut expr)?;
    let guard = match clause.where_clause.as_deref() {
        Some(guard) => Some(expr(guard.node.as_ref()?)?),
        None => None,
    };
    Some(Change {
        assignments,
        guard,
        proposed,
    })
}

/// Number of the first shared parameter, after the number of rows and the fingerprint.
const SHARED: usize = 3;

/// Rewrites an `insert` without ON CONFLICT for many clients. `parameters` and `returning` are the types of the
/// parameters and RETURNING columns.
///
/// # Errors
/// [`Refusal`]: why the INSERT cannot be rewritten.
pub fn rewrite(
    insert: &Insert,
    table: &TableFacts,
    parameters: &[TypeName],
    returning: &[TypeName],
) -> Result<Dealing, Refusal> {
    check(insert, table)?;
    // RETURNING cannot read the number of the member: all members must have the same values for its parameters.
    let shared: BTreeSet<u32> = insert.returned().flat_map(Expr::parameters).collect();
    let shared: Vec<u32> = shared.into_iter().collect();
    if insert.rows.len() > 1 && !shared.is_empty() {
        return Err(Refusal::Returning);
    }
    let rows = Rows::of(&insert.rows, parameters)?;
    let own = Own::of(rows.exprs(insert), &shared, parameters)?;
    let types = shared.iter().map(|number| {
        let name = parameters.get(*number as usize - 1);
        name.map(|name| &name.sql).ok_or(Refusal::Type(*number))
    });
    let types: Vec<&String> = types.collect::<Result<_, _>>()?;
    let parameter = |n: u32| match shared.iter().position(|shared| *shared == n) {
        Some(place) => format!(
            "${}::{}",
            SHARED + place,
            types.get(place).map_or("", |t| t)
        ),
        None => own.element(n, |place| format!("k.p{place}")),
    };
    let (mut columns, mut values) = (Vec::new(), Vec::new());
    for (column, expr) in insert.valued(table)? {
        columns.push(quote_ident(&column));
        let sql = expr.to_sql(&|_| String::new(), &parameter);
        values.push(sql.map_err(|_| Refusal::Expression)?);
    }
    let returned = returned(insert, table, &parameter, returning)?;
    let names: String = (1..=returning.len()).map(|n| format!(", w.r{n}")).collect();
    let text = format!(
        "WITH facts AS MATERIALIZED (SELECT {same}{rights} AND {set_timeout} AS same), \
         moved AS (INSERT INTO {table} AS u ({columns}) SELECT {values} FROM facts, {members} WHERE facts.same ORDER BY k.pos \
         RETURNING true AS there{returned}) \
         SELECT CASE WHEN facts.same AND (SELECT pg_catalog.count(*) FROM moved) {NE} $1::pg_catalog.int8 \
         THEN ('{UNCERTAIN}' {CONCAT} facts.same::pg_catalog.text)::pg_catalog.bool ELSE facts.same END, \
         CASE WHEN w.there THEN pg_catalog.row_number() OVER () END::pg_catalog.int4{names} FROM facts LEFT JOIN moved AS w ON true",
        same = table.fingerprint.holds(2),
        rights = insert.rights(table),
        set_timeout = crate::dealing::SET_LOCK_TIMEOUT,
        table = table.qualified(),
        columns = columns.join(", "),
        values = values.join(", "),
        members = own.rows("$1", SHARED + shared.len()),
    );
    Ok(Dealing {
        text,
        text_of_few: None,
        limit: KeyValue::Constant {
            kind: LiteralKind::Int4,
            text: insert.rows.len().to_string(),
        },
        single: insert.rows.len() == 1,
        queue: false,
        shared,
        own: own.into_list(|number| rows.numbers(number)),
        fingerprints: 1,
        tag: "INSERT 0",
        may_fail_unseen: false,
        raises_anything: false,
        returning: returning.len(),
    })
}

/// Checks that the table permits such inserts and has the columns.
fn check(insert: &Insert, table: &TableFacts) -> Result<(), Refusal> {
    if let Some(why) = &table.refused {
        return Err(Refusal::Table(table.name.clone(), why.clone()));
    }
    check_columns(table, insert.returned())?;
    let all = table.columns.iter().map(|column| &column.name);
    match insert.columns.is_empty() {
        true => check_intervals(table, all),
        false => check_intervals(table, &insert.columns),
    }
}

/// The RETURNING columns as `, value AS rn`.
fn returned(
    insert: &Insert,
    table: &TableFacts,
    parameter: &dyn Fn(u32) -> String,
    returning: &[TypeName],
) -> Result<String, Refusal> {
    let answers = answers(insert, table, parameter)?;
    if answers.len() != returning.len() {
        return Err(Refusal::Expression);
    }
    let numbered = (1..).zip(answers.iter().zip(returning));
    Ok(numbered
        .map(|(n, (value, name))| format!(", ({value})::{} AS r{n}", name.sql))
        .collect())
}

fn answers(
    insert: &Insert,
    table: &TableFacts,
    parameter: &dyn Fn(u32) -> String,
) -> Result<Vec<String>, Refusal> {
    let mut answers = Vec::new();
    let column = |name: &str| format!("u.{}", quote_ident(name));
    for item in &insert.returning {
        match item {
            Returning::All => answers.extend(table.columns.iter().map(|c| column(&c.name))),
            Returning::Expr { expr, .. } => {
                let sql = expr.to_sql(&column, parameter);
                answers.push(sql.map_err(|_| Refusal::Expression)?);
            }
        }
    }
    Ok(answers)
}
