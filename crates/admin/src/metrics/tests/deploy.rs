//! The dashboard and the alert rules in `deploy/` are well formed and use only metrics and labels that exist.

use super::super::definitions::METRICS;
use serde_json::Value;
use yaml_rust2::{Yaml, YamlLoader};

const DASHBOARD: &str = include_str!("../../../../../deploy/grafana/paceline.json");
const ALERTS: &str = include_str!("../../../../../deploy/prometheus/alerts.yml");

/// Every name of a sample on `/metrics`, with its labels.
fn samples() -> Vec<(String, Vec<&'static str>)> {
    let mut samples = Vec::new();
    for metric in &METRICS {
        let suffixes: &[&str] = match metric.metric_type.as_str() {
            "counter" => &["_total"],
            "histogram" => &["_bucket", "_sum", "_count"],
            "info" => &["_info"],
            _ => &[""],
        };
        for suffix in suffixes {
            let mut labels = metric.labels.to_vec();
            labels.extend((*suffix == "_bucket").then_some("le"));
            samples.push((format!("{}{suffix}", metric.name), labels));
        }
    }
    samples
}

fn is_name(c: char) -> bool {
    c == '_' || c.is_ascii_alphanumeric()
}

/// The metrics and labels in an expression that do not exist.
fn unknown(expression: &str) -> Vec<String> {
    let samples = samples();
    let mut unknown = Vec::new();
    for start in ["paceline_", "process_"] {
        for (at, _) in expression.match_indices(start) {
            let rest = &expression[at..];
            let name = &rest[..rest.find(|c| !is_name(c)).unwrap_or(rest.len())];
            let Some((_, labels)) = samples.iter().find(|(known, _)| known == name) else {
                unknown.push(name.to_owned());
                continue;
            };
            let selector = rest[name.len()..].strip_prefix('{');
            let selector = selector.and_then(|rest| rest.split_once('}'));
            let matchers = selector.map_or("", |(inside, _)| inside).split(',');
            let asked = matchers.filter_map(|matcher| matcher.split(['=', '!']).next());
            // Prometheus adds job and instance.
            let known =
                |label: &str| labels.contains(&label) || matches!(label, "" | "job" | "instance");
            unknown.extend(asked.filter(|label| !known(label)).map(str::to_owned));
        }
    }
    unknown
}

fn parentheses_are_even(expression: &str) -> bool {
    let count = |c: char| expression.matches(c).count();
    count('(') == count(')') && count('{') == count('}') && count('"') % 2 == 0
}

#[track_caller]
fn check(expression: &str) {
    assert_eq!(unknown(expression), Vec::<String>::new(), "{expression}");
    assert!(parentheses_are_even(expression), "{expression}");
}

#[test]
fn the_dashboard_uses_existing_metrics() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut asked = 0;
    for panel in panels {
        let targets = panel["targets"].as_array();
        for target in targets.into_iter().flatten() {
            check(target["expr"].as_str().unwrap());
            asked += 1;
        }
    }
    assert!(asked >= 20, "{asked} expressions");
    let ids: std::collections::BTreeSet<u64> = panels
        .iter()
        .map(|panel| panel["id"].as_u64().unwrap())
        .collect();
    assert_eq!(ids.len(), panels.len());
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        check(variable["query"].as_str().unwrap());
    }
}

#[test]
fn alerts_use_existing_metrics() {
    let documents = YamlLoader::load_from_str(ALERTS).unwrap();
    let mut names = Vec::new();
    for group in documents[0]["groups"].as_vec().unwrap() {
        for rule in group["rules"].as_vec().unwrap() {
            let text = |rule: &Yaml, key: &str| rule[key].as_str().unwrap().to_owned();
            check(&text(rule, "expr"));
            names.push(text(rule, "alert"));
            text(&rule["labels"], "severity");
            text(&rule["annotations"], "summary");
            text(&rule["annotations"], "description");
        }
    }
    let different: std::collections::BTreeSet<&String> = names.iter().collect();
    assert!(
        names.len() >= 8 && different.len() == names.len(),
        "{names:?}"
    );
}

#[test]
fn unknown_metrics_and_labels_are_found() {
    assert_eq!(
        unknown("rate(paceline_unit_total[5m])"),
        ["paceline_unit_total"]
    );
    assert_eq!(unknown("sum(paceline_clients{state=\"x\"})"), ["state"]);
    assert!(unknown("paceline_wait_seconds_bucket{le=\"1\",job=\"x\"}").is_empty());
}
