//! Upserts of many clients: one INSERT of the first row for each key, and for DO UPDATE a fold of all the others, in one
//! transaction.
//!
//! The INSERT does nothing where a row is there. What comes after it for the same key meets that row for certain: under DO
//! NOTHING nothing is left to do, under DO UPDATE the fold applies it, in order of arrival. Who was inserted is known
//! by the key that comes back.

#[cfg(test)]
mod tests;

use super::{Change, Insert, PROPOSED, check, returned};
use crate::dealing::{Own, OwnParameter, PATIENCE_OF, Refusal, TypeName, check_columns};
use crate::expr::Expr;
use crate::facts::{self, Column, TableFacts};
use crate::fold::{self, Fold, KeyClass, KeyColumn};
use crate::quote_ident;
use crate::update::{KeyEquality, KeyValue, Update};

/// Columns in front of the key: facts unchanged?
pub const RESULT_COLUMNS: usize = 1;

/// The statements and how to fill them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upsert {
    /// The INSERT. Its parameters: the fingerprint, the limit for waiting (NULL: the session's own), and if `own` is
    /// not empty the number of each row and the arrays of `own`. Its result: [`RESULT_COLUMNS`], the key of
    /// each row that was inserted (NULL: none), RETURNING.
    pub insert: String,
    /// The client's own upsert for all, where every member is on a key of its own; with the parameters of `insert`, and of
    /// its result the rows that were changed, too. `None`: DO UPDATE needs parameters of its members.
    pub one_each: Option<String>,
    /// Where the key's values come from.
    pub key: Vec<KeyColumn>,
    /// Parameters that each member has of its own in the INSERT.
    pub own: Vec<OwnParameter>,
    /// What becomes of members whose row is there.
    pub then: Then,
    /// Number of RETURNING columns.
    pub returning: usize,
}

/// What becomes of members whose row is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Then {
    /// Nothing.
    Nothing {
        /// A member that was not inserted met a row of its own key; else perhaps one that is equal in another index.
        same_key: bool,
    },
    /// They are applied to it.
    Fold(Box<Fold>),
}

/// What an upsert does to a row that is there, as an UPDATE, and what must hold of each member's own values: PostgreSQL
/// looks at what is proposed before it looks for a conflict.
#[derive(Debug, Clone, PartialEq)]
pub struct OnConflict {
    /// The UPDATE of that row.
    pub update: Update,
    /// What must not be false of what is proposed.
    pub proposed: Vec<Expr>,
    /// What PostgreSQL may compute of a member whether there is a conflict or not.
    pub computed: Vec<Expr>,
}

/// Rewrites an `insert` with ON CONFLICT for many clients; `on_conflict` is what [`on_conflict`] has made of it.
pub fn rewrite(
    insert: &Insert,
    on_conflict: Option<&OnConflict>,
    table: &TableFacts,
    parameters: &[TypeName],
    returning: &[TypeName],
) -> Result<Upsert, Refusal> {
    check(insert, table)?;
    let conflict = insert.conflict.as_ref().ok_or(Refusal::Conflict)?;
    let key = Key::of(insert, table)?;
    let columns = key.columns(parameters)?;
    if insert.returned().any(|expr| !expr.parameters().is_empty()) {
        return Err(Refusal::Returning);
    }
    let then = match on_conflict {
        None => Then::Nothing {
            same_key: conflict.target.is_some() || table.unique_indexes == 1,
        },
        Some(OnConflict {
            update, proposed, ..
        }) => {
            let fold = fold::rewrite_upsert(update, proposed, table, parameters, returning)?;
            match fold.key == columns {
                true => Then::Fold(Box::new(fold)),
                false => return Err(Refusal::Conflict),
            }
        }
    };
    let valued = insert.valued(table)?;
    let values: Vec<&Expr> = valued.iter().map(|(_, expr)| *expr).collect();
    let computed = on_conflict.map_or(&[][..], |change| &change.computed);
    let own = Own::of(
        values.into_iter().chain(computed).collect(),
        &[],
        parameters,
    )?;
    let source = Source {
        own: &own,
        valued: &valued,
        computed,
    };
    Ok(Upsert {
        insert: insert_sql(insert, table, &key, &source, "DO NOTHING", returning)?,
        one_each: match change_sql(insert)? {
            Some(change) => Some(insert_sql(
                insert, table, &key, &source, &change, returning,
            )?),
            None => None,
        },
        key: columns,
        own: own.into_list(|number| vec![number]),
        then,
        returning: returning.len(),
    })
}

