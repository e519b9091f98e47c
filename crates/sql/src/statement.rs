//! The facts about a text that Paceline's decisions depend on, extracted from the parse tree.

#[cfg(test)]
mod tests;

use crate::call::{self, Call};
use crate::cost::cost;
use crate::effect::{self, Effect};
use crate::escapes;
use crate::exclusive;
use crate::hints::{self, Hints};
use crate::merge::{self, Insert};
use crate::name::Name;
use crate::named::{self, Named};
use crate::parser::{self, NotParsed};
use crate::references;
use crate::sequences::{self, SequenceUse};
use crate::server_bound;
use crate::take::{self, Take};
use crate::time_read;
use crate::transaction_read;
use crate::tree::Record;
use crate::update::{self, Update};
use pg_query::NodeEnum;

/// Maximum number of tokens of a text whose parts are extracted ([`Statement::update`], [`Statement::insert`],
/// [`Statement::take`], [`Statement::call`]). Because processing its parts would take long, no strategy rewrites a longer
/// text.
const PARTS_TOKENS_MAX: usize = 512;

/// The effect of a text and the objects it refers to.
#[derive(Clone, PartialEq, Debug)]
pub struct Statement {
    /// The effect on data and session.
    pub effect: Effect,
    /// The hints in the comments of the last statement.
    pub hints: Hints,
    /// Number of statements in the text; 0 for an empty query.
    pub statements: usize,
    /// All referenced relations, without duplicates and without names of CTEs in their scope.
    pub relations: Vec<Name>,
    /// The relations whose rows the text inserts, updates, deletes or merges, without duplicates.
    pub targets: Vec<Name>,
    /// All called functions, without duplicates.
    pub functions: Vec<Name>,
    /// All used or implied (`IN`, `BETWEEN`) operators, without duplicates.
    pub operators: Vec<Name>,
    /// The types of explicit casts under the parser's names (`int` is `pg_catalog.int4`), without duplicates.
    pub casts_to: Vec<Name>,
    /// The parts of the UPDATE, if the text is one UPDATE whose form a fold supports.
    pub update: Option<Update>,
    /// The parts of the INSERT, if the text is one INSERT of VALUES, with one row or several, that merge supports.
    pub insert: Option<Insert>,
    /// The parts of the statement, if the text is one statement that takes rows from a queue.
    pub take: Option<Take>,
    /// The parts of the call, if the text is one call of a function in FROM.
    pub call: Option<Call>,
    /// Names in positions of a field of a row (`t.name`, `(value).name`), without duplicates. Each may be a function.
    pub fields: Vec<Name>,
    /// Those of them that follow a value: `(value).name`.
    pub value_fields: Vec<Name>,
    /// Names behind the alias of a function in FROM that are none of its columns as far as the text shows. Each may be a function.
    pub function_fields: Vec<Name>,
    /// Whether FROM has a function. Then a name after any alias may follow a value of any type.
    pub has_function_in_from: bool,
    /// Whether the text is one INSERT, UPDATE, DELETE or MERGE without RETURNING.
    pub returns_no_rows: bool,
    /// Whether the text reads a sample of a table (`TABLESAMPLE`).
    pub samples: bool,
    /// Whether the text may show what another server with equal tables does not have: system columns, the names of the session's
    /// database, role and schema. Also if it names a collation.
    pub server_bound: bool,
    /// Whether a string constant may refer to the time at which PostgreSQL parses it (`'now'::timestamptz`). Then the
    /// text has another meaning when it is parsed at another time.
    pub depends_on_parse_time: bool,
    /// Whether the text may show when its transaction began (`now()`).
    pub depends_on_transaction: bool,
    /// Whether the effect may depend on whether the time of its transaction is later than one that another statement has stored.
    pub decides_by_moment: bool,
    /// Whether the text may show which transaction wrote a version of a row, or the number of its own transaction.
    pub sees_transaction: bool,
    /// Whether the text has an INSERT with ON CONFLICT.
    pub has_on_conflict: bool,
    /// Whether the meaning of a backslash in a constant depends on settings of the server.
    pub has_escapes: bool,
    /// Whether a parameter is in a place where PostgreSQL requires a constant or gives it a special meaning (`ORDER
    /// BY 1`, type modifiers, `ON CONFLICT … WHERE`, anything in a utility statement). Such a template must not be
    /// executed with its literals as parameters.
    pub needs_constants: bool,
    /// The possible use of the sequence numbers that the session remembers.
    pub sequences: SequenceUse,
    /// Whether the text calls `lastval` or `currval` by name.
    pub reads_numbers: bool,
    /// Whether the text may show `idle_session_timeout`.
    pub shows_idle_timeout: bool,
    /// The use of prepared statements by name.
    pub named: Option<Named>,
    /// Whether the text starts a transaction block.
    pub begins: bool,
    /// Whether the text fetches from a cursor by name (`FETCH`, `MOVE`). It may execute a portal of the extended protocol.
    pub fetches: bool,
    /// Whether the text may create an object that outlasts it, without a function.
    pub may_create: bool,
    /// The database that no other session may use (`DROP DATABASE` and similar statements).
    pub exclusive: Option<String>,
}

