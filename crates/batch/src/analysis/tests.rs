//! Decisions by the analysis of a template and by the policy of the user.

use super::{GroupingDecision, Permission, Policy, TemplateAnalysis, changes_session};
use crate::line::{ClientTimeouts, LineKeys};
use crate::strategy::Strategy;
use crate::testing::fold_statement::{FoldStatement, INT4, INT8, TEXT, chain_facts, single, table};
use crate::testing::planned_statement::PlannedStatement;
use paceline_relay::parsed::ClientParse;
use paceline_relay::session::ClientSession;
use paceline_relay::settings::SettingsInterner;
use paceline_relay::template::Templates;
use paceline_testing::messages::client::query;
use std::time::Duration;

const ALLOWED: Policy = Policy {
    hotspot: true,
    for_autocommit: false,
    lock_type: true,
    pipeline: true,
};

/// The analysis of a text for which the catalog permits no group.
fn analysis() -> TemplateAnalysis {
    TemplateAnalysis {
        plan: Err("no shape".to_owned()),
        chain_facts: Ok(chain_facts(&Templates::default())),
        plain_read: Err("not plain".to_owned()),
        reads_on_replicas: false,
        reads_on_subscribers: false,
        portable_table: None,
        may_change_session: Some(false),
        sequences: paceline_sql::SequenceUse::ANY,
        reads_numbers: false,
        declared: false,
        timeouts: ClientTimeouts::default(),
        tables: Vec::new(),
        permission: Permission::Default,
    }
}

/// The decision for a text that is known to be short.
fn decide(text: &str, analysis: &TemplateAnalysis, policy: Policy) -> GroupingDecision {
    let (templates, none) = (Templates::default(), SettingsInterner::default().none());
    let mut request = single(&mut ClientSession::new(none), &templates, query(text));
    (0..3).for_each(|_| request.template.pace.record(100, 100));
    analysis.decide(&mut request, policy)
}

fn strategy(decision: &GroupingDecision) -> Option<Strategy> {
    decision.spec.group.map(|group| group.strategy)
}

/// The chain would not respect the shorter limit.
#[test]
fn a_shorter_statement_timeout_keeps_a_write_out_of_chains() {
    for (limit, group) in [(199, None), (200, Some(Strategy::Chain))] {
        let limited = TemplateAnalysis {
            timeouts: ClientTimeouts {
                statement: Some(Duration::from_millis(limit)),
                ..ClientTimeouts::default()
            },
            ..analysis()
        };
        let text = "INSERT /*+ COMMIT_ON_SUCCESS */ INTO t VALUES (1)";
        let decision = decide(text, &limited, ALLOWED);
        assert_eq!(strategy(&decision), group, "{limit} ms");
    }
}

#[test]
fn hinted_writes_join_chains_as_barriers() {
    let known = analysis();
    let hinted = decide(
        "INSERT /*+ COMMIT_ON_SUCCESS */ INTO t VALUES (1)",
        &known,
        ALLOWED,
    );
    assert_eq!(strategy(&hinted), Some(Strategy::Chain));
    assert!(hinted.spec.barrier && hinted.spec.table.is_some());
    let bare = decide("INSERT INTO t VALUES (1)", &known, ALLOWED);
    assert_eq!((strategy(&bare), bare.spec.barrier), (None, true));
    let noisy = TemplateAnalysis {
        chain_facts: Err("triggers".to_owned()),
        ..analysis()
    };
    let alone = decide(
        "INSERT /*+ COMMIT_ON_SUCCESS */ INTO t VALUES (1)",
        &noisy,
        ALLOWED,
    );
    assert_eq!((strategy(&alone), alone.spec.barrier), (None, true));
    let hotspot = Policy {
        hotspot: false,
        ..ALLOWED
    };
    let off = decide(
        "INSERT /*+ COMMIT_ON_SUCCESS */ INTO t VALUES (1)",
        &known,
        hotspot,
    );
    assert_eq!(strategy(&off), None);
}

