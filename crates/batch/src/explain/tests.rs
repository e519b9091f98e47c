//! Forecasts for templates agree with the decisions on their requests.

use super::*;
use crate::strategy::{GroupPlan, PlannedRequest};
use crate::testing::fold_statement::{FoldStatement, INT4, INT8, chain_facts, single, table};
use crate::testing::planned_statement::PlannedStatement;
use paceline_relay::session::ClientSession;
use paceline_relay::settings::SettingsInterner;
use paceline_relay::template::Templates;
use paceline_testing::messages::client::query;
use std::sync::Arc;

fn folding(hints: &str) -> (TemplateAnalysis, PlannedRequest) {
    let table = table(&[("id", INT8), ("n", INT4)], &["id"]);
    let text = format!("UPDATE {hints} t SET n = n - $1 WHERE id = $2");
    let mut folding = FoldStatement::prepared(&text, &table, &[INT4, INT8], Vec::new());
    let request = folding.texts(&["1", "7"]);
    let plan = Arc::clone(&folding.plan);
    (analysis(Ok(plan), false), request)
}

fn taking(hints: &str) -> (TemplateAnalysis, PlannedRequest) {
    let table = table(&[("id", INT8), ("lane", INT4)], &["id"]);
    let text = format!(
        "DELETE {hints} FROM t WHERE id = (SELECT id FROM t WHERE lane = $1 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)"
    );
    let mut taking = PlannedStatement::taking(&text, &table, &[INT4], Vec::new());
    let request = taking.texts(&["1"]);
    let plan = taking.plan.clone();
    (analysis(Ok(plan), false), request)
}

/// A request of a template whose analysis permits nothing else.
fn refused(text: &str, plain_read: bool) -> (TemplateAnalysis, PlannedRequest) {
    let mut session = ClientSession::new(SettingsInterner::default().none());
    let request = single(&mut session, &Templates::default(), query(text));
    (
        analysis(Err("of its shape".to_owned()), plain_read),
        request,
    )
}

fn analysis(plan: Result<Arc<dyn GroupPlan>, String>, plain_read: bool) -> TemplateAnalysis {
    TemplateAnalysis {
        plan,
        chain_facts: Ok(chain_facts(&Templates::default())),
        plain_read: plain_read.then_some(()).ok_or(NOT_PLAIN.to_owned()),
        reads_on_replicas: false,
        reads_on_subscribers: false,
        portable_table: None,
        may_change_session: Some(false),
        sequences: paceline_sql::SequenceUse::ANY,
        reads_numbers: false,
        declared: false,
        timeouts: crate::line::ClientTimeouts::default(),
        tables: Vec::new(),
        permission: Permission::Default,
    }
}

fn policies() -> impl Iterator<Item = Policy> {
    (0..16).map(|bits| Policy {
        hotspot: bits & 1 > 0,
        for_autocommit: bits & 2 > 0,
        lock_type: bits & 4 > 0,
        pipeline: bits & 8 > 0,
    })
}

fn forecast_of(
    (analysis, request): &(TemplateAnalysis, PlannedRequest),
    policy: Policy,
) -> Forecast {
    let hinted = request.template.hints().commit_on_success;
    Forecast::of(&request.template, analysis.into(), policy, hinted)
}

fn strategy(
    (analysis, request): &(TemplateAnalysis, PlannedRequest),
    policy: Policy,
) -> Option<Strategy> {
    let group = analysis.decide(&mut request.clone(), policy).spec.group;
    group.map(|id| id.strategy)
}

const HINTS: [&str; 4] = [
    "",
    "/*+ COMMIT_ON_SUCCESS */",
    "/*+ COMMIT_ON_SUCCESS TARGET_AFFECT_ROW(1) */",
    "/*+ COMMIT_ON_SUCCESS TARGET_AFFECT_ROW(2) */",
];

/// Statements of all kinds, with their known facts.
fn cases() -> Vec<(TemplateAnalysis, PlannedRequest)> {
    let writes = HINTS.iter().flat_map(|hints| {
        let other = format!("DELETE {hints} FROM t WHERE n = 1");
        let moment = format!("DELETE {hints} FROM t WHERE at < timestamptz E'now'");
        let others = [other, moment].map(|text| refused(&text, false));
        [folding(hints), taking(hints)].into_iter().chain(others)
    });
    let reads = [true, false].map(|plain| refused("SELECT n FROM t WHERE id = 1", plain));
    let calls = HINTS.iter().flat_map(|hints| {
        let calls = ["place_order(1)", "place_order(timestamptz E'now')"];
        let calls = calls.map(|call| format!("SELECT {hints} {call}"));
        let known = [(true, true), (true, false), (false, false)];
        let cases = calls.map(|call| {
            known.map(|(taints, declared)| {
                let (mut analysis, request) = refused(&call, false);
                (analysis.may_change_session, analysis.declared) = (Some(taints), declared);
                (analysis, request)
            })
        });
        cases.into_iter().flatten()
    });
    writes.chain(reads).chain(calls).collect()
}

