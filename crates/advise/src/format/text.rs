//! Text for a terminal.

use crate::finding::{Advice, Finding};
use std::fmt::Write as _;

/// A line for each finding.
pub fn lines(findings: &[Finding]) -> String {
    let line = |finding: &Finding| {
        format!(
            "{:6} {:14} {:3.0} %  {}\n",
            finding.severity.name(),
            finding.pattern.name(),
            finding.share * 100.0,
            finding.summary
        )
    };
    match findings {
        [] => "nothing found that costs 5 % of the database's time\n".to_owned(),
        findings => findings.iter().map(line).collect(),
    }
}

/// The lines, and below them each finding with evidence and advice.
pub fn text(findings: &[Finding]) -> String {
    let mut out = lines(findings);
    for finding in findings {
        // Writing to a String does not fail.
        let _ = writeln!(out, "\n{}: {}", finding.pattern, finding.summary);
        if let Some(statement) = &finding.statement {
            let _ = writeln!(out, "  statement  {statement}");
        }
        for evidence in &finding.evidence {
            let _ = writeln!(out, "  seen       {}", evidence.fact);
        }
        for (number, advice) in (1..).zip(&finding.advice) {
            write_advice(&mut out, number, advice);
        }
    }
    out
}

fn write_advice(out: &mut String, number: usize, advice: &Advice) {
    let _ = writeln!(out, "  {number}. {}", advice.what);
    for line in advice.configuration.iter().flat_map(|text| text.lines()) {
        let _ = writeln!(out, "       {line}");
    }
    if let Some(sql) = &advice.sql {
        let _ = writeln!(out, "       {sql};");
    }
    let _ = writeln!(out, "     gain     {}", advice.gain);
    let _ = writeln!(out, "     risk     {}", advice.risk);
    let _ = writeln!(out, "     undo     {}", advice.undo);
}
