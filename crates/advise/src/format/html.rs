//! A page that needs nothing else.

use crate::finding::{Advice, Finding};
use std::fmt::Write as _;

const STYLE: &str = "\
:root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}\
section{border-left:.4rem solid #888;padding:0 1rem;margin:2rem 0}.high{border-color:#c62828}.medium{border-color:#e08600}\
.low{border-color:#7a8794}code,pre{font:.9em/1.4 ui-monospace,monospace;overflow-wrap:anywhere;white-space:pre-wrap}\
dt{font-weight:600}dd{margin:0 0 .4rem 1rem}";

/// The page.
pub fn html(findings: &[Finding]) -> String {
    let sections: String = findings.iter().map(section).collect();
    let sections = match findings {
        [] => "<p>Nothing found that costs 5 % of the database's time.</p>".to_owned(),
        _ => sections,
    };
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>paceline advise</title><style>{STYLE}</style></head>\n<body><h1>paceline advise</h1>\n{sections}</body></html>\n"
    )
}

fn section(finding: &Finding) -> String {
    let mut out = String::new();
    // Writing to a String does not fail.
    let _ = writeln!(
        out,
        "<section class=\"{severity}\"><h2>{pattern}: {summary}</h2><p>{severity}, {share:.0} %</p>",
        severity = finding.severity.name(),
        pattern = finding.pattern,
        summary = escaped(&finding.summary),
        share = finding.share * 100.0
    );
    if let Some(statement) = &finding.statement {
        let _ = writeln!(out, "<pre>{}</pre>", escaped(statement));
    }
    out.push_str("<ul>");
    for evidence in &finding.evidence {
        let _ = write!(
            out,
            "<li>{}<details><summary>query</summary><pre>{}</pre></details></li>",
            escaped(&evidence.fact),
            escaped(&evidence.query)
        );
    }
    out.push_str("</ul><ol>");
    out.extend(finding.advice.iter().map(item));
    out.push_str("</ol></section>\n");
    out
}

fn item(advice: &Advice) -> String {
    let code = |text: &Option<String>| {
        text.as_ref()
            .map_or_else(String::new, |text| format!("<pre>{}</pre>", escaped(text)))
    };
    format!(
        "<li>{}{}{}<dl><dt>gain</dt><dd>{}</dd><dt>risk</dt><dd>{}</dd><dt>undo</dt><dd>{}</dd></dl></li>",
        escaped(&advice.what),
        code(&advice.configuration),
        code(&advice.sql),
        escaped(&advice.gain),
        escaped(&advice.risk),
        escaped(&advice.undo)
    )
}

/// Names and statements come from the server: none may become a tag.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            other => out.push(other),
        }
    }
    out
}
