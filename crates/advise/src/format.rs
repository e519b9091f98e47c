//! The outputs.

mod html;
mod sql;
mod text;

pub use html::html;
pub use sql::sql;
pub use text::{lines, text};

use crate::finding::Finding;

/// An array of findings, `[]` if there are none.
pub fn json(findings: &[Finding]) -> String {
    // Strings and finite numbers can always be written.
    serde_json::to_string_pretty(findings).unwrap_or_else(|_| "[]".to_owned())
}
