//! The one door to `pg_query`. Calls may run side by side, on several threads: the library keeps all that it changes per thread,
//! and (from version 18 on) leaves the process's standard error alone. So a long text holds up nobody who parses elsewhere.

use pg_query::protobuf::{ParseResult, RawStmt, ScanToken};
use pg_query::{Node, NodeEnum};

/// The parser does not take the text (or what was made of it). It says nothing about what the server would do with it:
/// expressions nested too deeply for the parser end here, too.
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
            // The decoder's own message names every level of the tree.
            pg_query::Error::Decode(_) => NotParsed::because("nested too deeply"),
            other => NotParsed(other.to_string()),
        }
    }
}

/// The statements of a text.
pub(crate) fn parse(sql: &str) -> Result<ParseResult, NotParsed> {
    Ok(pg_query::parse(sql, 0)?.protobuf)
}

/// The tokens of a text, comments included.
pub(crate) fn scan(sql: &str) -> Result<Vec<ScanToken>, NotParsed> {
    // Not `scan_tokens`: it builds a slice from a null pointer when there are no tokens.
    Ok(pg_query::scan(sql)?.tokens)
}

/// One statement as text again.
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
