//! The only module that calls `pg_query`'s parser. Calls may run concurrently on several threads: the library keeps
//! all mutable state per thread and, from version 18 on, does not redirect the process's standard error. So a long
//! text delays no other thread.

use pg_query::protobuf::{ParseResult, RawStmt, ScanToken, Token};
use pg_query::{Node, NodeEnum};
use std::ops::Range;

/// The parser rejects the text (or a text generated from it). The server may still accept it: for example, this
/// parser rejects expressions that are nested too deeply.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not parsed: {0}")]
pub struct NotParsed(String);

impl NotParsed {
    pub(crate) fn because(reason: impl Into<String>) -> NotParsed {
        NotParsed(reason.into())
    }
}

impl From<pg_query::Error> for NotParsed {
    fn from(error: pg_query::Error) -> NotParsed {
        match error {
            // The decoder's own message lists each level of the tree.
            pg_query::Error::Decode(_) => NotParsed::because("nested too deeply"),
            other => NotParsed(other.to_string()),
        }
    }
}

/// Parses the statements of a text.
pub(crate) fn parse(sql: &str) -> Result<ParseResult, NotParsed> {
    Ok(pg_query::parse(sql, 0)?.protobuf)
}

/// The tokens of a text, comments included.
pub(crate) fn scan(sql: &str) -> Result<Vec<ScanToken>, NotParsed> {
    // `scan_tokens` builds a slice from a null pointer if there are no tokens.
    Ok(pg_query::scan(sql)?.tokens)
}

/// Whether a token is a comment.
pub(crate) fn is_comment(token: &ScanToken) -> bool {
    matches!(token.token(), Token::CComment | Token::SqlComment)
}

/// The bytes of a token.
pub(crate) fn range_of(token: &ScanToken) -> Range<usize> {
    let start = usize::try_from(token.start).unwrap_or(0);
    start..usize::try_from(token.end).unwrap_or(0).max(start)
}

/// The text of a token.
pub(crate) fn text_of<'a>(sql: &'a str, token: &ScanToken) -> &'a str {
    sql.get(range_of(token)).unwrap_or_default()
}

/// The texts of `String` nodes, such as a dotted name; `None` if there are other nodes.
pub(crate) fn strings(nodes: &[Node]) -> Option<Vec<&str>> {
    nodes.iter().map(string).collect()
}

/// The text of a `String` node.
pub(crate) fn string(node: &Node) -> Option<&str> {
    match &node.node {
        Some(NodeEnum::String(text)) => Some(&text.sval),
        _ => None,
    }
}

/// Whether the operator is `=` without a schema.
pub(crate) fn is_equality(operator: &[Node]) -> bool {
    strings(operator).as_deref() == Some(&["="])
}

/// Writes one statement as text.
pub(crate) fn deparse(statement: NodeEnum) -> Result<String, NotParsed> {
    let stmt = Some(Box::new(Node {
        node: Some(statement),
    }));
    let stmts = vec![RawStmt {
        stmt,
        ..RawStmt::default()
    }];
    let tree = ParseResult { version: 0, stmts };
    Ok(pg_query::deparse(&tree, Default::default())?)
}
