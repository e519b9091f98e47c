//! The answer of `paceline explain` for one statement. Each line has a label and a text.

use paceline_batch::analysis::TemplateAnalysis;
use paceline_batch::explain::{AnalysisSummary, Forecast};
use paceline_batch::policy::Policy;
use paceline_batch::strategy::ExplainLines;
use paceline_relay::template::{Simple, Template};
use paceline_sql::{LiteralKind, quote_literal};

fn about(simple: &Simple) -> ExplainLines {
    let mut lines = ExplainLines::default();
    let words: Vec<&str> = simple.template.text.split_whitespace().collect();
    lines.say("template", words.join(" "));
    let literals = (1..).zip(&simple.literals);
    let literals = literals.map(|(n, literal)| {
        let value = match literal.kind {
            LiteralKind::Unknown => quote_literal(&literal.text),
            _ => literal.text.clone(),
        };
        format!("${n} = {value}")
    });
    lines.list("literals", literals);
    lines
}

/// The answer for a text that is always relayed.
pub(super) fn lease(simple: &Simple, why: &str) -> String {
    let mut lines = about(simple);
    lines.say(
        "in words",
        format!(
            "the client gets a server connection to itself until the end of its transaction ({why})"
        ),
    );
    lines.say("as it is", format!("lease: {why}"));
    lines.finish()
}

/// The answer for a statement if no server is named, so that only its text is known.
pub(super) fn of_shape(
    simple: &Simple,
    summary: AnalysisSummary<'_>,
    policy: Policy,
    shards: Option<String>,
) -> String {
    let mut lines = about(simple);
    lines.say(
        "catalog",
        "not asked (no server is named): the tables may prevent what follows",
    );
    if let Some(place) = shards {
        lines.say("shards", place);
    }
    forecasts(&mut lines, &simple.template, summary, policy);
    lines.finish()
}

/// The answer for a statement that was analyzed.
pub(super) fn of_analysis(
    simple: &Simple,
    analysis: &TemplateAnalysis,
    policy: Policy,
    shards: Option<String>,
    place: &str,
    verbose: bool,
) -> String {
    let mut lines = about(simple);
    lines.say("catalog", format!("asked at {place}"));
    if let Some(place) = shards {
        lines.say("shards", place);
    }
    forecasts(&mut lines, &simple.template, analysis.into(), policy);
    if let Ok(plan) = &analysis.plan {
        plan.explain(&mut lines, verbose);
    }
    lines.finish()
}

/// Appends how requests of the template run as it is, and what a hint or `hotspot_for_autocommit` would change: in words, and by the
/// names of the strategies.
fn forecasts(
    lines: &mut ExplainLines,
    template: &Template,
    summary: AnalysisSummary<'_>,
    policy: Policy,
) {
    let hinted = template.hints().commit_on_success;
    let now = Forecast::of(template, summary, policy, hinted);
    let with_hint = Forecast::of(template, summary, policy, true);
    let switched = Policy {
        for_autocommit: true,
        ..policy
    };
    let switched = Forecast::of(template, summary, switched, hinted);
    lines.say("in words", in_words(&now, &with_hint, &switched));
    lines.say("as it is", now.to_string());
    if with_hint != now {
        lines.say(
            "hint",
            format!("{with_hint}; with /*+ COMMIT_ON_SUCCESS */"),
        );
    }
    if switched != now {
        lines.say("switch", format!("{switched}; with hotspot_for_autocommit"));
    }
}

/// The present forecast, and the change by the hint or the setting.
fn in_words(now: &Forecast, with_hint: &Forecast, switched: &Forecast) -> String {
    let alone = |forecast: &Forecast| matches!(forecast, Forecast::Alone(_));
    let remedy = match (
        with_hint != now && !alone(with_hint),
        switched != now && !alone(switched),
    ) {
        (false, false) => return now.in_words(),
        (true, true) if with_hint == switched => "with the hint or hotspot_for_autocommit",
        (true, _) => "with the hint",
        (false, true) => "with hotspot_for_autocommit",
    };
    let then = if remedy == "with hotspot_for_autocommit" {
        switched
    } else {
        with_hint
    };
    format!("{}; {remedy}, {}", now.in_words(), then.in_words())
}
