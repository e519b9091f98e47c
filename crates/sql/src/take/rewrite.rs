//! One statement that takes rows for many consumers: it adds up the limits and numbers the rows in the queue's own
//! order. The number of a row determines the consumer and its parameters.
//!
//! `picked` is the client's sub-select, `taken` the DELETE or UPDATE of the picked rows, `moved` the INSERT. If a row
//! was picked but not taken, or could be picked again after the UPDATE, executing the members one at a time might
//! have had another result. Then the statement raises an error ([`Distribution::rollback_reason`]), which rolls it back.

use super::no_row::NoRowErrors;
use super::parts::{CTID, Onward, TRY_LOCK, Take};
use super::pick::{Pick, PickFrom, PickTerms, RowLimit};
use super::position::QueueOrder;
use crate::distribution::{
    Distribution, DistributionRefusal, GONE, PerMember, PositionedTexts, QueueTexts,
    SET_LOCK_TIMEOUT, UNCERTAIN, answer_names, answers_sql, check_columns, check_intervals,
};
use crate::expr::Expr;
use crate::facts::{Column, SAME, TableFacts};
use crate::operator::{CONCAT, EQ, GE};
use crate::quote::quote_ident;
use crate::type_name::TypeName;
use crate::update::{Returning, returned_exprs, returned_values};
use std::collections::BTreeSet;

/// Rewrites `take` for many consumers. `onto` is the table to which the rows are moved. `parameters` and `returning`
/// are the types of the parameters and RETURNING columns.
///
/// # Errors
/// [`DistributionRefusal`]: why the statement cannot be rewritten.
pub fn rewrite(
    take: &Take,
    queue: &TableFacts,
    onto: Option<&TableFacts>,
    parameters: &[TypeName],
    returning: &[TypeName],
) -> Result<Distribution, DistributionRefusal> {
    for table in [Some(queue), onto].into_iter().flatten() {
        if let Some(why) = &table.refused {
            return Err(DistributionRefusal::Table(table.name.clone(), why.clone()));
        }
    }
    let in_queue = |id: &u32| queue.extent.tree.contains(id);
    if onto.is_some_and(|onto| onto.extent.tree.iter().any(in_queue)) {
        let why = "rows move back into the queue".to_owned();
        return Err(DistributionRefusal::Table(queue.name.clone(), why));
    }
    // A name that is not a column may be a function call on the row.
    let returned = take.onward.iter();
    let returned = returned.flat_map(|onward| returned_exprs(&onward.returning));
    let of_queue = take.picking().into_iter().chain(take.taking());
    check_columns(queue, of_queue)?;
    if let Some(onto) = onto {
        check_columns(onto, returned)?;
    }
    let by_ctid = take.key == CTID && queue.extent.tree.len() == 1;
    if !by_ctid && !queue.keys.iter().any(|key| *key == [take.key.clone()]) {
        return Err(DistributionRefusal::Key(take.key.clone()));
    }
    let assigned = take.assignments.as_deref().unwrap_or_default();
    if take.assignments.is_some() && take.pick.conditions.is_empty() {
        return Err(DistributionRefusal::Condition);
    }
    if assigned.iter().any(|(column, _)| *column == take.key) {
        return Err(DistributionRefusal::Key(take.key.clone()));
    }
    let mut picking = take.picking().into_iter();
    if picking.any(Expr::casts_parameter_to_fields) {
        return Err(DistributionRefusal::Interval);
    }
    check_intervals(queue, assigned.iter().map(|(column, _)| column))?;
    if let Some((onward, table)) = take.onward.as_ref().zip(onto) {
        let all = table.columns.iter().map(|column| &column.name);
        match onward.columns.is_empty() {
            true => check_intervals(table, all)?,
            false => check_intervals(table, &onward.columns)?,
        }
    }
    let rewriter = Rewriter::new(take, queue, onto, parameters)?;
    rewriter.build(returning)
}

/// Number of the first shared parameter, after the number of rows and the time of the analysis.
const SHARED: usize = 3;

struct Rewriter<'a> {
    take: &'a Take,
    queue: &'a TableFacts,
    onto: Option<(&'a Onward, &'a TableFacts)>,
    parameters: &'a [TypeName],
    shared: Vec<u32>,
    per_member: PerMember<'a>,
    no_row: NoRowErrors<'a>,
}

impl<'a> Rewriter<'a> {
    fn new(
        take: &'a Take,
        queue: &'a TableFacts,
        onto: Option<&'a TableFacts>,
        parameters: &'a [TypeName],
    ) -> Result<Self, DistributionRefusal> {
        let picking = take.picking().into_iter();
        let shared: BTreeSet<u32> = picking.flat_map(Expr::parameters).collect();
        let shared: Vec<u32> = shared.into_iter().collect();
        Ok(Self {
            take,
            queue,
            onto: take.onward.as_ref().zip(onto),
            parameters,
            per_member: PerMember::of(take.changing(), &shared, parameters)?,
            no_row: NoRowErrors::of(take, queue, onto, parameters),
            shared,
        })
    }

