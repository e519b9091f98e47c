//! `PREPARE` and `EXECUTE` by SQL, taken apart so that they can go under another name, and the names in texts that cannot be.

use crate::effect::is_analyze;
use crate::parser;
use crate::tree::Record;
use pg_query::protobuf::{DoStmt, PrepareStmt, ScanToken, Token, TypeName};
use pg_query::{Node, NodeEnum};
use std::collections::BTreeSet;
use std::ops::Range;

#[cfg(test)]
mod tests;

/// What a text does with statements that it calls by name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Named {
    /// `PREPARE name (types) AS body`.
    Prepare {
        /// The name.
        name: String,
        /// OIDs of the types that are declared.
        types: Vec<u32>,
        /// What is prepared, as the text spells it.
        body: String,
    },
    /// `EXECUTE name (…)`, also within EXPLAIN and CREATE TABLE AS.
    Execute {
        /// The name.
        name: String,
        /// Where the name stands in the text, in bytes.
        at: Range<usize>,
        /// It is carried out: not only explained, or asked for the columns of a table that stays empty.
        runs: bool,
    },
    /// A text that must find statements under the names that it says: several statements, a `PREPARE` that cannot be taken apart,
    /// or a `DO` that may execute, by SQL of its own, what any of its words names.
    Uses {
        /// The names, each once.
        names: BTreeSet<String>,
    },
}

/// Types that PostgreSQL brings, by the names that its parser gives them. Only these can be told without the catalog.
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

/// What a text does with names of statements. `None`: nothing, or what its [`SessionChange`](crate::SessionChange) says.
pub(crate) fn of_statements(sql: &str, statements: &[NodeEnum], tree: &Record) -> Option<Named> {
    let single = match statements {
        [NodeEnum::DeallocateStmt(_)] => return None,
        [NodeEnum::PrepareStmt(prepare)] => prepared(sql, prepare),
        [
            single @ (NodeEnum::ExecuteStmt(_)
            | NodeEnum::ExplainStmt(_)
            | NodeEnum::CreateTableAsStmt(_)),
        ] => executed(sql, single),
        _ => None,
    };
    single.or_else(|| used(statements, tree))
}

fn used(statements: &[NodeEnum], tree: &Record) -> Option<Named> {
    let mut names = BTreeSet::new();
    tree.walk(&mut |node| match node.kind {
        "PrepareStmt" | "ExecuteStmt" | "DeallocateStmt" => {
            names.insert(node.text("name").to_owned());
        }
        _ => {}
    });
    for statement in statements {
        if let NodeEnum::DoStmt(code) = statement {
            names.extend(words(code));
        }
    }
    // `DEALLOCATE ALL` has none.
    names.remove("");
    (!names.is_empty()).then_some(Named::Uses { names })
}

/// The words of code that may execute statements, as they are spelled and as PostgreSQL folds them.
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

fn prepared(sql: &str, prepare: &PrepareStmt) -> Option<Named> {
    let types: Option<Vec<u32>> = prepare.argtypes.iter().map(known_type).collect();
    let tokens = significant(sql)?;
    // The first AS outside of the parentheses around the types.
    let mut depth = 0;
    let body = tokens.iter().position(|token| {
        match token.token() {
            Token::Ascii40 => depth += 1,
            Token::Ascii41 => depth -= 1,
            _ => {}
        }
        depth == 0 && token.token() == Token::As
    })? + 1;
    let last = tokens
        .iter()
        .rfind(|token| token.token() != Token::Ascii59)?;
    Some(Named::Prepare {
        name: prepare.name.clone(),
        types: types?,
        body: sql
            .get(start_of(tokens.get(body)?)?..end_of(last)?)?
            .to_owned(),
    })
}

fn known_type(node: &Node) -> Option<u32> {
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

fn executed(sql: &str, statement: &NodeEnum) -> Option<Named> {
    let tree = Record::of(&Node {
        node: Some(statement.clone()),
    });
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
    let execute = tokens
        .iter()
        .position(|token| token.token() == Token::Execute)?;
    let token = tokens.get(execute + 1)?;
    Some(Named::Execute {
        name,
        at: start_of(token)?..end_of(token)?,
        runs,
    })
}

fn significant(sql: &str) -> Option<Vec<ScanToken>> {
    let mut tokens = parser::scan(sql).ok()?;
    tokens.retain(|token| !matches!(token.token(), Token::SqlComment | Token::CComment));
    Some(tokens)
}

fn start_of(token: &ScanToken) -> Option<usize> {
    usize::try_from(token.start).ok()
}

fn end_of(token: &ScanToken) -> Option<usize> {
    usize::try_from(token.end).ok()
}
