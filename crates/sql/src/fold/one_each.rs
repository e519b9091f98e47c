//! The statement for a group in which each member is on a row of its own: the client's UPDATE, joined to arrays of
//! keys and parameters. As for a single member, PostgreSQL checks constraints and follows rows that other
//! transactions have just updated.

use super::column;
use super::refusal::FoldRefusal;
use super::rewriter::{Rewriter, View};
use crate::facts::SAME;
use crate::operator::EQ;
use crate::quote::quote_ident;
use crate::row_wait;
use crate::type_name::TypeName;

/// Maximum wait for a row that another transaction has locked while the rows of other members are locked. It is the
/// shortest possible, because the statement may wait for each row.
const LOCK_TIMEOUT: &str = "1ms";

impl Rewriter<'_> {
    pub(super) fn one_each(&self, returning: &[TypeName]) -> Result<String, FoldRefusal> {
        let lock_timeout = format!(
            " AND pg_catalog.set_config('lock_timeout', '{LOCK_TIMEOUT}', true) IS NOT NULL"
        );
        let answers = self.answers(returning, View::InPlace)?;
        let returned: String = (1..).zip(&answers).map(returned).collect();
        let names = 1..=answers.len();
        let names: String = names.map(|n| format!(", done.r{n}")).collect();
        Ok(format!(
            "WITH facts AS MATERIALIZED ({facts}), \
             done AS (UPDATE {table} AS t SET {sets} FROM facts, ROWS FROM ({arrays}) WITH ORDINALITY AS k({columns}) \
             WHERE facts.same AND {conditions} RETURNING k.pos::pg_catalog.int4 AS pos{returned}) \
             SELECT {SAME}, done.pos, true, true{names} FROM facts LEFT JOIN done ON true",
            facts = self
                .table
                .catalog_version
                .facts_sql(self.key.len() + 1, &lock_timeout),
            table = self.table.rows(),
            sets = self.sets()?,
            arrays = self.arrays()?.join(", "),
            columns = self.array_names().join(", "),
            conditions = self.conditions()?.join(" AND "),
        ))
    }

    /// The same conditions for a read of committed rows: the members that would lock their row.
    pub(super) fn probe(&self) -> Result<String, FoldRefusal> {
        let mut names = self.array_names();
        names.pop();
        Ok(row_wait::probe_sql(
            self.key.len() + 1,
            &format!("ROWS FROM ({})", self.arrays()?.join(", ")),
            &names.join(", "),
            self.table,
            &self.conditions()?.join(" AND "),
        ))
    }

    fn sets(&self) -> Result<String, FoldRefusal> {
        let set = |(column, expr): &(&crate::facts::Column, &crate::expr::Expr)| {
            let value = self.expr(expr, View::InPlace)?;
            Ok(format!("{} = {value}", quote_ident(&column.name)))
        };
        let sets: Result<Vec<String>, FoldRefusal> = self.assigned.iter().map(set).collect();
        Ok(sets?.join(", "))
    }

    /// The arrays of keys and, after the catalog version, of parameters.
    fn arrays(&self) -> Result<Vec<String>, FoldRefusal> {
        let unnest = |place, name: &str| format!("pg_catalog.unnest(${place}::{name}[])");
        let keys = (1..).zip(&self.key);
        let mut arrays: Vec<String> = keys
            .map(|(place, (column, _))| unnest(place, &column.bare_type_name))
            .collect();
        for (place, carried) in (self.key.len() + 2..).zip(&self.carried) {
            let name = match carried.as_text {
                true => "pg_catalog.text",
                false => &column::parameter_type(self.parameters, carried.parameter)?.sql,
            };
            arrays.push(unnest(place, name));
        }
        Ok(arrays)
    }

    fn array_names(&self) -> Vec<String> {
        let keys = (1..=self.key.len()).map(|n| format!("k{n}"));
        let parameters = (1..=self.carried.len()).map(|n| format!("p{n}"));
        keys.chain(parameters).chain(["pos".to_owned()]).collect()
    }

    fn conditions(&self) -> Result<Vec<String>, FoldRefusal> {
        let keys = (1..).zip(&self.key);
        let equal = keys.map(|(n, (c, _))| format!("t.{} {EQ} k.k{n}", quote_ident(&c.name)));
        Ok(equal.chain(self.guard(View::InPlace)?).collect())
    }
}

fn returned((number, (value, type_name)): (usize, &(String, String))) -> String {
    format!(", ({value})::{type_name} AS r{number}")
}
