//! Generated templates of consumers, and the values that one of them brings along.

use super::queue::Queue;
use super::template::Template;
use super::values::{Role, Value};
use crate::harness::Rng;
use crate::harness::raw::RawClient;

/// Follows an ORDER BY in which rows may be equal.
const TIES: &str = "/* ties */";
/// Stands where there is no ORDER BY.
const ANY_ORDER: &str = "/* any order */";

const READY: &str = "state = 'ready'";

const TOTAL_ORDERS: [&str; 9] = [
    "id",
    "id",
    "id DESC",
    "prio, id",
    "prio DESC, id",
    "prio DESC NULLS LAST, id DESC",
    "prio NULLS FIRST, id",
    "coalesce(prio, 0) + lane, id",
    "lane DESC, job",
];
const OTHER_ORDERS: [&str; 5] = [
    "prio /* ties */",
    "prio DESC /* ties */",
    "lane /* ties */",
    "prio NULLS FIRST, lane DESC /* ties */",
    "",
];

/// A statement of consumers.
#[derive(Debug)]
pub(super) struct Consumer {
    pub(super) template: Template,
    pub(super) passes: Passes,
    /// It takes only rows that are ready.
    pub(super) wants_ready: bool,
    holes: Vec<Hole>,
    single: bool,
}

/// The rows that it passes over instead of waiting for another transaction's lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passes {
    /// SKIP LOCKED.
    LockedRows,
    /// `pg_try_advisory_xact_lock`
    AdvisoryLocks,
    /// It waits.
    Nothing,
}

/// The use of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hole {
    Limit,
    /// Decides which rows are picked.
    Lane,
    /// The consumer's number.
    Worker,
    /// Too long now and then.
    Note,
    /// Against a CHECK now and then.
    Score,
    /// 0 now and then.
    Divisor,
}

impl Consumer {
    pub(super) fn generate(
        number: usize,
        queue: &Queue,
        oracle: &mut RawClient,
        rng: &mut Rng,
    ) -> Consumer {
        let passes = *rng.pick(&[
            Passes::LockedRows,
            Passes::LockedRows,
            Passes::AdvisoryLocks,
            Passes::Nothing,
        ]);
        let single = rng.chance(45);
        let moves = rng.chance(45);
        let deletes = rng.chance(if moves { 80 } else { 50 });
        // The rows that it takes, others may take again.
        let again = !moves && !deletes && rng.chance(20);
        let table = *rng.pick(queue.tables());
        let by_ctid = rng.chance(35) && (table != "q" || !queue.partitioned);
        let key = if by_ctid { "ctid" } else { "id" };
        let pick = pick(table, key, passes, single, deletes, again, rng);
        let change = match (deletes, again) {
            (true, _) => format!("DELETE FROM {table}"),
            (false, true) => format!(
                "UPDATE {table} SET score = coalesce(score, 0) + {{score}}, worker = {{worker}}"
            ),
            (false, false) => format!("UPDATE {table} SET state = 'taken'{}", rng.pick(&CLAIMS)),
        };
        let (inner, outer) = match moves {
            true => (*rng.pick(&["*", "job, id, lane, prio"]), onward(rng)),
            false => (*rng.pick(&RETURNED), String::new()),
        };
        let inner = match inner {
            "" => String::new(),
            items => format!(" RETURNING {items}"),
        };
        let take = format!("{change} WHERE {pick}{inner}");
        let whole = match moves {
            true => format!("WITH t AS ({take}) {outer}"),
            false => take,
        };
        // Every table has texts of its own: statements are known by their text.
        let pattern = format!("{whole} /* queue {} */", rng.next());
        let holes = holes(&pattern);
        let roles = holes.iter().map(|hole| hole.role()).collect();
        Consumer {
            template: Template::of_pattern(format!("take{number}"), &pattern, roles, oracle),
            passes,
            wants_ready: pattern.contains(READY),
            holes,
            single,
        }
    }

    /// The statement of consumer `number`.
    pub(super) fn values(&self, number: usize, rng: &mut Rng) -> Vec<Value> {
        let holes = self.holes.iter();
        holes
            .map(|hole| hole.sample(number, self.single, rng))
            .collect()
    }

    /// The value that decides which rows are picked, if one does.
    pub(super) fn picking(&self, values: &[Value]) -> Value {
        let place = self.holes.iter().position(|hole| *hole == Hole::Lane)?;
        values[place].clone()
    }

    /// Among rows that are equal in its order, it prefers the first of these, then the others in turn.
    /// PostgreSQL may pick any of them: so this is one of the results that the consumer's own statement may have.
    pub(super) fn preferring(&self, names: [&[String]; 3]) -> Template {
        let last = names.map(|names| format!("job <> ALL ('{{{}}}')", names.join(",")));
        let last = last.join(", ");
        self.template
            .replaced(TIES, &format!(", {last}"))
            .replaced(ANY_ORDER, &format!("ORDER BY {last}"))
    }
}

