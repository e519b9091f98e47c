//! A text, understood: the parser's tree boiled down to what the rest of Paceline decides by.

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
use crate::take::{self, Take};
use crate::tree::Record;
use crate::update::{self, Update};

/// A text of more tokens is not taken apart (see [`Statement::update`] and those that follow): with so many it travels in no
/// group, and what is made of the parts would take long.
const PARTS_TOKENS_MAX: usize = 512;

/// What a text does and refers to.
#[derive(Clone, PartialEq, Debug)]
pub struct Statement {
    /// What it does to data and session.
    pub effect: Effect,
    /// The hints in the comments of its last statement.
    pub hints: Hints,
    /// How many statements the text holds; 0 for an empty query.
    pub statements: usize,
    /// Every table-like thing referred to, without duplicates; names of CTEs are left out where they are in scope.
    pub relations: Vec<Name>,
    /// Those of them whose rows it inserts, updates, deletes or merges, without duplicates.
    pub targets: Vec<Name>,
    /// Every function called, without duplicates.
    pub functions: Vec<Name>,
    /// Every operator used or implied (`IN`, `BETWEEN`), without duplicates.
    pub operators: Vec<Name>,
    /// The types of explicit casts, as the parser names them (`int` is `pg_catalog.int4`), without duplicates.
    pub casts_to: Vec<Name>,
    /// The parts of the one UPDATE that the text is, if a fold can carry its shape.
    pub update: Option<Update>,
    /// The parts of the one INSERT of one row that the text is.
    pub insert: Option<Insert>,
    /// The parts of the one statement of a queue's consumer that the text is.
    pub take: Option<Take>,
    /// The parts of the one call of a function, as if it were a table, that the text is.
    pub call: Option<Call>,
    /// Names that stand where a field of a row does (`t.name`, `(value).name`), without duplicates: each may be a function.
    pub fields: Vec<Name>,
    /// It reads a sample of a table (`TABLESAMPLE`).
    pub samples: bool,
    /// A text constant may mean the moment in which PostgreSQL parses it (`'now'::timestamptz`): parsed at another time, the
    /// text means something else.
    pub names_moment: bool,
    /// What a backslash in one of its constants means, settings of the server say.
    pub has_escapes: bool,
    /// A parameter stands where PostgreSQL wants a constant or gives it a meaning of its own (`ORDER BY 1`, type
    /// modifiers, `ON CONFLICT … WHERE`, anything in a utility statement). A template with this mark must not be run with
    /// its literals as parameters.
    pub needs_constants: bool,
    /// What it may do with numbers of sequences that its session remembers.
    pub sequences: SequenceUse,
    /// It calls `lastval` or `currval` by name.
    pub reads_numbers: bool,
    /// It may show `idle_session_timeout`, as far as its text tells.
    pub shows_idle_timeout: bool,
    /// What it does with a prepared statement that it calls by name.
    pub named: Option<Named>,
    /// It begins a transaction block.
    pub begins: bool,
    /// The database in which no other session may be (`DROP DATABASE` and its like).
    pub exclusive: Option<String>,
}

/// Parses a text, possibly with `$n` parameters.
///
/// [`NotParsed`] says nothing about what the server would do with the text: such a text may change the session.
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
        names_moment: references::names_moment(&tree),
        has_escapes: escapes::has_escapes(sql),
        fields: references::fields(&tree),
        samples: tree.contains(&["RangeTableSample"]),
        needs_constants,
        sequences: sequences::of_statements(&statements),
        reads_numbers: sequences::reads_by_name(&tree),
        shows_idle_timeout: effect::shows(&tree, effect::IDLE_SESSION_TIMEOUT),
        named: named::of_statements(sql, &statements, &tree),
        begins: effect::begin(&statements),
        exclusive: exclusive::of_statements(&statements),
        effect,
    })
}
