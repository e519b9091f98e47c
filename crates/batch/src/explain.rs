//! Forecasts in words how requests of a template would leave the line, for `SHOW GROUPS` and `paceline explain`.
//! [`TemplateAnalysis::decide`] makes the decision for each request.

#[cfg(test)]
mod tests;

use crate::analysis::{TemplateAnalysis, changes_session};
use crate::policy::{Permission, Policy};
use crate::strategy::Strategy;
use crate::strategy::share::ANSWER_BYTES_MAX;
use paceline_relay::template::Template;
use paceline_sql::Effect;
use std::fmt;

/// The parts of an analysis that matter here. Without a server they are assumed from the text.
#[derive(Debug, Clone, Copy)]
pub struct AnalysisSummary<'a> {
    /// The strategy that executes its requests by one statement, or why there is none.
    pub plan: Result<Strategy, &'a str>,
    /// Whether its requests may join chains, or why not.
    pub chain_facts: Result<(), &'a str>,
    /// Whether it is a read whose requests may join pipelines and shared reads, or why not.
    pub plain_read: Result<(), &'a str>,
    /// Whether it calls functions of the user's own, which may write; `None` if it was not analyzed.
    pub may_change_session: Option<bool>,
    /// Whether it calls a function that the configuration declares.
    pub declared: bool,
    /// Whether its requests may join groups.
    pub permission: Permission,
}

impl<'a> From<&'a TemplateAnalysis> for AnalysisSummary<'a> {
    fn from(analysis: &'a TemplateAnalysis) -> Self {
        let plan = analysis.plan.as_ref();
        Self {
            plan: plan.map(|plan| plan.strategy()).map_err(String::as_str),
            chain_facts: match &analysis.chain_facts {
                Ok(_) => Ok(()),
                Err(why) => Err(why),
            },
            plain_read: match &analysis.plain_read {
                Ok(()) => Ok(()),
                Err(why) => Err(why),
            },
            may_change_session: analysis.may_change_session,
            declared: analysis.declared,
            permission: analysis.permission,
        }
    }
}

/// The way in which a request that must wait would leave the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Forecast {
    /// With others.
    Together(Strategy),
    /// With others, as soon as the template is known to be short.
    OnceShort(Strategy),
    /// Alone, for this reason.
    Alone(String),
}

const NO_HINT: &str = "it has no hint, and hotspot_for_autocommit is off";
const CAPTURED: &str =
    "it has no hint, and its table is in a publication or behind a logical replication slot";
const DENIED: &str = "an operator or the configuration denies grouping";
const HOTSPOT_OFF: &str = "its hint does not count: hotspot is off";
const DECLARED_OFF: &str = "its declaration does not count: hotspot is off";
const CHAINS_ONLY: &str = "hotspot_lock_type is off: only hinted writes share a commit";
const PIPELINE_OFF: &str = "pipeline is off";
/// The reason why a read runs alone if no other reason is known.
pub const NOT_PLAIN: &str = "it reads something else than plain tables, or calls what may be volatile or is not PostgreSQL's own";
const TARGET: &str = "whether TARGET_AFFECT_ROW is met is known only after it ran";
const SHARE: &str = "share, with identical reads; pipeline, once it is known to be short";
const SHARE_ONLY: &str = "it is not known to be short: only identical reads run with it";
const TOO_LONG: &str = "its answers are longer than 8 MiB";
const NEITHER: &str = "it is neither a read nor a write";

impl Forecast {
    /// The forecast for the requests of a template under a policy. `hinted`: they have the hint `COMMIT_ON_SUCCESS`.
    pub fn of(
        template: &Template,
        summary: AnalysisSummary<'_>,
        policy: Policy,
        hinted: bool,
    ) -> Self {
        if summary.permission == Permission::Denied {
            return Self::alone(DENIED);
        }
        let policy = summary.permission.apply(policy);
        let asked = hinted || summary.declared;
        let of_write = || Self::of_write(template, summary, policy, hinted);
        let writes = summary.declared || changes_session(summary.may_change_session, template);
        match template.effect() {
            Some(Effect::Read) if asked && policy.hotspot && writes => of_write(),
            Some(Effect::Read) => match summary.plain_read {
                Ok(()) => Self::of_plain_read(template, policy),
                Err(_) if summary.declared => Self::alone(DECLARED_OFF),
                Err(_) if asked && writes => Self::alone(HOTSPOT_OFF),
                Err(why) => Self::alone(why),
            },
            Some(Effect::Write) => of_write(),
            _ => Self::alone(NEITHER),
        }
    }