/// What is inserted.
struct Source<'a> {
    own: &'a Own<'a>,
    /// Columns that have values, and these.
    valued: &'a [(String, &'a Expr)],
    computed: &'a [Expr],
}

fn insert_sql(
    insert: &Insert,
    table: &TableFacts,
    key: &Key,
    source: &Source,
    action: &str,
    returning: &[TypeName],
) -> Result<String, Refusal> {
    let parameter = |n: u32| source.own.element(n, |place| format!("k.p{place}"));
    let value = |expr: &Expr| {
        let sql = expr.to_sql(&|_| String::new(), &parameter);
        sql.map_err(|_| Refusal::Expression)
    };
    let (mut columns, mut values) = (Vec::new(), Vec::new());
    for (column, expr) in source.valued {
        columns.push(quote_ident(column));
        values.push(value(expr)?);
    }
    let computed = source
        .computed
        .iter()
        .map(value)
        .collect::<Result<Vec<_>, _>>()?;
    let computed = match computed.is_empty() {
        true => String::new(),
        false => format!(" AND pg_catalog.num_nulls({}) >= 0", computed.join(", ")),
    };
    let conflict = insert.conflict.as_ref().ok_or(Refusal::Conflict)?;
    let target = match &conflict.target {
        Some(target) => {
            let target: Vec<String> = target.iter().map(|name| quote_ident(name)).collect();
            format!(" ({})", target.join(", "))
        }
        None => String::new(),
    };
    let numbered = || (1..).zip(&key.0);
    let keys: String = numbered()
        .map(|(n, (column, _))| format!(", u.{} AS k{n}", quote_ident(&column.name)))
        .collect();
    let key_names: String = numbered().map(|(n, _)| format!(", w.k{n}")).collect();
    let names: String = (1..=returning.len()).map(|n| format!(", w.r{n}")).collect();
    Ok(format!(
        "WITH facts AS MATERIALIZED (SELECT {same} = $1{rights} AND {patience} AS same), \
         moved AS (INSERT INTO {table} AS u ({columns}) SELECT {values} FROM facts, {members} WHERE facts.same{computed} ORDER BY k.pos \
         ON CONFLICT{target} {action} RETURNING true AS there{keys}{returned}) \
         SELECT facts.same{key_names}{names} FROM facts LEFT JOIN moved AS w ON true",
        same = facts::fingerprint_sql(&insert.relation, &table.extent),
        rights = insert.rights(table),
        patience = PATIENCE_OF,
        table = table.qualified(),
        columns = columns.join(", "),
        values = values.join(", "),
        members = source.own.rows("1", 3),
        returned = returned(insert, table, &|_| String::new(), returning)?,
    ))
}

/// DO UPDATE as it is, if all members' values in it are those of EXCLUDED.
fn change_sql(insert: &Insert) -> Result<Option<String>, Refusal> {
    let conflict = insert.conflict.as_ref();
    let Some(change) = conflict.and_then(|conflict| conflict.change.as_ref()) else {
        return Ok(None);
    };
    let proposed = |number: u32| {
        let place = number.checked_sub(PROPOSED)? as usize;
        change.proposed.get(place)
    };
    let assigned = change.assignments.iter().map(|(_, expr)| expr);
    let mut parameters = assigned.chain(&change.guard).flat_map(Expr::parameters);
    if parameters.any(|number| proposed(number).is_none()) {
        return Ok(None);
    }
    let sql = |expr: &Expr| {
        let excluded = |number| {
            let name = proposed(number).map_or_else(String::new, |name| quote_ident(name));
            format!("EXCLUDED.{name}")
        };
        let sql = expr.to_sql(&|name| format!("u.{}", quote_ident(name)), &excluded);
        sql.map_err(|_| Refusal::Expression)
    };
    let set = |(name, expr): &(String, Expr)| Ok(format!("{} = {}", quote_ident(name), sql(expr)?));
    let sets = change.assignments.iter().map(set);
    let sets = sets.collect::<Result<Vec<_>, Refusal>>()?.join(", ");
    let guard = match &change.guard {
        Some(guard) => format!(" WHERE {}", sql(guard)?),
        None => String::new(),
    };
    Ok(Some(format!("DO UPDATE SET {sets}{guard}")))
}

/// The columns by which rows are told apart, and their values.
struct Key<'a>(Vec<(&'a Column, KeyValue)>);

