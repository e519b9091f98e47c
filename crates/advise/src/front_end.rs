//! Findings by the counts of a running Paceline: requests that waited alone although they could have been grouped.

use crate::evaluated::SHARE_MIN;
use crate::finding::{Advice, Apply, Evidence, Finding, Pattern, Severity};
use crate::statements::{Kind, Statements};

/// Fewer such requests per second are not worth a change.
const PER_SECOND_MIN: f64 = 1.0;

/// The requests of a template within the observation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TemplateCounts {
    /// The database, under the name that clients use.
    pub database: String,
    /// The name of the template: its identifier and its text without values.
    pub template: String,
    /// Requests per second.
    pub per_second: f64,
    /// Requests per second that waited alone, and that a hint or a switch would have grouped.
    pub would_have_grouped: f64,
    /// Mean time of a request on a server, in milliseconds.
    pub milliseconds: f64,
}

/// The findings, the most expensive first. The share of a finding is that of its requests in the time on servers.
pub fn evaluate(templates: &[TemplateCounts]) -> Vec<Finding> {
    let time = |counts: &TemplateCounts| counts.per_second * counts.milliseconds;
    let all: f64 = templates.iter().map(time).sum();
    let mut statements = Statements::default();
    let found = templates.iter().filter_map(|counts| {
        let share = counts.would_have_grouped.min(counts.per_second) * counts.milliseconds / all;
        let counts_much = counts.would_have_grouped >= PER_SECOND_MIN && share >= SHARE_MIN;
        counts_much.then(|| finding(counts, share, &mut statements))
    });
    let mut found: Vec<Finding> = found.collect();
    found.sort_by(|one, other| other.share.total_cmp(&one.share));
    found
}

fn finding(counts: &TemplateCounts, share: f64, statements: &mut Statements) -> Finding {
    let (id, text) = counts
        .template
        .split_once(' ')
        .unwrap_or((&counts.template, ""));
    let pattern = match statements.of(text).kind {
        Kind::Take(_) | Kind::Pick(_) => Pattern::Queue,
        Kind::Upsert(_) => Pattern::UpsertStore,
        Kind::Write(..) | Kind::Other => Pattern::HotRow,
        Kind::Read { .. } => Pattern::Storm,
    };
    let waiting = counts.would_have_grouped;
    Finding {
        pattern,
        severity: Severity::of(share),
        share,
        summary: format!(
            "{waiting:.0} requests per second to {} waited alone although they could have been grouped",
            counts.database
        ),
        table: None,
        statement: Some(text.to_owned()),
        evidence: vec![Evidence {
            fact: format!(
                "{waiting:.0} of {:.0} requests per second waited; each takes {:.1} ms on a server",
                counts.per_second, counts.milliseconds
            ),
            query: "SHOW GROUPS".to_owned(),
        }],
        advice: vec![allow(counts, id)],
    }
}

fn allow(counts: &TemplateCounts, id: &str) -> Advice {
    let name = &counts.database;
    Advice {
        what: format!(
            "Allow grouping of this statement: ALLOW GROUPING {name} TEMPLATE {id} in the admin console, or in the configuration"
        ),
        sql: None,
        configuration: Some(format!(
            "[databases.{}]\nallow_grouping = [\"template {id}\"]\n",
            toml_key(name)
        )),
        gain: "Requests that wait at the same time become one statement and one commit".to_owned(),
        risk: "CDC sees one row version for several updates".to_owned(),
        undo: format!("RESET GROUPING {name} TEMPLATE {id} in the console, or remove the line"),
        apply: Apply::No,
    }
}

/// The name as a key of TOML.
fn toml_key(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    match !name.is_empty() && name.chars().all(is_bare) {
        true => name.to_owned(),
        false => format!("\"{}\"", name.escape_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_waited_alone_are_found_by_their_kind() {
        let counts = |template: &str, per_second, would_have_grouped| TemplateCounts {
            database: "shop".to_owned(),
            template: template.to_owned(),
            per_second,
            would_have_grouped,
            milliseconds: 2.0,
        };
        let take = "cc DELETE FROM q WHERE id = (SELECT id FROM q ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)";
        let found = evaluate(&[
            counts("aa UPDATE t SET n = n + $1 WHERE id = $2", 100.0, 40.0),
            counts("bb SELECT $1", 100.0, 0.0),
            counts(take, 100.0, 90.0),
            counts("dd UPDATE t SET m = m + $1 WHERE id = $2", 100.0, 10.0),
        ]);
        let found: Vec<(Pattern, f64)> = found.iter().map(|f| (f.pattern, f.share)).collect();
        assert_eq!(found, [(Pattern::Queue, 0.225), (Pattern::HotRow, 0.1)]);
        assert_eq!(evaluate(&[]), []);
    }

    #[test]
    fn names_are_quoted_where_necessary() {
        assert_eq!(toml_key("shop-1"), "shop-1");
        assert_eq!(toml_key("my.db"), "\"my.db\"");
        assert_eq!(toml_key("a\"b"), "\"a\\\"b\"");
    }

    #[test]
    fn the_advice_names_the_template() {
        let counts = TemplateCounts {
            database: "shop".to_owned(),
            template: "1f0c5a77 UPDATE t SET n = n + $1 WHERE id = $2".to_owned(),
            per_second: 10.0,
            would_have_grouped: 10.0,
            milliseconds: 1.0,
        };
        let found = evaluate(&[counts]);
        let configuration = found[0].advice[0].configuration.as_deref();
        assert_eq!(
            configuration,
            Some("[databases.shop]\nallow_grouping = [\"template 1f0c5a77\"]\n")
        );
    }
}
