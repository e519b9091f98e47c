//! The text of the fold's statement.

use super::column::{char_limit, state_type};
use super::refusal::FoldRefusal;
use super::rewriter::{Proposed, Rewriter, View};
use crate::facts::{Column, SAME};
use crate::operator::{ADD, EQ, GT, LT};
use crate::quote::quote_ident;
use crate::row_wait;

/// Number of rows of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rows {
    /// One row: the statement waits for its lock, for a short time.
    One,
    /// More than one row: the statement skips rows that others have locked.
    Many,
}

impl Rewriter<'_> {
    pub(super) fn sql(
        &self,
        answers: &[(String, String)],
        rows: Rows,
    ) -> Result<String, FoldRefusal> {
        let keys = self.key.len();
        let answer_names = |table: &str| -> String {
            let names = 1..=answers.len();
            names.map(|n| format!(", {table}r{n}")).collect()
        };
        let nulls = answers.iter().map(|(_, name)| format!(", NULL::{name}"));
        let (locking, lock_timeout) = match rows {
            Rows::One => ("", format!(" AND {}", row_wait::set_lock_timeout_sql())),
            Rows::Many => (" SKIP LOCKED", String::new()),
        };
        let rights = self
            .proposal
            .map_or("", |proposal| proposal.rights)
            .to_owned();
        let held = self.state.iter().map(|column| {
            let cast = char_limit(column).map_or("", |_| "::pg_catalog.varchar");
            let (name, state) = (quote_ident(&column.name), self.state_name(&column.name));
            format!(", t.{name}{cast} AS {state}")
        });
        let key = || (1..).zip(&self.key);
        let arrays = key().map(|(n, (column, _))| {
            format!("pg_catalog.unnest(${n}::{}[]), ", column.bare_type_name)
        });
        let on =
            key().map(|(n, (column, _))| format!("t.{} {EQ} k.k{n}", quote_ident(&column.name)));
        // The statement compares the facts after it has locked the table (at planning) and with its own snapshot: it
        // sees DDL that has committed, and later DDL waits for it.
        Ok(format!(
            "WITH RECURSIVE facts AS MATERIALIZED ({facts}), \
             held AS MATERIALIZED (SELECT k.first{offset} AS first, k.last{held} FROM facts, ROWS FROM (\
             {arrays}pg_catalog.unnest(${first}::pg_catalog.int4[]), pg_catalog.unnest(${last}::pg_catalog.int4[])) \
             AS k({key_names}first, last) JOIN {table} AS t ON {on} WHERE facts.same FOR NO KEY UPDATE OF t{locking}), \
             fold(first, pos, last{state}, touched, fine, hit{answer_names}) AS (\
             SELECT h.first, h.first, h.last{held_state}, false, true, false{nulls} FROM held AS h UNION ALL {step}), {write} \
             SELECT {SAME}, f.pos, f.fine, f.hit{folded} FROM facts LEFT JOIN fold AS f ON f.pos {GT} f.first",
            facts = self
                .table
                .catalog_version
                .facts_sql(keys + 3, &(rights + &lock_timeout)),
            offset = self.inserted_offset(),
            held = String::from_iter(held),
            arrays = String::from_iter(arrays),
            first = keys + 1,
            last = keys + 2,
            key_names = String::from_iter((1..=keys).map(|n| format!("k{n}, "))),
            table = self.table.rows(),
            on = Vec::from_iter(on).join(" AND "),
            state = self.state_names(""),
            answer_names = answer_names(""),
            held_state = self.state_names("h."),
            nulls = String::from_iter(nulls),
            step = self.step(answers)?,
            write = self.write(),
            folded = answer_names("f."),
        ))
    }

    /// The columns of the state: `, c1, c2, …`.
    fn state_names(&self, table: &str) -> String {
        let name = |column: &&Column| format!(", {table}{}", self.state_name(&column.name));
        self.state.iter().map(name).collect()
    }

    /// In an upsert, the first member is complete if the row was inserted in the same transaction.
    fn inserted_offset(&self) -> &'static str {
        match self.proposal {
            None => "",
            Some(_) => {
                " OPERATOR(pg_catalog.+) CASE WHEN t.xmin OPERATOR(pg_catalog.=) \
                 pg_catalog.xid(pg_catalog.pg_current_xact_id_if_assigned()) THEN 1 ELSE 0 END"
            }
        }
    }

    /// The condition for a member to be complete, apart from its guard; `None` if it cannot be violated.
    fn holds(&self, has_guard: bool) -> Result<Option<String>, FoldRefusal> {
        Ok(match (self.member_conditions()?, self.constraints()?) {
            (None, None) => None,
            (Some(proposal), None) => Some(proposal),
            (None, Some(constraints)) if has_guard => Some(format!("NOT g.hit OR ({constraints})")),
            (None, Some(constraints)) => Some(constraints),
            (Some(proposal), Some(constraints)) if has_guard => {
                Some(format!("{proposal} AND (NOT g.hit OR ({constraints}))"))
            }
            (Some(proposal), Some(constraints)) => Some(format!("{proposal} AND {constraints}")),
        })
    }

    /// One step of the recursion: applies the next member of each key.
    fn step(&self, answers: &[(String, String)]) -> Result<String, FoldRefusal> {
        let guard = self.guard(View::Before)?;
        let holds = self.holds(guard.is_some())?;
        let (hit, fine, done) = match (&guard, &holds) {
            (None, None) => ("true", "true", "true"),
            (Some(_), None) => ("g.hit", "true", "g.hit"),
            (None, Some(_)) => ("true", "v.fine", "v.fine"),
            (Some(_), Some(_)) => ("g.hit", "v.fine", "(g.hit AND v.fine)"),
        };
        let next = self.state.iter().map(|column| {
            let name = self.state_name(&column.name);
            match self.assigned.iter().any(|(c, _)| c.name == column.name) {
                false => format!(", f.{name}"),
                true if holds.is_some() => {
                    format!(", CASE WHEN v.fine THEN n.{name} ELSE f.{name} END")
                }
                true => format!(", n.{name}"),
            }
        });
        let answers = answers.iter().map(|(value, name)| match done {
            "true" => format!(", ({value})::{name}"),
            _ => format!(", (CASE WHEN {done} THEN {value} END)::{name}"),
        });
        let assigned = self.assigned.iter().map(|(column, expr)| {
            let (name, sql) = (
                self.state_name(&column.name),
                self.expr(expr, View::Before)?,
            );
            let value = format!(
                "({sql})::{}{}",
                state_type(column),
                column.collation.clause()
            );
            Ok(match hit {
                "true" => format!("{value} AS {name}"),
                _ => format!("CASE WHEN {hit} THEN {value} ELSE f.{name} END AS {name}"),
            })
        });
        // OFFSET 0 prevents PostgreSQL from evaluating a condition once per use.
        let once = |condition: Option<String>, name: &str, table: &str| {
            let lateral =
                |sql| format!(" CROSS JOIN LATERAL (SELECT ({sql}) {name} OFFSET 0) AS {table}");
            condition.map(lateral).unwrap_or_default()
        };
        Ok(format!(
            "SELECT f.first, f.pos {ADD} 1, f.last{next}, f.touched OR {done}, {fine}, {done}{answers} FROM fold AS f{proposed}{guard} \
             CROSS JOIN LATERAL (SELECT {assigned}) AS n{holds} WHERE f.pos {LT} f.last AND f.fine",
            next = String::from_iter(next),
            answers = String::from_iter(answers),
            assigned = assigned
                .collect::<Result<Vec<_>, FoldRefusal>>()?
                .join(", "),
            proposed = self.proposed_values()?,
            guard = once(guard, "IS TRUE AS hit", "g"),
            holds = once(holds.clone(), "AS fine", "v"),
        ))
    }

    /// The values of the proposed row. As columns, they have the collations of their columns like those of EXCLUDED: a
    /// COLLATE clause in an expression would prevail over the collations of other columns.
    fn proposed_values(&self) -> Result<String, FoldRefusal> {
        let value = |(place, proposed): (usize, &Proposed)| {
            let name = &proposed.column;
            let column = self.table.column(name);
            let column = column.ok_or_else(|| FoldRefusal::Column(name.clone()))?;
            Ok(format!(
                "({})::{}{} AS e{place}",
                self.expr(&proposed.value, View::Before)?,
                state_type(column),
                column.collation.clause(),
            ))
        };
        let values = (1..).zip(self.proposed()).map(value);
        let values = values.collect::<Result<Vec<_>, FoldRefusal>>()?;
        Ok(match values.is_empty() {
            true => String::new(),
            false => format!(" CROSS JOIN LATERAL (SELECT {}) AS e", values.join(", ")),
        })
    }

    /// Writes one new version of each row that a member has changed.
    fn write(&self) -> String {
        let pair = |operator: &str, column: &Column| {
            let (name, state) = (quote_ident(&column.name), self.state_name(&column.name));
            format!("{name} {operator} f.{state}")
        };
        let sets = self.assigned.iter().map(|(column, _)| pair("=", column));
        let on = self
            .key
            .iter()
            .map(|(column, _)| format!("t.{}", pair(EQ, column)));
        format!(
            "write AS (UPDATE {} AS t SET {} FROM fold AS f WHERE {} AND f.touched AND (f.pos {EQ} f.last OR NOT f.fine))",
            self.table.rows(),
            Vec::from_iter(sets).join(", "),
            Vec::from_iter(on).join(" AND "),
        )
    }
}
