//! `PREPARE` and `EXECUTE` as SQL statements, split so that a statement can be prepared under another name, and the
//! names in texts that cannot be split.

use crate::effect::is_analyze;
use crate::parser::{self, is_comment, range_of};
use crate::tree::Record;
use pg_query::protobuf::{DoStmt, PrepareStmt, ScanToken, Token, TypeName};
use pg_query::{Node, NodeEnum};
use std::collections::BTreeSet;
use std::ops::Range;

#[cfg(test)]
mod tests;

/// Use of prepared statements by name in a text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Named {
    /// `PREPARE name (types) AS body`.
    Prepare {
        /// Name of the prepared statement.
        name: String,
        /// OIDs of the declared parameter types.
        types: Vec<u32>,
        /// The text of the prepared statement.
        body: String,
    },
    /// `EXECUTE name (…)`, also within EXPLAIN and CREATE TABLE AS.
    Execute {
        /// Name of the prepared statement.
        name: String,
        /// Range of the name in the text, in bytes, with the UESCAPE that may follow it.
        at: Range<usize>,
        /// The prepared statement is executed: not only explained, and not only used for the columns of an empty
        /// table.
        runs: bool,
    },
    /// A text that needs prepared statements under their original names: several statements, a `PREPARE` that cannot
    /// be split, or a `DO` whose code may execute a prepared statement that any of its words names.
    Uses {
        /// The names, without duplicates.
        names: BTreeSet<String>,
        /// It may execute them.
        executes: bool,
    },
}

/// Built-in types under the parser's names. The OIDs of other types are known only to the catalog.
const TYPES: [(&str, u32); 22] = [
    ("bool", 16),
    ("bytea", 17),
    ("int8", 20),
    ("int2", 21),
    ("int4", 23),
    ("text", 25),
    ("oid", 26),
    ("json", 114),
    ("float4", 700),
    ("float8", 701),
    ("inet", 869),
    ("bpchar", 1042),
    ("varchar", 1043),
    ("date", 1082),
    ("time", 1083),
    ("timestamp", 1114),
    ("timestamptz", 1184),
    ("interval", 1186),
    ("timetz", 1266),
    ("numeric", 1700),
    ("uuid", 2950),
    ("jsonb", 3802),
];

/// The use of names of prepared statements by a text. `None` if there is none, or if the text's [`SessionChange`](crate::SessionChange)
/// describes it.
pub(crate) fn of_statements(sql: &str, statements: &[NodeEnum], tree: &Record) -> Option<Named> {
    let single = match statements {
        [NodeEnum::DeallocateStmt(_)] => return None,
        [NodeEnum::PrepareStmt(prepare)] => split_prepare(sql, prepare),
        [
            single @ (NodeEnum::ExecuteStmt(_)
            | NodeEnum::ExplainStmt(_)
            | NodeEnum::CreateTableAsStmt(_)),
        ] => find_execute(sql, single),
        _ => None,
    };
    single.or_else(|| names_in(statements, tree))
}

fn names_in(statements: &[NodeEnum], tree: &Record) -> Option<Named> {
    let (mut names, mut executes) = (BTreeSet::new(), false);
    tree.walk(&mut |node| {
        if matches!(node.kind, "PrepareStmt" | "ExecuteStmt" | "DeallocateStmt") {
            names.insert(node.text("name").to_owned());
            executes |= node.kind == "ExecuteStmt";
        }
    });
    for statement in statements {
        if let NodeEnum::DoStmt(code) = statement {
            names.extend(words(code));
            executes = true;
        }
    }
    // `DEALLOCATE ALL` has no name.
    names.remove("");
    (!names.is_empty()).then_some(Named::Uses { names, executes })
}

/// The words of code that may execute statements, in their spelling and in lower case.
fn words(code: &DoStmt) -> BTreeSet<String> {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$') || !c.is_ascii();
    let bodies = code.args.iter().filter_map(|argument| {
        let Some(NodeEnum::DefElem(option)) = &argument.node else {
            return None;
        };
        match option.arg.as_ref()?.node.as_ref()? {
            NodeEnum::String(body) if option.defname == "as" => Some(&body.sval),
            _ => None,
        }
    });
    let executing = bodies.filter(|body| body.to_ascii_lowercase().contains("execute"));
    let words = executing.flat_map(|body| body.split(move |c| !is_word(c)));
    words
        .flat_map(|word| [word.to_owned(), word.to_ascii_lowercase()])
        .collect()
}

fn split_prepare(sql: &str, prepare: &PrepareStmt) -> Option<Named> {
    let types: Option<Vec<u32>> = prepare.argtypes.iter().map(builtin_type).collect();
    let tokens = significant(sql)?;
    // The first AS outside the parentheses around the types.
    let mut depth = 0;
    let body = tokens.iter().position(|token| {
        match token.token() {
            Token::Ascii40 => depth += 1,
            Token::Ascii41 => depth -= 1,
            _ => {}
        }
        depth == 0 && token.token() == Token::As
    })? + 1;
    let mut tokens = tokens.get(body..)?.iter();
    let first = range_of(tokens.clone().next()?);
    let last = range_of(tokens.rfind(|token| token.token() != Token::Ascii59)?);
    Some(Named::Prepare {
        name: prepare.name.clone(),
        types: types?,
        body: sql.get(first.start..last.end)?.to_owned(),
    })
}

fn builtin_type(node: &Node) -> Option<u32> {
    let Some(NodeEnum::TypeName(declared)) = &node.node else {
        return None;
    };
    let plain = TypeName {
        names: declared.names.clone(),
        typmods: declared.typmods.clone(),
        typemod: declared.typemod,
        location: declared.location,
        ..TypeName::default()
    };
    let names = Record::of(declared).names("names");
    let name = match names.as_slice() {
        [name] => name,
        [schema, name] if schema == "pg_catalog" => name,
        _ => return None,
    };
    let found = TYPES.iter().find(|(known, _)| known == name);
    found.filter(|_| *declared == plain).map(|(_, oid)| *oid)
}

fn find_execute(sql: &str, statement: &NodeEnum) -> Option<Named> {
    let tree = Record::of_node(statement);
    let mut names = Vec::new();
    let mut runs = match statement {
        NodeEnum::ExplainStmt(explain) => explain.options.iter().any(is_analyze),
        _ => true,
    };
    tree.walk(&mut |node| match node.kind {
        "ExecuteStmt" => names.push(node.text("name").to_owned()),
        "IntoClause" => runs &= node.number("skip_data") == 0,
        _ => {}
    });
    let [name] = <[String; 1]>::try_from(names).ok()?;
    let tokens = significant(sql)?;
    let is_execute = |token: &ScanToken| token.token() == Token::Execute;
    let execute = tokens.iter().position(is_execute)?;
    let at = range_of_name(tokens.get(execute + 1..)?)?;
    Some(Named::Execute { name, at, runs })
}

/// The range of the name with which the tokens begin: one token, or `U&"…" UESCAPE '…'`.
fn range_of_name(tokens: &[ScanToken]) -> Option<Range<usize>> {
    let name = range_of(tokens.first()?);
    let escape = match tokens {
        [_, word, escape, ..] if word.token() == Token::Uescape => range_of(escape),
        _ => name.clone(),
    };
    Some(name.start..escape.end)
}

fn significant(sql: &str) -> Option<Vec<ScanToken>> {
    let mut tokens = parser::scan(sql).ok()?;
    tokens.retain(|token| !is_comment(token));
    Some(tokens)
}