    fn type_of(&self, number: u32) -> Result<&'a TypeName, DistributionRefusal> {
        TypeName::of(self.parameters, number).ok_or(DistributionRefusal::Type(number))
    }

    /// SQL for a parameter; `row` is SQL for the number of the row.
    fn parameter(&self, number: u32, row: &str) -> String {
        let Ok(name) = self.type_of(number) else {
            return "NULL".to_owned();
        };
        if let Some(place) = self.shared.iter().position(|shared| *shared == number) {
            return format!("${}::{}", SHARED + place, name.sql);
        }
        let consumer = SHARED + self.shared.len();
        self.per_member.element(number, |place| {
            let element = self.per_member.element_type(place);
            let array = consumer + place;
            format!("(${array}::{element}[])[(${consumer}::pg_catalog.int4[])[{row}]]")
        })
    }

    fn expr(&self, expr: &Expr, table: &str, row: &str) -> Result<String, DistributionRefusal> {
        let column = |name: &str| format!("{table}.{}", quote_ident(name));
        Ok(expr.to_sql(&column, &|n| self.parameter(n, row))?)
    }

    fn conditions(&self, table: &str) -> Result<Vec<String>, DistributionRefusal> {
        let conditions = self.take.pick.conditions.iter();
        conditions.map(|c| self.expr(c, table, "0")).collect()
    }

    /// The conditions for a row that a member has updated. Alone, the next member has a later time than the one that this member
    /// stored, and in a group it has the same. So the conditions read a time that is a microsecond later.
    fn conditions_afterwards(&self) -> Result<Vec<String>, DistributionRefusal> {
        let assignments = self.take.assignments.iter().flatten();
        let clock = assignments.filter(|(_, value)| value.reads_clock());
        let clock: Vec<&String> = clock.map(|(name, _)| name).collect();
        let conditions = self.take.pick.conditions.iter();
        conditions
            .map(|condition| {
                if !condition.reads_moment() {
                    return self.expr(condition, "t", "0");
                }
                // The clock of a member that follows is later by more than that.
                match condition
                    .columns()
                    .into_iter()
                    .find(|name| clock.contains(&name))
                {
                    Some(name) => Err(DistributionRefusal::Time(name)),
                    None => self.expr(&condition.later()?, "t", "0"),
                }
            })
            .collect()
    }

    fn build(self, returning: &[TypeName]) -> Result<Distribution, DistributionRefusal> {
        let items = match &self.take.onward {
            Some(onward) => &onward.returning,
            None => &self.take.returning,
        };
        let (last, answers) = match self.onto {
            Some((onward, table)) => ("moved", self.returned(items, table, "u", "0", onward)?),
            None => ("taken", self.items(items, self.queue, "t", "p.n")?),
        };
        let returned = answers_sql(&answers, returning)?;
        let names = answer_names(returning.len());
        let passed_on = match self.onto {
            None => returned.clone(),
            Some(_) => self.passed_on()?,
        };
        let (moved, number) = match self.onto {
            None => (String::new(), "w.n".to_owned()),
            Some((onward, table)) => (
                self.moved(onward, table, &returned)?,
                "CASE WHEN w.there THEN pg_catalog.row_number() OVER () END::pg_catalog.int4"
                    .to_owned(),
            ),
        };
        let order = match self.onto {
            None => " ORDER BY w.n",
            Some(_) => "",
        };
        let facts = self.facts()?;
        let text = |pick: Pick| {
            let taken = self.taken(&passed_on, pick.among)?;
            Ok::<_, DistributionRefusal>(format!(
                "WITH facts AS MATERIALIZED ({facts}), {picked}, taken AS ({taken}){moved} \
                 SELECT CASE WHEN {certain} THEN {SAME} \
                 WHEN (CASE WHEN {all_taken} THEN '{UNCERTAIN}' ELSE '{GONE}' END {CONCAT} facts.same::pg_catalog.text)::pg_catalog.bool THEN NULL END, \
                 {number}{position}{names} FROM facts LEFT JOIN {last} AS w ON true{order}",
                picked = pick.ctes,
                position = pick.position,
                certain = self.certain(),
                all_taken = all_of("taken", "picked"),
            ))
        };
        let few = self.reads_rows_one_by_one();
        let texts = |from: PickFrom<'_>| {
            let of_few = few.then(|| self.picked(from, RowLimit::Few)).transpose()?;
            Ok::<_, DistributionRefusal>(QueueTexts {
                text: text(self.picked(from, RowLimit::Any)?)?,
                text_of_few: of_few.map(&text).transpose()?,
            })
        };
        let plain = texts(PickFrom::Whole)?;
        let order = few.then(|| QueueOrder::of(self.take, self.queue)).flatten();
        let positioned = match order {
            None => None,
            Some(order) => Some(PositionedTexts {
                whole: texts(PickFrom::WholeWithPosition(&order))?,
                from_position: texts(PickFrom::Position(&order))?,
                columns: order.columns().count(),
            }),
        };
        Ok(Distribution {
            queue: true,
            text: plain.text,
            text_of_few: plain.text_of_few,
            positioned,
            limit: self.take.pick.limit.clone(),
            single: self.take.single,
            shared: self.shared.clone(),
            per_member: self.per_member.into_list(|number| vec![number]),
            tag: match (&self.take.onward, &self.take.assignments) {
                (Some(_), _) => "INSERT 0",
                (None, Some(_)) => "UPDATE",
                (None, None) => "DELETE",
            },
            may_fail_unseen: self.no_row.uncertain,
            raises_anything: false,
            returning: returning.len(),
        })
    }

    /// SQL for the comparison of the facts. It also limits lock waits, because all consumers wait with the statement.
    fn facts(&self) -> Result<String, DistributionRefusal> {
        let queue = &self.queue.catalog_version;
        let version = match self.onto {
            Some((_, table)) => queue.and(&table.catalog_version),
            None => queue.clone(),
        };
        let computed = self.computed()?;
        Ok(version.facts_sql(2, &format!(" AND {SET_LOCK_TIMEOUT}{computed}")))
    }

    /// A condition that is always true and computes the expressions that may fail for a consumer without a row.
    fn computed(&self) -> Result<String, DistributionRefusal> {
        let consumers = SHARED + self.shared.len();
        let parameter = |number: u32| match self.shared.contains(&number) {
            true => self.parameter(number, "0"),
            false => self
                .per_member
                .element(number, |place| format!("k.p{place}")),
        };
        let mut values = self
            .no_row
            .values(|expr| Ok(expr.to_sql(&|_| String::new(), &parameter)?))?;
        values.extend(self.per_member.arrays().map(parameter));
        Ok(match values.is_empty() {
            true => String::new(),
            false => format!(
                " AND (SELECT pg_catalog.count(pg_catalog.num_nulls({})) FROM {}) {GE} 0",
                values.join(", "),
                self.per_member.members(consumers + 1),
            ),
        })
    }

    /// Whether the sub-select evaluates an advisory lock only for rows that it returns. A sort would read, and lock,
    /// more rows than the exact limit requires.
    fn reads_rows_one_by_one(&self) -> bool {
        let pick = &self.take.pick;
        let functions = pick.conditions.iter().flat_map(Expr::functions);
        let locks = functions.into_iter().any(|name| name.name == TRY_LOCK);
        let by_key = match pick.order.as_slice() {
            [] => true,
            [(expr, _)] => {
                let is = |key: &Vec<String>| matches!(key.as_slice(), [one] if expr.as_column() == Some(one));
                self.queue.keys.iter().any(is)
            }
            _ => false,
        };
        !locks || by_key
    }

    /// The client's sub-select with numbered rows.
    fn picked(&self, from: PickFrom<'_>, limit: RowLimit) -> Result<Pick, DistributionRefusal> {
        let pick = &self.take.pick;
        let conditions = self.conditions("s")?.into_iter();
        let order: Result<Vec<String>, DistributionRefusal> = pick
            .order
            .iter()
            .map(|(expr, direction)| Ok(self.expr(expr, "s", "0")? + direction))
            .collect();
        let terms = PickTerms {
            key: quote_ident(&self.take.key),
            table: self.queue.rows(),
            conditions: conditions.map(|one| format!(" AND {one}")).collect(),
            order: match order?.join(", ") {
                none if none.is_empty() => none,
                some => format!(" ORDER BY {some}"),
            },
            locking: match pick.locking.split_once(" SKIP LOCKED") {
                Some((strength, _)) => format!(" {strength} OF s SKIP LOCKED"),
                None if pick.locking.is_empty() => String::new(),
                None => format!(" {} OF s", pick.locking),
            },
            limit,
            first_of_position: self.first_of_position(),
        };
        Ok(terms.pick(from))
    }

    /// The number of the parameter with the first value of a position.
    fn first_of_position(&self) -> usize {
        let arrays = match self.per_member.len() {
            0 => 0,
            some => 1 + some,
        };
        SHARED + self.shared.len() + arrays
    }

    fn taken(&self, returned: &str, among: bool) -> Result<String, DistributionRefusal> {
        let table = self.queue.rows();
        let key = quote_ident(&self.take.key);
        // PostgreSQL expects few elements of an array, and looks each up in the index.
        let among = match among {
            true => format!(" AND t.{key} {EQ} ANY (ARRAY(SELECT p.k FROM picked AS p))"),
            false => String::new(),
        };
        let Some(assignments) = &self.take.assignments else {
            return Ok(format!(
                "DELETE FROM {table} AS t USING picked AS p WHERE t.{key} {EQ} p.k{among} RETURNING p.n AS n{returned}"
            ));
        };
        let set = |(column, expr): &(String, Expr)| {
            let value = self.expr(expr, "t", "p.n")?;
            Ok(format!("{} = {value}", quote_ident(column)))
        };
        let sets: Result<Vec<String>, DistributionRefusal> = assignments.iter().map(set).collect();
        Ok(format!(
            "UPDATE {table} AS t SET {sets} FROM picked AS p WHERE t.{key} {EQ} p.k{among} RETURNING p.n AS n, ({again}) AS again{returned}",
            sets = sets?.join(", "),
            again = self.conditions_afterwards()?.join(" AND "),
        ))
    }

    /// The columns that `taken` passes to `moved`, under the names in the client's CTE.
    fn passed_on(&self) -> Result<String, DistributionRefusal> {
        let names = self.names()?;
        let values = self.items(&self.take.returning, self.queue, "t", "p.n")?;
        let column = |(value, name): (String, String)| {
            format!(", {value} AS {}", quote_ident(&format!("c_{name}")))
        };
        Ok(values.into_iter().zip(names).map(column).collect())
    }

    /// The column names of the inner RETURNING clause.
    fn names(&self) -> Result<Vec<String>, DistributionRefusal> {
        let mut names = Vec::new();
        for item in &self.take.returning {
            match item {
                Returning::All => {
                    names.extend(self.queue.columns.iter().map(|c| c.name.clone()));
                }
                Returning::Expr { expr, name } => {
                    let name = name.as_deref().or_else(|| expr.as_column());
                    let unnamed = || DistributionRefusal::Column("without a name".to_owned());
                    names.push(name.ok_or_else(unnamed)?.to_owned());
                }
            }
        }
        let distinct: BTreeSet<&String> = names.iter().collect();
        match distinct.len() == names.len() {
            true => Ok(names),
            false => Err(DistributionRefusal::Column(
                "of the same name twice".to_owned(),
            )),
        }
    }

    fn moved(
        &self,
        onward: &Onward,
        table: &TableFacts,
        returned: &str,
    ) -> Result<String, DistributionRefusal> {
        let names = self.names()?;
        let column = |name: &str| format!("w.{}", quote_ident(&format!("c_{name}")));
        let mut values = Vec::new();
        for value in &onward.values {
            if let Some(unknown) = value.columns().iter().find(|c| !names.contains(c)) {
                return Err(DistributionRefusal::Column(unknown.clone()));
            }
            values.push(value.to_sql(&column, &|n| self.parameter(n, "w.n"))?);
        }
        let columns: Vec<String> = onward.columns.iter().map(|c| quote_ident(c)).collect();
        let columns = match columns.join(", ") {
            none if none.is_empty() => none,
            some => format!(" ({some})"),
        };
        Ok(format!(
            ", moved AS (INSERT INTO {} AS u{columns} SELECT {} FROM taken AS w ORDER BY w.n RETURNING true AS there{returned})",
            table.qualified(),
            values.join(", "),
        ))
    }

    /// The RETURNING clause of the INSERT. It cannot read row numbers, so that parameters in it are not supported.
    fn returned(
        &self,
        items: &[Returning],
        table: &TableFacts,
        name: &str,
        row: &str,
        onward: &Onward,
    ) -> Result<Vec<String>, DistributionRefusal> {
        match returned_exprs(&onward.returning).any(|expr| !expr.parameters().is_empty()) {
            true => Err(DistributionRefusal::Expression),
            false => self.items(items, table, name, row),
        }
    }

    fn items(
        &self,
        items: &[Returning],
        table: &TableFacts,
        name: &str,
        row: &str,
    ) -> Result<Vec<String>, DistributionRefusal> {
        let column = |column: &Column| format!("{name}.{}", quote_ident(&column.name));
        let all = || table.columns.iter().map(column).collect();
        returned_values(items, all, |expr| self.expr(expr, name, row))
    }

    /// The condition under which executing the members one at a time would have had the same result.
    fn certain(&self) -> String {
        let mut parts = vec![all_of("taken", "picked")];
        if self.take.assignments.is_some() {
            parts.push("NOT EXISTS (SELECT FROM taken WHERE again)".to_owned());
        }
        if self.onto.is_some() {
            parts.push(all_of("moved", "taken"));
        }
        parts.join(" AND ")
    }
}

/// SQL condition: both CTEs have the same number of rows.
fn all_of(one: &str, other: &str) -> String {
    let [one, other] = [one, other].map(|name| format!("(SELECT pg_catalog.count(*) FROM {name})"));
    format!("{one} {EQ} {other}")
}