/// `key = (SELECT …)` in one of its forms.
fn pick(
    table: &str,
    key: &str,
    passes: Passes,
    single: bool,
    deletes: bool,
    again: bool,
    rng: &mut Rng,
) -> String {
    let mut conditions = Vec::new();
    if !deletes || rng.chance(40) {
        conditions.push(READY);
    }
    conditions.extend(match rng.below(10) {
        0..4 => Some("lane = {lane}"),
        4 => Some("prio IS NOT NULL"),
        5 => Some("prio + lane < 5"),
        _ => None,
    });
    let locking = match passes {
        Passes::LockedRows => *rng.pick(&[
            " FOR UPDATE SKIP LOCKED",
            " FOR NO KEY UPDATE SKIP LOCKED",
            " FOR UPDATE OF q SKIP LOCKED",
        ]),
        Passes::AdvisoryLocks => {
            conditions.push("pg_try_advisory_xact_lock(id)");
            ""
        }
        Passes::Nothing => *rng.pick(&["", " FOR UPDATE"]),
    };
    let order = match again || rng.chance(70) {
        true => *rng.pick(&TOTAL_ORDERS),
        false => *rng.pick(&OTHER_ORDERS),
    };
    let order = match order {
        "" => ANY_ORDER.to_owned(),
        items => format!("ORDER BY {items}"),
    };
    let condition = match conditions.join(" AND ") {
        none if none.is_empty() => none,
        some => format!(" WHERE {some}"),
    };
    let limit = match (single, rng.chance(60)) {
        (true, true) => "1",
        (false, false) => "2",
        (_, _) => "{limit}",
    };
    let select = format!("SELECT {key} FROM {table}{condition} {order} LIMIT {limit}{locking}");
    match (single, rng.below(3)) {
        (true, _) => format!("{key} = ({select})"),
        (false, 0) => format!("{key} IN ({select})"),
        (false, 1) => format!("{key} = ANY ({select})"),
        (false, _) => format!("{key} = ANY (ARRAY({select}))"),
    }
}

const CLAIMS: [&str; 4] = [
    ", worker = {worker}",
    ", worker = {worker}, note = {note}",
    ", worker = {worker}, score = {score}",
    ", worker = {worker}, note = note || {note}, score = {score} - coalesce(prio, 0)",
];

/// The answer to a consumer that moves nothing. It names the order, or does not depend on which one it is.
const RETURNED: [&str; 9] = [
    "",
    "",
    "*",
    "job",
    "job AS renamed, id, prio IS NULL",
    "q.job, {worker}::int AS worker",
    "job, 100 / {divisor} AS share",
    "1 AS one, {note}::varchar(4)",
    "upper(note) AS note, q.*",
];

/// The INSERT around it.
fn onward(rng: &mut Rng) -> String {
    let values = rng.pick(&[
        "{worker}::int, {note}::text, {score}::int",
        "{worker}::int, NULL, {score}::int - coalesce(prio, 0)",
        "{worker}::int, 'moved', 100 / {divisor}",
    ]);
    let returned = rng.pick(&[
        "",
        "",
        " RETURNING *",
        " RETURNING job, worker",
        " RETURNING done.job AS j, score + 1",
        " RETURNING job, 100 / {divisor}",
    ]);
    format!(
        "INSERT INTO done (job, id, lane, worker, note, score) SELECT job, id, lane, {values} FROM t{returned}"
    )
}

fn holes(pattern: &str) -> Vec<Hole> {
    let names = pattern.split('{').skip(1);
    names
        .map(|rest| match rest.split_once('}').map(|(name, _)| name) {
            Some("limit") => Hole::Limit,
            Some("lane") => Hole::Lane,
            Some("worker") => Hole::Worker,
            Some("note") => Hole::Note,
            Some("score") => Hole::Score,
            Some("divisor") => Hole::Divisor,
            other => panic!("no hole {other:?}"),
        })
        .collect()
}

impl Hole {
    fn role(self) -> Role {
        match self {
            Hole::Note => Role::Text,
            _ => Role::Int,
        }
    }

    fn sample(self, number: usize, single: bool, rng: &mut Rng) -> Value {
        let rare = rng.chance(7);
        let value = match self {
            Hole::Limit => return limit(single, rng),
            Hole::Lane => if rng.chance(80) { "1" } else { "2" }.to_owned(),
            Hole::Worker => number.to_string(),
            Hole::Note if rare => "longer than allowed".to_owned(),
            Hole::Note => (*rng.pick(&["", "a", "it's", "é"])).to_owned(),
            // Of several rows, PostgreSQL may complain about any.
            Hole::Score if rare && single => "-1".to_owned(),
            Hole::Score => rng.between(3, 9).to_string(),
            Hole::Divisor if rare => "0".to_owned(),
            Hole::Divisor => rng.between(1, 9).to_string(),
        };
        Some(value)
    }
}

/// None at all, more than there are, all that there are; mostly few. A single one is mostly one.
fn limit(single: bool, rng: &mut Rng) -> Value {
    match rng.below(30) {
        0 => Some("0".to_owned()),
        1 => None,
        2 => Some("2".to_owned()),
        3 => Some("99".to_owned()),
        _ if single => Some("1".to_owned()),
        _ => Some(rng.between(1, 3).to_string()),
    }
}