#[test]
fn a_select_is_a_write_if_its_functions_may_write_and_it_is_hinted() {
    let plain = TemplateAnalysis {
        plain_read: Ok(()),
        ..analysis()
    };
    let writes = TemplateAnalysis {
        may_change_session: Some(true),
        ..analysis()
    };
    let hinted = "SELECT /*+ COMMIT_ON_SUCCESS */ f(1)";
    assert_eq!(
        strategy(&decide(hinted, &plain, ALLOWED)),
        Some(Strategy::Pipeline)
    );
    let chained = decide(hinted, &writes, ALLOWED);
    assert_eq!(strategy(&chained), Some(Strategy::Chain));
    assert!(chained.spec.barrier && chained.spec.table.is_none());
    let bare = decide("SELECT f(1)", &writes, ALLOWED);
    assert_eq!(bare, GroupingDecision::default());
}

#[test]
fn without_an_analysis_only_calls_may_change_the_session() {
    let may_change = |text: &str, analysis: &TemplateAnalysis| {
        let template = Templates::default().prepared(text, &[0, 0]);
        changes_session(analysis.may_change_session, &template)
    };
    let refused = TemplateAnalysis::refused("a path without pg_catalog");
    let calls = TemplateAnalysis {
        may_change_session: Some(true),
        ..analysis()
    };
    for (text, unknown, known) in [
        ("SELECT t.a FROM t WHERE t.id = 1", false, true),
        ("SELECT a FROM t", false, false),
        ("SELECT f(1)", true, true),
        ("SELECT (1).f", true, true),
    ] {
        assert_eq!(may_change(text, &refused), unknown, "{text}");
        assert_eq!(may_change(text, &calls), known, "{text}");
        assert!(!may_change(text, &analysis()), "{text}");
    }
}

#[test]
fn declared_functions_need_no_hint() {
    let declared = TemplateAnalysis {
        declared: true,
        ..analysis()
    };
    let chained = decide("SELECT f(1) FROM t", &declared, ALLOWED);
    assert_eq!(strategy(&chained), Some(Strategy::Chain));
    assert!(chained.spec.barrier && chained.spec.table.is_none());
    let off = Policy {
        hotspot: false,
        for_autocommit: true,
        ..ALLOWED
    };
    assert_eq!(
        decide("SELECT f(1)", &declared, off),
        GroupingDecision::default()
    );
}

/// If only chains are permitted, requests that take from a queue do not wait for each other.
#[test]
fn takes_without_a_common_statement_wait_for_no_queue() {
    for hint in ["", "/*+ COMMIT_ON_SUCCESS */"] {
        let text = format!(
            "DELETE {hint} FROM t WHERE id = (SELECT id FROM t WHERE lane = $1 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)"
        );
        let queue = table(&[("id", INT8), ("lane", INT4)], &["id"]);
        let mut pops = PlannedStatement::taking(&text, &queue, &[INT4], Vec::new());
        let mut request = pops.texts(&["7"]);
        (0..3).for_each(|_| request.template.pace.record(100, 100));
        let known = TemplateAnalysis {
            plan: Ok(pops.plan.clone()),
            ..analysis()
        };
        let policy = Policy {
            for_autocommit: true,
            ..ALLOWED
        };
        let taken = known.decide(&mut request, policy);
        assert_eq!(strategy(&taken), Some(Strategy::Take));
        assert!(taken.spec.keys != LineKeys::Unknown && request.plan.take().is_some());
        let chains_only = Policy {
            lock_type: false,
            ..policy
        };
        let chained = known.decide(&mut request, chains_only);
        let chain = (!hint.is_empty()).then_some(Strategy::Chain);
        assert_eq!(
            (strategy(&chained), &chained.spec.keys),
            (chain, &LineKeys::Unknown)
        );
        assert!(chained.spec.barrier && request.plan.is_none());
    }
}

