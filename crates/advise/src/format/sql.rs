//! A script for psql: the advice that SQL can carry out; all else is a comment.

use crate::finding::{Apply, Finding};
use std::fmt::Write as _;

/// The script. Statements with a gap (`…`), and those that are not safe, are comments.
pub fn sql(findings: &[Finding]) -> String {
    let mut out = String::from("-- paceline advise: read each statement before you run it.\n");
    for finding in findings {
        // Writing to a String does not fail.
        let _ = writeln!(
            out,
            "\n-- {} ({}): {}",
            finding.pattern,
            finding.severity.name(),
            one_line(&finding.summary)
        );
        for advice in &finding.advice {
            let _ = writeln!(out, "-- {}", one_line(&advice.what));
            let _ = writeln!(out, "-- risk: {}", one_line(&advice.risk));
            let _ = writeln!(out, "-- undo: {}", one_line(&advice.undo));
            for line in advice.configuration.iter().flat_map(|text| text.lines()) {
                let _ = writeln!(out, "-- paceline.toml: {line}");
            }
            if let Some(sql) = &advice.sql {
                let comment = match advice.apply {
                    Apply::Safe => "",
                    Apply::No | Apply::Cluster => "-- ",
                };
                let _ = writeln!(out, "{comment}{};", one_line(sql));
            }
        }
    }
    out
}

/// A name of a table may have a line break, which would end a comment.
fn one_line(text: &str) -> String {
    text.split(['\n', '\r']).collect::<Vec<_>>().join(" ")
}