impl<'a> Key<'a> {
    /// The target of ON CONFLICT; without one, the shortest key that has values.
    fn of(insert: &Insert, table: &'a TableFacts) -> Result<Self, Refusal> {
        if insert.rows.len() != 1 {
            return Err(Refusal::Conflict);
        }
        let valued = insert.valued(table)?;
        let value_of = |name: &String| {
            let (_, expr) = valued.iter().find(|(column, _)| column == name)?;
            Some((table.column(name)?, expr.as_value()?))
        };
        let named = |names: &Vec<String>| names.iter().map(value_of).collect::<Option<Vec<_>>>();
        let target = insert
            .conflict
            .as_ref()
            .and_then(|conflict| conflict.target.as_ref());
        let is_target = |names: &&Vec<String>| {
            target.is_none_or(|target| {
                target.iter().all(|name| names.contains(name))
                    && names.iter().all(|name| target.contains(name))
            })
        };
        let keys = table.keys.iter().filter(is_target).filter_map(named);
        keys.min_by_key(Vec::len).map(Self).ok_or(Refusal::Conflict)
    }

    /// How their values are compared.
    fn columns(&self, parameters: &[TypeName]) -> Result<Vec<KeyColumn>, Refusal> {
        let compared = |(column, value): &(&Column, KeyValue)| {
            let key = fold::column::key_column(column, value, parameters)?;
            // What PostgreSQL rounds or pads comes back as something else.
            let kept = key.class != KeyClass::Opaque || column.type_modifier == -1;
            kept.then_some(key).ok_or(Refusal::Conflict)
        };
        self.0.iter().map(compared).collect()
    }
}

/// What `insert` does to a row that is there; `None`: nothing.
pub fn on_conflict(
    insert: &Insert,
    table: &TableFacts,
    parameters: &[TypeName],
) -> Result<Option<OnConflict>, Refusal> {
    let conflict = insert.conflict.as_ref();
    let Some(change) = conflict.and_then(|conflict| conflict.change.as_ref()) else {
        return Ok(None);
    };
    let proposal = Proposal {
        valued: insert.valued(table)?,
        table,
        parameters,
    };
    let resolved = |expr: &Expr| proposal.resolved(expr, change);
    let assignments = change.assignments.iter();
    let assignments = assignments.map(|(name, expr)| Ok((name.clone(), resolved(expr)?)));
    let key = Key::of(insert, table)?.0.into_iter();
    let update = Update {
        relation: insert.relation.clone(),
        alias: None,
        equalities: key
            .map(|(column, value)| KeyEquality {
                column: column.name.clone(),
                value,
            })
            .collect(),
        guards: change
            .guard
            .iter()
            .map(resolved)
            .collect::<Result<_, _>>()?,
        assignments: assignments.collect::<Result<_, Refusal>>()?,
        returning: insert.returning.clone(),
        parameters: parameters.len(),
    };
    let changed: Vec<&Expr> = update.assignments.iter().map(|(_, expr)| expr).collect();
    check_columns(table, changed.into_iter().chain(&update.guards))?;
    let computed = proposal.computed(change)?;
    let mut proposed = proposal.checks()?;
    if !computed.is_empty() {
        proposed.push(all_computed(&computed)?);
    }
    Ok(Some(OnConflict {
        update,
        proposed,
        computed,
    }))
}

/// A condition that always holds, and computes all of these.
fn all_computed(exprs: &[Expr]) -> Result<Expr, Refusal> {
    let sql = |expr: &Expr| expr.to_sql(&|_| String::new(), &|n| format!("${n}"));
    let parts = exprs.iter().map(sql).collect::<Result<Vec<_>, _>>();
    let parts = parts.map_err(|_| Refusal::Expression)?.join(", ");
    let condition = Expr::parse(&format!("pg_catalog.num_nulls({parts}) >= 0"));
    condition.map_err(|_| Refusal::Expression)
}

/// The row that a member proposes.
struct Proposal<'a> {
    /// Columns that have values, and these.
    valued: Vec<(String, &'a Expr)>,
    table: &'a TableFacts,
    parameters: &'a [TypeName],
}

