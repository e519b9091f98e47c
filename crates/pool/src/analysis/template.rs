//! The analysis of one template.

use super::catalog::{ask_session, first, read_timeouts};
use super::declared::{DeclaredCalls, ask_declared, takes_many};
use super::describe::VALUES_OF_ROWS;
use super::named_tables::NamedTables;
use super::plan::ask_plan;
use super::reasons::{ESCAPES, MOMENT, NOT_DESCRIBED, READ_OTHERWISE};
use super::silence::ask_silence;
use crate::server::{ServerConn, ServerError};
use paceline_batch::analysis::TemplateAnalysis;
use paceline_batch::explain::NOT_PLAIN;
use paceline_batch::line::ClientTimeouts;
use paceline_batch::strategy::GroupPlan;
use paceline_config::{Declared, Role};
use paceline_relay::settings::SessionSettings;
use paceline_relay::template::{Template, Templates};
use paceline_sql::facts::{PINNED_FORMS_SQL, session};
use paceline_sql::{Effect, Name, SequenceUse, Statement, facts};
use std::sync::Arc;

/// Settings during the analysis. The questions take locks on the table, so their wait is limited: no client waits for another
/// session because of a question. Compiling the questions by JIT would take many times longer than running them.
/// [`ANALYSIS_SETTINGS`](paceline_relay::server::ANALYSIS_SETTINGS) names these settings.
const LIMITS_SQL: &str = "SET lock_timeout = '50ms'; SET jit = off";

/// Asks PostgreSQL about the statement of a template.
///
/// # Errors
/// The connection failed, or PostgreSQL rejects the statement or a question about it.
pub async fn analyze(
    conn: &mut ServerConn,
    template: &Template,
    statement: &Statement,
    settings: &Arc<SessionSettings>,
    templates: &Templates,
    declared: &[Declared],
) -> Result<TemplateAnalysis, ServerError> {
    conn.adopt(settings).await?;
    // The next user of the connection resets them.
    conn.side.analysis_settings_set = true;
    let answers = conn
        .query(&format!("{}; {LIMITS_SQL}", facts::TIMEOUTS_SQL))
        .await?;
    let session = ask_session(conn).await?;
    let mut analysis = match session::searches_pg_catalog_first(&session) {
        _ if !conn.side.tokenizes_alike(&template.text) => {
            TemplateAnalysis::refused(READ_OTHERWISE)
        }
        false => TemplateAnalysis::refused(session::OTHER_PATH),
        true => {
            let unsupported = session::unsupported(&session);
            ask(conn, template, statement, unsupported, templates, declared).await?
        }
    };
    analysis.timeouts = read_timeouts(answers.first());
    Ok(analysis)
}

async fn ask(
    conn: &mut ServerConn,
    template: &Template,
    statement: &Statement,
    unsupported: Option<String>,
    templates: &Templates,
    declared: &[Declared],
) -> Result<TemplateAnalysis, ServerError> {
    let called = ask_declared(conn, &statement.functions, declared).await?;
    let called = DeclaredCalls::of(called, &statement.functions);
    let (functions, operators) = (&statement.functions, &statement.operators);
    let fields = facts::FieldNames::of(statement);
    let may_be_called = [functions.as_slice(), &statement.fields].concat();
    let questions = [
        facts::foreign_functions_sql(functions, fields),
        facts::harmless_sql(functions, operators, &[], &[]),
        facts::harmless_sql(functions, operators, &[], &VALUES_OF_ROWS),
        facts::plain_types_sql(&statement.casts_to),
        facts::no_hidden_calls_sql(fields),
        facts::plain_tables_sql(&statement.relations),
        facts::quiet_tables_sql(&statement.relations),
        facts::no_numbers_read_sql(&statement.relations, &may_be_called),
        facts::harmless_sql(&called.others, operators, &[], &[]),
        facts::same_on_replicas_sql(&statement.relations, &called.others),
    ];
    let named = facts::named_tables_sql(&statement.relations);
    let answers = conn
        .query(&format!(
            "{PINNED_FORMS_SQL}; {named}; {}",
            questions.join("; ")
        ))
        .await?;
    let [_, named, answers @ ..] = answers.as_slice() else {
        return Ok(TemplateAnalysis::refused(NOT_DESCRIBED));
    };
    let named = NamedTables::read(named);
    let yes: Vec<bool> = answers
        .iter()
        .map(|rows| first(rows) == Some("t"))
        .collect();
    let &[
        may_change_session,
        harmless,
        values,
        types,
        fields,
        tables,
        quiet,
        unread,
        others_harmless,
        same_on_replicas,
    ] = yes.as_slice()
    else {
        return Ok(TemplateAnalysis::refused(NOT_DESCRIBED));
    };
    let plain = harmless && types && fields && tables;
    let sequences = match statement.effect {
        Effect::Read if plain => SequenceUse::NONE,
        Effect::Write if values && types && fields && quiet => SequenceUse::DRAWS,
        _ => SequenceUse::ANY,
    };
    let parsed_alone = why_parsed_alone(statement);
    let (plan, chain_facts) = match parsed_alone.map(str::to_owned).or(unsupported) {
        Some(why) => (Err(why.clone()), Err(why)),
        None => {
            let names: Vec<Name> = called
                .grouped
                .iter()
                .map(|(name, _)| name.clone())
                .collect();
            (
                ask_plan(conn, template, statement, &called.grouped, templates).await?,
                ask_silence(conn, statement, &names, declared, templates).await?,
            )
        }
    };
    let same = parsed_alone.is_none() && !statement.samples;
    let read = statement.effect == Effect::Read && same;
    let plain_read = match &plan {
        _ if read && plain => Ok(()),
        // This reason is more specific.
        Err(why) if takes_many(&called.grouped) || parsed_alone.is_some() => Err(why.clone()),
        _ => Err(NOT_PLAIN.to_owned()),
    };
    let plain_on_replicas = others_harmless && types && fields && tables && same_on_replicas;
    Ok(TemplateAnalysis {
        declared: is_asked(&called.grouped, &plan),
        plan,
        chain_facts,
        plain_read,
        reads_on_replicas: read && plain_on_replicas && !called.needs_primary,
        reads_on_subscribers: false,
        portable_table: None,
        may_change_session: Some(may_change_session),
        timeouts: ClientTimeouts::default(),
        sequences,
        reads_numbers: !unread,
        permission: named.permission(),
        tables: named.names,
    })
}

/// The reason why the meaning of a text depends on the session or the time in which it is parsed.
pub fn why_parsed_alone(statement: &Statement) -> Option<&'static str> {
    match (statement.has_escapes, statement.depends_on_parse_time) {
        (true, _) => Some(ESCAPES),
        (false, true) => Some(MOMENT),
        (false, false) => None,
    }
}

/// Whether a declared function asks for groups, as a hint does. A queue function does so only if its calls can be combined.
fn is_asked(declared: &[(Name, Role)], plan: &Result<Arc<dyn GroupPlan>, String>) -> bool {
    let asks = |role: Role| role.limit().is_none() || plan.is_ok();
    declared.iter().any(|(_, role)| asks(*role))
}