/// A group's statement would read the constants under the settings of the request.
#[test]
fn a_write_with_constants_that_was_parsed_under_other_settings_joins_no_fold() {
    let accounts = table(&[("id", INT4), ("note", TEXT)], &["id"]);
    for (text, written, group) in [
        ("UPDATE t SET note = 'x' WHERE id = $1", 5, None),
        (
            "UPDATE t SET note = 'x' WHERE id = $1",
            0,
            Some(Strategy::Fold),
        ),
        (
            "UPDATE t SET note = note WHERE id = $1",
            5,
            Some(Strategy::Fold),
        ),
    ] {
        let mut updates = FoldStatement::prepared(text, &accounts, &[INT4], Vec::new());
        let mut request = updates.texts(&["7"]);
        request.client_parse = Some(ClientParse::begun(written, 1));
        let known = TemplateAnalysis {
            plan: Ok(updates.plan.clone()),
            ..analysis()
        };
        let policy = Policy {
            for_autocommit: true,
            ..ALLOWED
        };
        let decision = known.decide(&mut request, policy);
        assert_eq!(strategy(&decision), group, "{text}");
        assert_eq!(decision.spec.barrier, group.is_none(), "{text}");
    }
}

/// PostgreSQL ends the connection of a transaction that takes too long, which would affect the other members.
#[test]
fn no_write_joins_a_group_under_a_transaction_timeout() {
    let hinted = "INSERT /*+ COMMIT_ON_SUCCESS */ INTO t VALUES (1)";
    let mut known = analysis();
    known.timeouts.transaction = Some(Duration::from_secs(1));
    let limited = decide(hinted, &known, ALLOWED);
    assert_eq!((strategy(&limited), limited.spec.barrier), (None, true));
    known.timeouts.transaction = None;
    let unlimited = decide(hinted, &known, ALLOWED);
    assert_eq!(strategy(&unlimited), Some(Strategy::Chain));
}

/// Such a call would share a transaction with others if grouping were not denied.
#[test]
fn a_denied_call_of_a_declared_function_is_a_barrier() {
    let analysis = TemplateAnalysis {
        permission: Permission::Denied,
        declared: true,
        ..analysis()
    };
    let decision = decide("SELECT f(1)", &analysis, ALLOWED);
    assert_eq!((strategy(&decision), decision.spec.barrier), (None, true));
}

/// Requests on a table keep their order, whether or not they may join groups.
#[test]
fn a_write_that_may_not_join_groups_is_a_barrier() {
    let text = "INSERT INTO t VALUES (1)";
    for permission in [Permission::Hinted, Permission::Denied] {
        let analysis = TemplateAnalysis {
            permission,
            ..analysis()
        };
        let decision = decide(text, &analysis, ALLOWED);
        assert_eq!((strategy(&decision), decision.spec.barrier), (None, true));
    }
    // An operator may have allowed the groups of another template.
    let off = Policy {
        hotspot: false,
        for_autocommit: false,
        ..ALLOWED
    };
    assert!(decide(text, &analysis(), off).spec.barrier);
}

/// A replica executes each read of a table for which grouping is denied (`strategy/pipeline/tests.rs`); long ones run on the primary.
#[test]
fn reads_that_may_not_join_groups_share_no_answer_on_replicas() {
    let (templates, none) = (Templates::default(), SettingsInterner::default().none());
    let text = query("SELECT n FROM t WHERE id = 1");
    let request = single(&mut ClientSession::new(none), &templates, text);
    let group = |permission| {
        let analysis = TemplateAnalysis {
            permission,
            reads_on_replicas: true,
            ..analysis()
        };
        let group = analysis.group_on_replica(&request);
        group.map(|group| group.strategy)
    };
    assert_eq!(group(Permission::Default), Some(Strategy::Share));
    assert_eq!(group(Permission::Denied), None);
    (0..3).for_each(|_| request.template.pace.record(100, 100));
    assert_eq!(group(Permission::Denied), Some(Strategy::Pipeline));
}
