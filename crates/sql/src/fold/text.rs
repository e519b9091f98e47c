//! The text of the fold's statement. The functions write its parts in order.

use super::column::{char_limit, state_type};
use super::refusal::Refusal;
use super::rewriter::{Rewriter, View};
use crate::facts::Column;
use crate::operator::{ADD, EQ, GT, LT};
use crate::quote::quote_ident;
use crate::row_wait;
use std::fmt::Write as _;

/// Number of rows of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rows {
    /// One row: the statement waits for its lock, for a short time.
    One,
    /// More than one row: the statement skips rows that others have locked.
    Many,
}

impl Rewriter<'_> {
    pub(super) fn sql(&self, answers: &[(String, String)], rows: Rows) -> Result<String, Refusal> {
        let mut out = String::with_capacity(2_000);
        let keys = self.key.len();
        let answer_names = (1..=answers.len()).fold(String::new(), |s, n| s + &format!(", r{n}"));
        let state_names = self
            .state
            .iter()
            .fold(String::new(), |s, c| s + ", " + &self.state_name(&c.name));
        let unchanged = self.table.fingerprint.holds(keys + 3);
        let rights = self.proposal.map_or("", |proposal| proposal.rights);
        let (locking, lock_timeout) = match rows {
            Rows::One => ("", format!(" AND {}", row_wait::set_lock_timeout_sql())),
            Rows::Many => (" SKIP LOCKED", String::new()),
        };
        // The statement compares the facts after it has locked the table (at planning) and with its own snapshot: it
        // sees DDL that has committed, and later DDL waits for it.
        let _ = write!(
            out,
            "WITH RECURSIVE facts AS MATERIALIZED (SELECT {unchanged}{rights}{lock_timeout} AS same), "
        );
        let _ = write!(
            out,
            "held AS MATERIALIZED (SELECT k.first{} AS first, k.last",
            self.inserted_offset()
        );
        for column in &self.state {
            let cast = if char_limit(column).is_some() {
                "::pg_catalog.varchar"
            } else {
                ""
            };
            let _ = write!(
                out,
                ", t.{}{cast} AS {}",
                quote_ident(&column.name),
                self.state_name(&column.name)
            );
        }
        let _ = write!(out, " FROM facts, ROWS FROM (");
        for (n, (column, _)) in self.key.iter().enumerate() {
            let _ = write!(
                out,
                "pg_catalog.unnest(${}::{}[]), ",
                n + 1,
                column.bare_type_name
            );
        }
        let _ = write!(
            out,
            "pg_catalog.unnest(${}::pg_catalog.int4[]), pg_catalog.unnest(${}::pg_catalog.int4[])) AS k(",
            keys + 1,
            keys + 2
        );
        (1..=keys).for_each(|n| {
            let _ = write!(out, "k{n}, ");
        });
        let _ = write!(out, "first, last) JOIN {} AS t ON ", self.table.qualified());
        let equal = |n: usize, c: &Column| format!("t.{} {EQ} k.k{}", quote_ident(&c.name), n + 1);
        let on: Vec<String> = self
            .key
            .iter()
            .enumerate()
            .map(|(n, (c, _))| equal(n, c))
            .collect();
        let _ = write!(
            out,
            "{} WHERE facts.same FOR NO KEY UPDATE OF t{locking}), ",
            on.join(" AND ")
        );
        let _ = write!(
            out,
            "fold(first, pos, last{state_names}, touched, fine, hit{answer_names}) AS ("
        );
        let _ = write!(out, "SELECT h.first, h.first, h.last");
        for column in &self.state {
            let _ = write!(out, ", h.{}", self.state_name(&column.name));
        }
        let _ = write!(out, ", false, true, false");
        answers.iter().for_each(|(_, name)| {
            let _ = write!(out, ", NULL::{name}");
        });
        let _ = write!(out, " FROM held AS h UNION ALL ");
        self.step(&mut out, answers)?;
        let _ = write!(out, "), ");
        self.write(&mut out);
        let _ = write!(out, "SELECT facts.same, f.pos, f.fine, f.hit");
        (1..=answers.len()).for_each(|n| {
            let _ = write!(out, ", f.r{n}");
        });
        let _ = write!(out, " FROM facts LEFT JOIN fold AS f ON f.pos {GT} f.first");
        Ok(out)
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

    /// One step of the recursion: applies the next member of each key.
    fn step(&self, out: &mut String, answers: &[(String, String)]) -> Result<(), Refusal> {
        let guard = self.guard(View::Before)?;
        let constraints = self.constraints()?;
        let holds = match (self.member_conditions()?, &constraints, &guard) {
            (None, None, _) => None,
            (Some(proposal), None, _) => Some(proposal),
            (None, Some(constraints), None) => Some(constraints.clone()),
            (None, Some(constraints), Some(_)) => Some(format!("NOT g.hit OR ({constraints})")),
            (Some(proposal), Some(constraints), None) => {
                Some(format!("{proposal} AND {constraints}"))
            }
            (Some(proposal), Some(constraints), Some(_)) => {
                Some(format!("{proposal} AND (NOT g.hit OR ({constraints}))"))
            }
        };
        let hit = if guard.is_some() { "g.hit" } else { "true" };
        let fine = if holds.is_some() { "v.fine" } else { "true" };
        let _ = write!(out, "SELECT f.first, f.pos {ADD} 1, f.last");
        for column in &self.state {
            let name = self.state_name(&column.name);
            let _ = match self.assigned.iter().any(|(c, _)| c.name == column.name) {
                false => write!(out, ", f.{name}"),
                true if holds.is_some() => {
                    write!(out, ", CASE WHEN v.fine THEN n.{name} ELSE f.{name} END")
                }
                true => write!(out, ", n.{name}"),
            };
        }
        let done = match (guard.is_some(), holds.is_some()) {
            (false, false) => "true".to_owned(),
            (true, false) => "g.hit".to_owned(),
            (false, true) => "v.fine".to_owned(),
            (true, true) => "(g.hit AND v.fine)".to_owned(),
        };
        let _ = write!(out, ", f.touched OR {done}, {fine}, {done}");
        for (value, name) in answers {
            let _ = match done.as_str() {
                "true" => write!(out, ", ({value})::{name}"),
                _ => write!(out, ", (CASE WHEN {done} THEN {value} END)::{name}"),
            };
        }
        let _ = write!(out, " FROM fold AS f");
        if let Some(guard) = &guard {
            // OFFSET 0 prevents PostgreSQL from evaluating the guard once per use.
            let _ = write!(
                out,
                " CROSS JOIN LATERAL (SELECT ({guard}) IS TRUE AS hit OFFSET 0) AS g"
            );
        }
        let mut assigned = Vec::new();
        for (column, expr) in &self.assigned {
            let name = self.state_name(&column.name);
            let value = format!(
                "({})::{}",
                self.expr(expr, View::Before)?,
                state_type(column)
            );
            assigned.push(match hit {
                "true" => format!("{value} AS {name}"),
                _ => format!("CASE WHEN {hit} THEN {value} ELSE f.{name} END AS {name}"),
            });
        }
        let _ = write!(
            out,
            " CROSS JOIN LATERAL (SELECT {}) AS n",
            assigned.join(", ")
        );
        if let Some(holds) = &holds {
            let _ = write!(
                out,
                " CROSS JOIN LATERAL (SELECT ({holds}) AS fine OFFSET 0) AS v"
            );
        }
        let _ = write!(out, " WHERE f.pos {LT} f.last AND f.fine");
        Ok(())
    }

    /// Writes one new version of each row that a member has changed.
    fn write(&self, out: &mut String) {
        let sets: Vec<String> = self
            .assigned
            .iter()
            .map(|(c, _)| format!("{} = f.{}", quote_ident(&c.name), self.state_name(&c.name)))
            .collect();
        let on: Vec<String> = self
            .key
            .iter()
            .map(|(c, _)| {
                format!(
                    "t.{} {EQ} f.{}",
                    quote_ident(&c.name),
                    self.state_name(&c.name)
                )
            })
            .collect();
        let _ = write!(
            out,
            "write AS (UPDATE {} AS t SET {} FROM fold AS f WHERE {} AND f.touched AND (f.pos {EQ} f.last OR NOT f.fine)) ",
            self.table.qualified(),
            sets.join(", "),
            on.join(" AND "),
        );
    }
}
