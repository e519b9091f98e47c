//! The only module that calls `pg_query`'s parser. Calls may run concurrently on several threads: the library keeps
//! all mutable state per thread and, from version 18 on, does not redirect the process's standard error. So a long
//! text delays no other thread.

use pg_query::protobuf::{ParseResult, RawStmt, ScanToken};
use pg_query::{Node, NodeEnum};

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

/// Writes one statement as text.
pub(crate) fn deparse(statement: NodeEnum) -> Result<String, NotParsed> {
    let stmt = Some(Box::new(Node {
        node: Some(statement),
    }));
    let tree = ParseResult {
        version: 0,
        stmts: vec![RawStmt {
            stmt,
            stmt_location: 0,
            stmt_len: 0,
        }],
    };
    Ok(pg_query::deparse(&tree, Default::default())?)
}