fn returns_no_rows(statements: &[NodeEnum]) -> bool {
    match statements {
        [NodeEnum::InsertStmt(insert)] => insert.returning_clause.is_none(),
        [NodeEnum::UpdateStmt(update)] => update.returning_clause.is_none(),
        [NodeEnum::DeleteStmt(delete)] => delete.returning_clause.is_none(),
        [NodeEnum::MergeStmt(merge)] => merge.returning_clause.is_none(),
        _ => false,
    }
}

/// Parses a text, possibly with `$n` parameters.
///
/// # Errors
/// [`NotParsed`] if the parser rejects the text. The server may still accept it, and such a text may change the
/// session.
pub fn parse(sql: &str) -> Result<Statement, NotParsed> {
    let parsed = parser::parse(sql)?;
    let tree = Record::of(&parsed);
    let statements: Vec<_> = parsed
        .stmts
        .into_iter()
        .filter_map(|raw| raw.stmt?.node)
        .collect();
    let effect = effect::of_statements(&statements);
    let parts = match cost(sql).tokens > PARTS_TOKENS_MAX {
        true => &[],
        false => statements.as_slice(),
    };
    let has_utility = !matches!(effect, Effect::Read | Effect::Write);
    let needs_constants =
        (has_utility && tree.contains(&["ParamRef"])) || references::needs_constants(&tree);
    Ok(Statement {
        hints: hints::in_comments(sql),
        statements: statements.len(),
        relations: references::relations(&tree),
        targets: references::targets(&tree),
        functions: references::functions(&tree),
        operators: references::operators(&tree),
        casts_to: references::casts_to(&tree),
        update: update::of_statements(parts),
        insert: merge::of_statements(parts),
        take: take::of_statements(parts),
        call: call::of_statements(parts),
        depends_on_parse_time: references::depends_on_parse_time(&tree),
        depends_on_transaction: time_read::depends_on_transaction(&tree),
        decides_by_moment: time_read::decides_by_moment(&tree),
        sees_transaction: transaction_read::sees_transaction(&tree),
        has_on_conflict: tree.contains(&["OnConflictClause"]),
        has_escapes: escapes::has_escapes(sql),
        fields: references::fields(&tree),
        value_fields: references::value_fields(&tree),
        function_fields: references::function_fields(&tree),
        has_function_in_from: references::has_function_in_from(&tree),
        returns_no_rows: returns_no_rows(&statements),
        samples: tree.contains(&["RangeTableSample"]),
        server_bound: server_bound::is_server_bound(&tree),
        needs_constants,
        sequences: sequences::of_statements(&statements),
        reads_numbers: sequences::reads_by_name(&tree),
        shows_idle_timeout: effect::shows(&tree, effect::IDLE_SESSION_TIMEOUT),
        named: named::of_statements(sql, &statements, &tree),
        begins: effect::begin(&statements),
        exclusive: exclusive::of_statements(&statements),
        fetches: effect::fetches(&statements),
        may_create: effect::may_create(&statements),
        effect,
    })
}