    fn of_plain_read(template: &Template, policy: Policy) -> Self {
        if !policy.pipeline {
            Self::alone(PIPELINE_OFF)
        } else if template.hints().target_affect_row.is_some() {
            Self::alone(TARGET)
        } else if template.pace.is_short() {
            Self::Together(Strategy::Pipeline)
        } else if template.pace.last_bytes() > ANSWER_BYTES_MAX {
            Self::alone(TOO_LONG)
        } else {
            Self::Together(Strategy::Share)
        }
    }

    fn of_write(
        template: &Template,
        summary: AnalysisSummary<'_>,
        policy: Policy,
        hinted: bool,
    ) -> Self {
        let target = template.hints().target_affect_row;
        let asked = hinted || summary.declared;
        let counts = asked && policy.hotspot;
        let may_chain = counts && target.is_none() && !template.is_parsed_alone();
        let or_chain = |why: &str| match (may_chain, summary.chain_facts) {
            (true, Ok(())) => Self::once_short(template, Strategy::Chain),
            (true, Err(also)) if also != why => Self::Alone(format!("{why}; no chain: {also}")),
            _ => Self::alone(why),
        };
        match summary.plan {
            // The SELECT could join a chain without `TARGET_AFFECT_ROW`.
            Err(_) if counts && target.is_some() && template.effect() == Some(&Effect::Read) => {
                Self::alone(TARGET)
            }
            Err(why) => or_chain(why),
            Ok(strategy) if !checks_target(strategy, target) => Self::alone(TARGET),
            Ok(_) if !counts && !policy.for_autocommit => match (hinted, summary.declared) {
                (true, _) => Self::alone(HOTSPOT_OFF),
                (false, true) => Self::alone(DECLARED_OFF),
                (false, false) => Self::alone(match summary.permission {
                    Permission::Hinted => CAPTURED,
                    _ => NO_HINT,
                }),
            },
            Ok(strategy) if policy.lock_type => Self::Together(strategy),
            Ok(_) => or_chain(CHAINS_ONLY),
        }
    }

    fn once_short(template: &Template, strategy: Strategy) -> Self {
        match template.pace.is_short() {
            true => Self::Together(strategy),
            false => Self::OnceShort(strategy),
        }
    }

    fn alone(why: &str) -> Self {
        Self::Alone(why.to_owned())
    }

    /// The same for readers who know no strategies, as a clause.
    pub fn in_words(&self) -> String {
        match self {
            Self::Together(strategy) | Self::OnceShort(strategy) => {
                strategy.properties().in_words.to_owned()
            }
            Self::Alone(why) => format!("each request runs alone ({why})"),
        }
    }

    /// The reason why requests that must wait leave alone. `None` if they do not.
    pub fn why_alone(self) -> Option<String> {
        match self {
            Self::Together(Strategy::Share) => Some(SHARE_ONLY.to_owned()),
            Self::Together(_) => None,
            Self::OnceShort(_) => Some(NOT_SHORT.to_owned()),
            Self::Alone(why) => Some(why),
        }
    }
}

const NOT_SHORT: &str = "it is not known to be short";

/// Whether the result of a group says of each member that it changed this number of rows.
fn checks_target(strategy: Strategy, target: Option<u64>) -> bool {
    match target {
        None => true,
        Some(rows) => rows == 1 && strategy.properties().checks_target,
    }
}

impl fmt::Display for Forecast {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Together(Strategy::Share) => out.write_str(SHARE),
            Self::Together(strategy) => out.write_str(strategy.name()),
            Self::OnceShort(strategy) => {
                write!(out, "{}, once it is known to be short", strategy.name())
            }
            Self::Alone(why) => write!(out, "solo: {why}"),
        }
    }
}
