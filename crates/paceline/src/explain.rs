//! `paceline explain "SQL"`: how Paceline would treat a statement, and why. It analyzes the statement as a pool does: PostgreSQL
//! describes the statement and never runs it.

mod answer;
mod shape;
mod shards;
#[cfg(test)]
mod tests;

use crate::cli::Explain;
use crate::server_address::server_address;
use anyhow::{anyhow, bail};
use paceline_batch::analysis::TemplateAnalysis;
use paceline_batch::policy::Policy;
use paceline_config::Shards;
use paceline_pool::address::Address;
use paceline_pool::analysis;
use paceline_pool::credentials::ServerCredentials;
use paceline_pool::server::ServerConn;
use paceline_relay::settings::SettingsInterner;
use paceline_relay::template::{Simple, Templates, without_bare_hints};
use paceline_sql::{Effect, Statement};
use std::sync::Arc;

/// Explains a statement in several lines.
///
/// # Errors
/// The text is not SQL, or the server cannot be reached or rejects the statement.
pub(crate) async fn explain(arguments: &Explain) -> anyhow::Result<String> {
    let templates = Templates::default();
    let plain = without_bare_hints(&arguments.sql);
    let simple = templates.simple(&plain);
    let Some(statement) = &simple.template.statement else {
        let why = paceline_sql::parse(&plain).err();
        bail!(
            "{}; Paceline relays such a text unchanged",
            why.map_or("not parsed".to_owned(), |why| why.to_string())
        );
    };
    if let Some(why) = why_lease(statement) {
        return Ok(answer::lease(&simple, &why));
    }
    let settings = &arguments.settings;
    let policy = Policy {
        hotspot: settings.grouping.hotspot,
        for_autocommit: settings.grouping.hotspot_for_autocommit,
        lock_type: settings.grouping.hotspot_lock_type,
        pipeline: settings.grouping.pipeline,
    };
    let Some(upstream) = &arguments.upstream else {
        let summary = shape::summary(statement, &arguments.declared);
        let place = shards::of_text(&simple.template, settings.servers.shards);
        return Ok(answer::of_shape(&simple, summary, policy, place));
    };
    let address = Arc::new(server_address(upstream, settings)?);
    let (analysis, place) = analyze(&address, arguments, &simple, statement, &templates).await?;
    let server = format!("{upstream} as {}", address.user);
    Ok(answer::of_analysis(
        &simple,
        &analysis,
        policy,
        place,
        &server,
        arguments.verbose,
    ))
}

/// The reason why a text is relayed (`lease`); `None` if it may be grouped.
fn why_lease(statement: &Statement) -> Option<String> {
    let why = match (&statement.effect, statement.statements) {
        (Effect::Session(_), _) => "it may change the session".to_owned(),
        (_, 0) => "it is empty".to_owned(),
        (Effect::Read | Effect::Write, 1) => return None,
        (_, 1) => "it is neither a read nor a write of tables".to_owned(),
        (_, many) => format!("it holds {many} statements"),
    };
    Some(why)
}

async fn analyze(
    address: &Arc<Address>,
    arguments: &Explain,
    simple: &Simple,
    statement: &Statement,
    templates: &Templates,
) -> anyhow::Result<(TemplateAnalysis, Option<String>)> {
    let template = &*simple.template;
    let (settings, declared) = (&arguments.settings, &arguments.declared);
    let none = SettingsInterner::default().none();
    let limit = settings.timeouts.server_connect_timeout;
    let prepared_max = settings.state.max_prepared_statements;
    let credentials = ServerCredentials::by_password(address.upstream.password.as_ref());
    let opened = ServerConn::open_within(
        limit,
        address,
        &credentials,
        Arc::clone(&none),
        prepared_max,
    )
    .await;
    // These errors contain their sources already.
    let mut conn =
        opened.map_err(|error| anyhow!("cannot connect to {}: {error}", address.upstream))?;
    let refused = |error| anyhow!("PostgreSQL refuses the statement: {error}");
    let analysis =
        analysis::analyze(&mut conn, template, statement, &none, templates, declared).await;
    let mut analysis = analysis.map_err(refused)?;
    let place = match settings.servers.shards {
        Shards::Off => None,
        Shards::Auto => {
            let portable = analysis::portable_table(&mut conn, template, statement).await;
            analysis.portable_table = portable.map_err(refused)?;
            Some(shards::place(arguments, address, simple, &analysis, templates).await)
        }
    };
    // The analysis does not describe every statement. The coordinator cannot describe all that a shard executes.
    let described = conn.describe(&template.text, &template.types).await;
    if !place.as_ref().is_some_and(shards::Place::is_shard) {
        described.map_err(refused)?;
    }
    conn.terminate();
    Ok((analysis, place.map(|place| place.to_string())))
}
