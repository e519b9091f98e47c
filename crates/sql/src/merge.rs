//! The shape of an INSERT of one row, and the one statement that inserts the rows of many clients in order of arrival.

#[cfg(test)]
mod tests;

use pg_query::NodeEnum;
use pg_query::protobuf::{InsertStmt, OverridingKind};

use crate::dealing::{Dealing, Own, Refusal, TypeName, UNCERTAIN, check_columns, check_intervals};
use crate::expr::Expr;
use crate::facts::{self, TableFacts};
use crate::literals::LiteralKind;
use crate::name::Name;
use crate::quote_ident;
use crate::update::{KeyValue, Returning, as_target, read_returning};
use std::collections::BTreeSet;

/// `INSERT INTO relation (columns) VALUES (values) RETURNING …`, taken apart.
#[derive(Clone, PartialEq, Debug)]
pub struct Insert {
    /// The table.
    pub relation: Name,
    /// Its columns, if they are named.
    pub columns: Vec<String>,
    /// The value of each; `None` for DEFAULT. They read no columns.
    pub values: Vec<Option<Expr>>,
    /// The items of RETURNING.
    pub returning: Vec<Returning>,
}

impl Insert {
    /// Every expression in it.
    pub fn exprs(&self) -> Vec<&Expr> {
        self.values
            .iter()
            .flatten()
            .chain(self.returned())
            .collect()
    }

    fn returned(&self) -> impl Iterator<Item = &Expr> {
        self.returning.iter().filter_map(|item| match item {
            Returning::Expr { expr, .. } => Some(expr),
            Returning::All => None,
        })
    }
}

/// Where the shared parameters start: behind the number of rows and the fingerprint.
const SHARED: usize = 3;

/// The parts, if the statements are one INSERT of one row.
pub(crate) fn of_statements(statements: &[NodeEnum]) -> Option<Insert> {
    match statements {
        [NodeEnum::InsertStmt(insert)] => take_apart(insert),
        _ => None,
    }
}

fn take_apart(insert: &InsertStmt) -> Option<Insert> {
    let relation = insert.relation.as_ref()?;
    let plain = insert.with_clause.is_none()
        && insert.on_conflict_clause.is_none()
        && insert.r#override() == OverridingKind::OverridingNotSet
        && relation.catalogname.is_empty();
    let NodeEnum::SelectStmt(select) = insert.select_stmt.as_deref()?.node.as_ref()? else {
        return None;
    };
    let bare = select.sort_clause.is_empty()
        && select.limit_count.is_none()
        && select.limit_offset.is_none()
        && select.with_clause.is_none()
        && select.locking_clause.is_empty();
    let [row] = select.values_lists.as_slice() else {
        return None;
    };
    let NodeEnum::List(row) = row.node.as_ref()? else {
        return None;
    };
    if !plain || !bare {
        return None;
    }
    let qualifier = match &relation.alias {
        Some(alias) => &alias.aliasname,
        None => &relation.relname,
    };
    let column = |target| {
        let target = as_target(target)?;
        target.indirection.is_empty().then(|| target.name.clone())
    };
    let value = |node: &pg_query::Node| match node.node.as_ref()? {
        NodeEnum::SetToDefault(_) => Some(None),
        other => {
            let expr = Expr::new(other.clone(), None).ok()?;
            expr.columns().is_empty().then_some(Some(expr))
        }
    };
    let values: Vec<Option<Expr>> = row.items.iter().map(value).collect::<Option<_>>()?;
    let columns: Vec<String> = insert.cols.iter().map(column).collect::<Option<_>>()?;
    let named = columns.is_empty() || columns.len() == values.len();
    (named && !matches!(qualifier.as_str(), "old" | "new")).then_some(Insert {
        relation: Name {
            schema: Some(relation.schemaname.clone()).filter(|schema| !schema.is_empty()),
            name: relation.relname.clone(),
        },
        columns,
        values,
        returning: read_returning(insert.returning_clause.as_ref(), qualifier)?,
    })
}

/// Rewrites `insert` for many clients. `parameters` and `returning` are the types of its parameters and columns.
pub fn rewrite(
    insert: &Insert,
    table: &TableFacts,
    parameters: &[TypeName],
    returning: &[TypeName],
) -> Result<Dealing, Refusal> {
    if let Some(why) = &table.refused {
        return Err(Refusal::Table(table.name.clone(), why.clone()));
    }
    check_columns(table, insert.returned())?;
    let all = table.columns.iter().map(|column| &column.name);
    match insert.columns.is_empty() {
        true => check_intervals(table, all)?,
        false => check_intervals(table, &insert.columns)?,
    }
    // RETURNING knows no numbers of clients: what is bound there must be the same for all.
    let shared: BTreeSet<u32> = insert.returned().flat_map(Expr::parameters).collect();
    let shared: Vec<u32> = shared.into_iter().collect();
    let own = Own::of(insert.exprs(), &shared, parameters)?;
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
    let value = |expr: &Expr| {
        let sql = expr.to_sql(&|_| String::new(), &parameter);
        sql.map_err(|_| Refusal::Expression)
    };
    let (mut columns, mut values) = (Vec::new(), Vec::new());
    for (place, expr) in insert.values.iter().enumerate() {
        let implied = || table.columns.get(place).map(|column| column.name.clone());
        let column = insert.columns.get(place).cloned().or_else(implied);
        let column = column.ok_or_else(|| Refusal::Column(format!("number {}", place + 1)))?;
        if let Some(expr) = expr {
            columns.push(quote_ident(&column));
            values.push(value(expr)?);
        }
    }
    if values.is_empty() {
        return Err(Refusal::Column("without a value".to_owned()));
    }
    let answers = answers(insert, table, &parameter)?;
    if answers.len() != returning.len() {
        return Err(Refusal::Expression);
    }
    let returned: String = (1..)
        .zip(answers.iter().zip(returning))
        .map(|(n, (value, name))| format!(", ({value})::{} AS r{n}", name.sql))
        .collect();
    let names: String = (1..=returning.len()).map(|n| format!(", w.r{n}")).collect();
    let text = format!(
        "WITH facts AS MATERIALIZED (SELECT {same} = $2 AND {patience} AS same), \
         moved AS (INSERT INTO {table} AS u ({columns}) SELECT {values} FROM facts, {members} WHERE facts.same ORDER BY k.pos \
         RETURNING true AS there{returned}) \
         SELECT CASE WHEN facts.same AND (SELECT pg_catalog.count(*) FROM moved) <> $1::pg_catalog.int8 \
         THEN ('{UNCERTAIN}' || facts.same::pg_catalog.text)::pg_catalog.bool ELSE facts.same END, \
         CASE WHEN w.there THEN pg_catalog.row_number() OVER () END::pg_catalog.int4{names} FROM facts LEFT JOIN moved AS w ON true",
        same = facts::fingerprint_sql(&insert.relation, &table.extent),
        patience = crate::dealing::PATIENCE,
        table = table.qualified(),
        columns = columns.join(", "),
        values = values.join(", "),
        members = own.rows("$1", SHARED + shared.len()),
    );
    Ok(Dealing {
        text,
        limit: KeyValue::Constant {
            kind: LiteralKind::Int4,
            text: "1".to_owned(),
        },
        single: true,
        queue: false,
        shared,
        own: own.into_list(),
        fingerprints: 1,
        tag: "INSERT 0",
        may_fail_unseen: false,
        raises_anything: false,
        returning: returning.len(),
    })
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