#[test]
fn the_forecast_is_the_decision() {
    let permissions = [
        Permission::Default,
        Permission::Hinted,
        Permission::Allowed,
        Permission::Denied,
    ];
    let permitted = permissions.map(|permission| {
        cases().into_iter().map(move |(mut analysis, request)| {
            analysis.permission = permission;
            (analysis, request)
        })
    });
    for case in permitted.into_iter().flatten() {
        let early: Vec<_> = policies()
            .map(|policy| forecast_of(&case, policy))
            .collect();
        for (policy, forecast) in policies().zip(&early) {
            let happens = strategy(&case, policy);
            match forecast {
                Forecast::Together(strategy) => assert_eq!(happens, Some(*strategy)),
                other => assert_eq!(happens, None, "{other:?} {policy:?}"),
            }
        }
        (0..3).for_each(|_| case.1.template.pace.record(1, 1));
        for (policy, forecast) in policies().zip(early) {
            let happens = strategy(&case, policy);
            match forecast {
                Forecast::Alone(why) => assert_eq!(happens, None, "{why} {policy:?}"),
                // Shared until the template was known to be short.
                Forecast::Together(Strategy::Share) => {
                    assert_eq!(happens, Some(Strategy::Pipeline));
                }
                Forecast::Together(strategy) | Forecast::OnceShort(strategy) => {
                    assert_eq!(happens, Some(strategy), "{policy:?}");
                    assert_eq!(forecast_of(&case, policy), Forecast::Together(strategy));
                }
            }
        }
    }
}

#[test]
fn a_forecast_names_the_switch_that_is_off() {
    let cautious = Policy {
        hotspot: true,
        for_autocommit: false,
        lock_type: true,
        pipeline: true,
    };
    let forecast = |case, policy| forecast_of(&case, policy).to_string();
    assert_eq!(
        forecast(folding(""), cautious),
        "solo: it has no hint, and hotspot_for_autocommit is off"
    );
    assert_eq!(forecast(folding(HINTS[1]), cautious), "fold");
    let off = Policy {
        hotspot: false,
        ..cautious
    };
    assert_eq!(
        forecast(folding(HINTS[1]), off),
        "solo: its hint does not count: hotspot is off"
    );
    let chains = Policy {
        for_autocommit: true,
        lock_type: false,
        ..cautious
    };
    assert_eq!(
        forecast(folding(""), chains),
        "solo: hotspot_lock_type is off: only hinted writes share a commit"
    );
    assert_eq!(
        forecast(folding(HINTS[1]), chains),
        "chain, once it is known to be short"
    );
    assert_eq!(
        forecast(refused("DELETE FROM t", false), cautious),
        "solo: of its shape"
    );
    assert_eq!(
        forecast(refused("SELECT n FROM t", true), cautious),
        "share, with identical reads; pipeline, once it is known to be short"
    );
}

/// Forecasts for calls with a hint or a declaration, and for a declared function that one call cannot replace.
#[test]
fn a_forecast_of_a_call_names_what_prevents_a_group() {
    let on = Policy {
        hotspot: true,
        for_autocommit: false,
        lock_type: true,
        pipeline: false,
    };
    let off = Policy {
        hotspot: false,
        ..on
    };
    let call = |hints: &str, taints, declared| {
        let (mut analysis, request) = refused(&format!("SELECT {hints} f(1)"), false);
        (analysis.may_change_session, analysis.declared) = (Some(taints), declared);
        (analysis, request)
    };
    let forecast = |case, policy| forecast_of(&case, policy).to_string();
    let chain = "chain, once it is known to be short";
    assert_eq!(forecast(call("", true, true), on), chain);
    assert_eq!(
        forecast(call("", true, true), off),
        "solo: its declaration does not count: hotspot is off"
    );
    assert_eq!(forecast(call(HINTS[1], true, false), on), chain);
    assert_eq!(
        forecast(call(HINTS[1], true, false), off),
        "solo: its hint does not count: hotspot is off"
    );
    assert_eq!(
        forecast(call(HINTS[2], true, true), on),
        "solo: whether TARGET_AFFECT_ROW is met is known only after it ran"
    );
    let not_plain = format!("solo: {NOT_PLAIN}");
    assert_eq!(forecast(call("", true, false), on), not_plain);
    let (_, request) = call("", true, false);
    let cannot = (
        TemplateAnalysis::refused("its limit is no integer"),
        request,
    );
    assert_eq!(forecast(cannot, on), "solo: its limit is no integer");
}

#[test]
fn a_forecast_says_that_a_declaration_does_not_count() {
    let off = Policy {
        hotspot: false,
        for_autocommit: false,
        lock_type: true,
        pipeline: true,
    };
    let forecast = |hints: &str| {
        let (mut analysis, request) = folding(hints);
        analysis.declared = true;
        forecast_of(&(analysis, request), off).to_string()
    };
    assert_eq!(
        forecast(""),
        "solo: its declaration does not count: hotspot is off"
    );
    assert_eq!(
        forecast(HINTS[1]),
        "solo: its hint does not count: hotspot is off"
    );
}

#[test]
fn every_reason_is_documented() {
    let page = include_str!("../../../../docs/groups.md");
    let reasons = [
        NO_HINT,
        CAPTURED,
        DENIED,
        HOTSPOT_OFF,
        DECLARED_OFF,
        CHAINS_ONLY,
        PIPELINE_OFF,
        NOT_PLAIN,
        TARGET,
        NOT_SHORT,
        TOO_LONG,
        SHARE_ONLY,
    ];
    for reason in reasons {
        assert!(page.contains(&format!("\n| {reason} |")), "{reason}");
    }
}
