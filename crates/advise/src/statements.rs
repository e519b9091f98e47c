//! Classifies statements, by the same analysis of their text as in the front end.

use paceline_sql::{Effect, Name, Statement, masked, parse, take_out_literals};
use std::collections::HashMap;
use std::rc::Rc;

/// The kinds of statements that the patterns distinguish.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    /// Takes rows from a queue, in one statement.
    Take(Name),
    /// Picks rows of a queue for the next statement: a limit, and a lock of rows or an advisory lock.
    Pick(Name),
    /// INSERT … ON CONFLICT DO UPDATE.
    Upsert(Name),
    /// Any other change of one table, and the columns that an UPDATE assigns.
    Write(Name, Vec<String>),
    /// A read of these tables. `locks`: it locks their rows.
    Read { tables: Vec<Name>, locks: bool },
    /// Anything else, or a text that cannot be read.
    Other,
}

/// Replaces a text if the server keeps only its beginning, so that its values are not known.
const UNREADABLE: &str = "(a statement of which the server keeps only the beginning)";

/// A statement without values.
#[derive(Debug, PartialEq)]
pub(crate) struct Known {
    /// Its text: parameters in place of values, or `?`.
    pub(crate) text: String,
    pub(crate) kind: Kind,
    /// Columns of its only table that it compares with a value each, all of which must be equal, if it returns all rows that are.
    pub(crate) compared: Vec<String>,
    /// Whether it calls a function, which may aggregate rows.
    pub(crate) calls_functions: bool,
    /// Whether the front end could execute waiting requests of it together, if the catalog permits it.
    pub(crate) groups: bool,
}

/// The statements that were seen, each analyzed once.
#[derive(Default)]
pub(crate) struct Statements(HashMap<String, Rc<Known>>);

impl Statements {
    pub(crate) fn of(&mut self, sql: &str) -> Rc<Known> {
        let normalized = take_out_literals(sql, true).map(|normalized| normalized.text);
        let template = normalized.as_deref().unwrap_or(sql);
        let shown = masked(template).unwrap_or_else(|| UNREADABLE.to_owned());
        let known = self.0.entry(shown);
        let known = known.or_insert_with_key(|shown| Rc::new(read(template, shown)));
        Rc::clone(known)
    }
}

fn read(template: &str, shown: &str) -> Known {
    let text = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    let Ok(statement) = parse(template) else {
        return Known {
            text,
            kind: Kind::Other,
            compared: Vec::new(),
            calls_functions: false,
            groups: false,
        };
    };
    let groups =
        statement.take.is_some() || statement.update.is_some() || statement.insert.is_some();
    Known {
        kind: kind(&statement, &text),
        compared: compared(&text),
        calls_functions: !statement.functions.is_empty(),
        text,
        groups,
    }
}

fn kind(statement: &Statement, text: &str) -> Kind {
    if statement.statements != 1 {
        return Kind::Other;
    }
    if let Some(take) = &statement.take {
        return Kind::Take(take.relation.clone());
    }
    let queues =
        has_words(text, &["LIMIT"]) && (locks_rows(text) || tries_advisory_lock(statement));
    if !matches!(statement.effect, Effect::Read | Effect::Write) {
        return Kind::Other;
    }
    match (statement.targets.as_slice(), statement.relations.as_slice()) {
        ([], [table]) if queues => Kind::Pick(table.clone()),
        ([], []) => Kind::Other,
        ([], tables) => Kind::Read {
            tables: tables.to_vec(),
            locks: locks_rows(text),
        },
        // Forms of a take that the front end does not rewrite.
        ([table, ..], _) if queues => Kind::Take(table.clone()),
        ([table, ..], _) if upserts(text) => Kind::Upsert(table.clone()),
        ([table, ..], _) => {
            let update = statement.update.as_ref();
            let assigned = update.iter().flat_map(|update| &update.assignments);
            let columns = assigned.map(|(column, _)| column.clone()).collect();
            Kind::Write(table.clone(), columns)
        }
    }
}

/// Words of statements that read other rows than those that their conditions describe.
const OTHER_READS: [&str; 11] = [
    "OR",
    "JOIN",
    "LIMIT",
    "FETCH",
    "DISTINCT",
    "GROUP",
    "HAVING",
    "UNION",
    "INTERSECT",
    "EXCEPT",
    "WITH",
];

/// The columns of conditions `column = $n` that AND joins.
fn compared(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let is = |word: &str, other: &str| word.eq_ignore_ascii_case(other);
    let selects = words
        .iter()
        .filter(|word| word.to_ascii_uppercase().contains("SELECT"));
    let reads_others = words
        .iter()
        .any(|word| OTHER_READS.iter().any(|other| is(word, other)));
    if selects.count() != 1 || reads_others {
        return Vec::new();
    }
    let is_name = |word: &str| {
        let mut characters = word.chars();
        characters.all(|c| c.is_alphanumeric() || c == '_')
    };
    let conditions = words.windows(4).filter_map(|words| match words {
        [before, column, "=", value] => {
            let joins = ["WHERE", "AND"]
                .iter()
                .any(|word| before.eq_ignore_ascii_case(word));
            (joins && is_name(column) && value.starts_with('$')).then(|| (*column).to_owned())
        }
        _ => None,
    });
    conditions.collect()
}

fn upserts(text: &str) -> bool {
    has_words(text, &["ON", "CONFLICT"]) && has_words(text, &["DO", "UPDATE"])
}

fn locks_rows(text: &str) -> bool {
    ["UPDATE", "SHARE", "NO", "KEY"]
        .iter()
        .any(|mode| has_words(text, &["FOR", mode]))
}

fn tries_advisory_lock(statement: &Statement) -> bool {
    let mut functions = statement.functions.iter();
    functions.any(|function| function.name.starts_with("pg_try_advisory_"))
}

/// Whether these words follow each other outside quotes; the text has one space between words, and no literals.
fn has_words(text: &str, wanted: &[&str]) -> bool {
    let words = text.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '"'));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.windows(wanted.len()).any(|found| {
        let mut pairs = found.iter().zip(wanted);
        pairs.all(|(found, wanted)| found.eq_ignore_ascii_case(wanted))
    })
}