impl Proposal<'_> {
    /// SQL of the value of a column, as a column of its type.
    fn value(&self, name: &str) -> Result<String, Refusal> {
        let unknown = || Refusal::Column(name.to_owned());
        let column = self.table.column(name).ok_or_else(unknown)?;
        let (_, expr) = self
            .valued
            .iter()
            .find(|(valued, _)| valued == name)
            .ok_or_else(unknown)?;
        if fold::column::is_cut(column) || !column.builtin {
            return Err(fold::Refusal::Type(name.to_owned()).into());
        }
        let sql = expr.to_sql(&|_| String::new(), &|n| format!("${n}"));
        let sql = sql.map_err(|_| Refusal::Expression)?;
        Ok(match self.is_of_type(expr, column) {
            true => sql,
            false => format!("{sql}::{}", fold::column::state_type(column)),
        })
    }

    /// A parameter that is of the column's type, so that nothing can become of it on its way into the column.
    fn is_of_type(&self, expr: &Expr, column: &Column) -> bool {
        match expr.as_value() {
            Some(KeyValue::Parameter(number)) => {
                let name = self.parameters.get(number as usize - 1);
                name.is_some_and(|name| name.sql == fold::column::state_type(column))
            }
            _ => false,
        }
    }

    /// An expression of DO UPDATE, with the proposed values in their places.
    fn resolved(&self, expr: &Expr, change: &Change) -> Result<Expr, Refusal> {
        let place = |number: u32| number.checked_sub(PROPOSED).map(|place| place as usize);
        let mut values = Vec::new();
        for name in &change.proposed {
            values.push(self.value(name)?);
        }
        let parameter = |number: u32| match place(number).and_then(|place| values.get(place)) {
            Some(value) => value.clone(),
            None => format!("${number}"),
        };
        let sql = expr.to_sql(&|name| quote_ident(name), &parameter);
        let sql = sql.map_err(|_| Refusal::Expression)?;
        Expr::parse(&sql).map_err(|_| Refusal::Expression)
    }

    /// What PostgreSQL may compute of DO UPDATE before it knows whether there is a conflict, and the arrays in it, which
    /// travel as text and have to be read.
    fn computed(&self, change: &Change) -> Result<Vec<Expr>, Refusal> {
        let exprs = change.assignments.iter().map(|(_, expr)| expr);
        let exprs: Vec<&Expr> = exprs.chain(&change.guard).collect();
        let parts = exprs.iter();
        let parts = parts.flat_map(|expr| expr.parts_without_columns(&|n| n >= PROPOSED));
        let mut computed: Vec<Expr> = parts.collect();
        for number in exprs.iter().flat_map(|expr| expr.parameters()) {
            let name = self.parameters.get((number as usize).wrapping_sub(1));
            if name.is_some_and(|name| name.array) {
                let array = Expr::parse(&format!("${number}"));
                computed.push(array.map_err(|_| Refusal::Expression)?);
            }
        }
        Ok(computed)
    }

    /// What PostgreSQL asks of a row before it looks for a conflict.
    fn checks(&self) -> Result<Vec<Expr>, Refusal> {
        let (mut checks, mut values) = (Vec::new(), Vec::new());
        for (name, expr) in &self.valued {
            let column = self.table.column(name);
            let column = column.ok_or_else(|| Refusal::Column(name.clone()))?;
            let value = self.value(name)?;
            if column.not_null {
                checks.push(format!("{value} IS NOT NULL"));
            }
            if let Some(chars) = fold::column::char_limit(column) {
                checks.push(format!("pg_catalog.char_length({value}) <= {chars}"));
            }
            // Without parameters it is the same in the INSERT.
            if !expr.parameters().is_empty() {
                values.push(value);
            }
        }
        if !values.is_empty() {
            // Reading, computing and converting a value may fail even if it is not needed.
            let values = values.join(", ");
            checks.push(format!("pg_catalog.num_nulls({values}) >= 0"));
        }
        for text in &self.table.checks {
            checks.extend(self.check(text)?);
        }
        let parsed = checks.iter().map(|text| Expr::parse(text));
        parsed
            .collect::<Result<_, _>>()
            .map_err(|_| Refusal::Expression)
    }

    /// A CHECK constraint on what is proposed. `None`: it reads defaults only, as in the INSERT.
    fn check(&self, text: &str) -> Result<Option<String>, Refusal> {
        let check = Expr::parse(text).map_err(|_| Refusal::Expression)?;
        let columns = check.columns();
        let valued = |name: &String| self.valued.iter().any(|(valued, _)| valued == name);
        if !columns.iter().any(valued) {
            return Ok(None);
        }
        if !columns.iter().all(valued) {
            return Err(Refusal::Check);
        }
        let values = columns.iter().map(|name| Ok((name, self.value(name)?)));
        let values = values.collect::<Result<Vec<_>, Refusal>>()?;
        let value = |name: &str| {
            let found = values.iter().find(|(known, _)| *known == name);
            found.map_or_else(String::new, |(_, value)| value.clone())
        };
        let sql = check.to_sql(&value, &|n| format!("${n}"));
        sql.map(Some).map_err(|_| Refusal::Expression)
    }
}
