//! Finding out about a template: the first client that meets it asks PostgreSQL, on the connection that has just
//! served it, after its answer is out.

mod catalog;
mod declared;
mod silence;

use crate::pool::{Pool, Seat};
use crate::proxy::Proxy;
use crate::server::{ServerConn, ServerError};
use catalog::{ask_names, ask_session, ask_table, ask_types, first, read_timeouts};
use declared::{ask_call, ask_declared};
use paceline_batch::analysis::TemplateAnalysis;
use paceline_batch::explain::NOT_PLAIN;
use paceline_batch::line::ClientTimeouts;
use paceline_batch::strategy::distribute::DistributePlan;
use paceline_batch::strategy::fold::FoldPlan;
use paceline_batch::strategy::multi_row::MultiRowPlan;
use paceline_batch::strategy::upsert::UpsertPlan;
use paceline_batch::strategy::{FORMATS_MAX, GroupPlan};
use paceline_config::{Declared, Role};
use paceline_relay::request::Request;
use paceline_relay::settings::Settings;
use paceline_relay::template::{Template, Templates};
use paceline_sql::facts::{Fingerprint, Names, session};
use paceline_sql::fold;
use paceline_sql::merge::upsert::{self, OnConflict, Several, Upsert};
use paceline_sql::take::{self, Take};
use paceline_sql::{
    Effect, Expr, Insert, Name, SequenceUse, Statement, TableFacts, Update, facts, merge,
};
use paceline_wire::backend::{self, Field};
use silence::ask_silence;
use std::sync::Arc;

/// While asking: a limit for waiting, as what is asked takes locks on the table, and nobody should wait for an outsider because
/// of a question; and no JIT, which takes many times longer to compile the questions than they take. These are the
/// settings that [`LIMITS`](paceline_relay::server::LIMITS) names.
const LIMITS_SQL: &str = "SET lock_timeout = '50ms'; SET jit = off";

/// A question about a template that one client has taken on. Whatever becomes of that client, others may ask again.
pub(crate) struct Question {
    pool: Arc<Pool>,
    template: Arc<Template>,
    settings: Arc<Settings>,
    answer: Option<TemplateAnalysis>,
}

impl Drop for Question {
    fn drop(&mut self) {
        self.pool
            .learn(self.template.id, self.settings.id, self.answer.take());
    }
}

impl Question {
    /// About the template of this unit, under its settings.
    pub(crate) fn new(pool: &Arc<Pool>, unit: &Request) -> Self {
        Self {
            pool: Arc::clone(pool),
            template: Arc::clone(&unit.template),
            settings: Arc::clone(&unit.settings),
            answer: None,
        }
    }

    /// Asks in the background, on the connection that has just served the template.
    pub(crate) fn ask(self, mut seat: Box<Seat>) {
        seat.free_rows();
        self.pool.asked(self.template.id, self.settings.id);
        tokio::spawn(async move {
            let mut question = self;
            let Some(conn) = seat.conn() else {
                return;
            };
            match learn(
                conn,
                &question.template,
                &question.settings,
                &question.pool.proxy,
            )
            .await
            {
                Ok(answer) => {
                    question.answer = answer;
                    seat.leave();
                }
                Err(error) => tracing::debug!(%error, "a question about a template was cut short"),
            }
        });
    }
}

/// Asks PostgreSQL about a template. `None`: it could not be asked now.
///
/// # Errors
/// The connection failed.
async fn learn(
    conn: &mut ServerConn,
    template: &Template,
    settings: &Arc<Settings>,
    proxy: &Proxy,
) -> Result<Option<TemplateAnalysis>, ServerError> {
    let Some(statement) = &template.statement else {
        return Ok(Some(TemplateAnalysis::refused(NOT_DESCRIBED)));
    };
    let (templates, config) = (&proxy.templates, Arc::clone(&proxy.config()));
    match inquire(
        conn,
        template,
        statement,
        settings,
        templates,
        &config.declared,
    )
    .await
    {
        Ok(learned) => Ok(Some(learned)),
        Err(ServerError::Refused(error)) if is_busy(&error) => Ok(None),
        // It came between DDL, or a right is missing: nothing is known, so nothing is risked.
        Err(ServerError::Refused(_)) => Ok(Some(TemplateAnalysis::refused(NOT_DESCRIBED))),
        Err(error) => Err(error),
    }
}

/// Asks PostgreSQL about a template that is this statement.
///
/// # Errors
/// The connection failed, or PostgreSQL refuses the statement or a question about it.
pub(crate) async fn inquire(
    conn: &mut ServerConn,
    template: &Template,
    statement: &Statement,
    settings: &Arc<Settings>,
    templates: &Templates,
    declared: &[Declared],
) -> Result<TemplateAnalysis, ServerError> {
    conn.adopt(settings).await?;
    // The next user of the connection resets it.
    conn.side.limited = true;
    let answers = conn
        .query(&format!("{}; {LIMITS_SQL}", facts::TIMEOUTS_SQL))
        .await?;
    let session = ask_session(conn).await?;
    let mut learned = match session::searches_pg_catalog_first(&session) {
        _ if !conn.side.reads(&template.text) => TemplateAnalysis::refused(READ_OTHERWISE),
        false => TemplateAnalysis::refused(session::OTHER_PATH),
        true => {
            let unsupported = session::unsupported(&session);
            ask(conn, template, statement, unsupported, templates, declared).await?
        }
    };
    learned.timeouts = read_timeouts(answers.first());
    Ok(learned)
}

/// Somebody holds a lock on the table, or the question was cancelled.
fn is_busy(error: &[u8]) -> bool {
    let body = error
        .get(paceline_wire::frame::HEADER_LEN..)
        .unwrap_or_default();
    matches!(backend::error_field(body, b'C'), Some("55P03" | "57014"))
}

async fn ask(
    conn: &mut ServerConn,
    template: &Template,
    statement: &Statement,
    unsupported: Option<String>,
    templates: &Templates,
    declared: &[Declared],
) -> Result<TemplateAnalysis, ServerError> {
    let vouched = declared;
    let declared = ask_declared(conn, &statement.functions, vouched).await?;
    let (functions, operators) = (&statement.functions, &statement.operators);
    let questions = [
        facts::foreign_functions_sql(functions),
        facts::harmless_sql(functions, operators, &[], &[]),
        facts::harmless_sql(functions, operators, &[], &VALUES_OF_ROWS),
        facts::plain_types_sql(&statement.casts_to),
        facts::no_hidden_calls_sql(&statement.fields),
        facts::plain_tables_sql(&statement.relations),
        facts::quiet_tables_sql(&statement.relations),
        facts::no_numbers_read_sql(&statement.relations, functions),
    ];
    let answers = conn.query(&questions.join("; ")).await?;
    let yes: Vec<bool> = answers
        .iter()
        .map(|rows| first(rows) == Some("t"))
        .collect();
    let &[
        taints,
        harmless,
        values,
        types,
        fields,
        tables,
        quiet,
        unread,
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
    let (plan, silence) = match parsed_alone.map(str::to_owned).or(unsupported) {
        Some(why) => (Err(why.clone()), Err(why)),
        None => {
            let called: Vec<Name> = declared.iter().map(|(name, _)| name.clone()).collect();
            (
                ask_plan(conn, template, statement, &declared, templates).await?,
                ask_silence(conn, statement, &called, vouched, templates).await?,
            )
        }
    };
    let same = parsed_alone.is_none() && !statement.samples;
    let read = statement.effect == Effect::Read && same;
    let plain_read = match &plan {
        _ if read && plain => Ok(()),
        // That it cannot become one call for many, or is parsed alone, says more.
        Err(why) if takes_many(&declared) || parsed_alone.is_some() => Err(why.clone()),
        _ => Err(NOT_PLAIN.to_owned()),
    };
    Ok(TemplateAnalysis {
        declared: is_asked(&declared, &plan),
        plan,
        chain_facts: silence,
        plain_read,
        may_change_session: taints,
        timeouts: ClientTimeouts::default(),
        sequences,
        reads_numbers: !unread,
    })
}

/// Why a text means what it means only where, and when, its client has it parsed.
pub(crate) fn why_parsed_alone(statement: &Statement) -> Option<&'static str> {
    match (statement.has_escapes, statement.names_moment) {
        (true, _) => Some(ESCAPES),
        (false, true) => Some(MOMENT),
        (false, false) => None,
    }
}

/// Does it call a function of which one call shall take for many?
fn takes_many(declared: &[(Name, Role)]) -> bool {
    declared.iter().any(|(_, role)| role.limit().is_some())
}

/// Do the functions that a statement calls ask for company, as a hint would? One that takes from a queue asks for calls that
/// become one call.
fn is_asked(declared: &[(Name, Role)], plan: &Result<Arc<dyn GroupPlan>, String>) -> bool {
    let asks = |role: Role| role.limit().is_none() || plan.is_ok();
    declared.iter().any(|(_, role)| asks(*role))
}

async fn ask_plan(
    conn: &mut ServerConn,
    template: &Template,
    statement: &Statement,
    declared: &[(Name, Role)],
    templates: &Templates,
) -> Result<Result<Arc<dyn GroupPlan>, String>, ServerError> {
    let fold = |plan| Arc::new(plan) as Arc<dyn GroupPlan>;
    let deal = |plan| Arc::new(plan) as Arc<dyn GroupPlan>;
    if let Some(update) = &statement.update {
        let plan = ask_fold(conn, template, update, templates).await?;
        return Ok(plan.map(fold));
    }
    if let Some(take) = &statement.take {
        let plan = ask_take(conn, template, take, templates).await?;
        return Ok(plan.map(deal));
    }
    if let Some(insert) = &statement.insert {
        return ask_insert(conn, template, insert, templates).await;
    }
    let calls = statement.call.as_ref();
    for (name, role) in declared {
        if let Some(limit) = role.limit()
            && let Some(call) = calls.filter(|call| call.function == *name)
        {
            let plan = ask_call(conn, template, call, limit, templates).await?;
            return Ok(plan.map(deal));
        }
    }
    let why = match takes_many(declared) {
        true => OTHER_CALL,
        false => NO_SHAPE,
    };
    Ok(Err(why.to_owned()))
}

async fn ask_fold(
    conn: &mut ServerConn,
    template: &Template,
    update: &Update,
    templates: &Templates,
) -> Result<Result<FoldPlan, String>, ServerError> {
    let (parameters, fields) = match describe(conn, template).await? {
        Ok(described) => described,
        Err(why) => return Ok(Err(why)),
    };
    let Some(mut table) = ask_table(conn, &update.relation).await? else {
        return Ok(Err(NO_TABLE.to_owned()));
    };
    let Some(print) = ask_update(conn, update, &[], &table).await? else {
        return Ok(Err(FOREIGN.to_owned()));
    };
    table.fingerprint = table.fingerprint.and(&print);
    let Some((parameter_names, returning_names)) = ask_types(conn, &parameters, &fields).await?
    else {
        return Ok(Err(NO_TYPE.to_owned()));
    };
    let fold = fold::rewrite(update, &table, &parameter_names, &returning_names);
    Ok(match fold {
        Err(refusal) => Err(refusal.to_string()),
        Ok(fold) => FoldPlan::new(template, fold, &table, parameters, fields, templates)
            .ok_or_else(|| TOO_MANY.to_owned()),
    })
}

pub(crate) const NO_SHAPE: &str =
    "not a single-row UPDATE or INSERT, and not a consumer of a queue";
pub(crate) const OTHER_CALL: &str =
    "it calls the declared function otherwise than by SELECT … FROM f(…) and nothing else";
const NOT_DESCRIBED: &str = "it could not be described";
const NO_TABLE: &str = "there is no such table";
const NO_TYPE: &str = "a type that is not known";
const FOREIGN: &str = "functions, operators, types, foreign keys or unique columns by which rows may depend on one another";
const ESCAPES: &str =
    "a backslash in a constant, which settings give a meaning, or in front of a quote";
const READ_OTHERWISE: &str =
    "under standard_conforming_strings and client_encoding the server may read it otherwise";
const MOMENT: &str = "a constant that means the moment in which it is parsed";
const WARNED: &str = "PostgreSQL raises a NOTICE or WARNING whenever it parses it";
const TOO_MANY: &str = "too many parameters or columns";

/// Volatile functions of PostgreSQL that may stand where a row is inserted, or one that was taken is changed or moved
/// on: each row has its own value, as it would have alone.
const VALUES_OF_ROWS: [&str; 4] = ["clock_timestamp", "gen_random_uuid", "nextval", "random"];

/// Those whose values do not tell in which order rows were met.
const VALUES_WITHOUT_ORDER: [&str; 2] = ["gen_random_uuid", "random"];

async fn ask_take(
    conn: &mut ServerConn,
    template: &Template,
    take: &Take,
    templates: &Templates,
) -> Result<Result<DistributePlan, String>, ServerError> {
    let (parameters, fields) = match describe(conn, template).await? {
        Ok(described) => described,
        Err(why) => return Ok(Err(why)),
    };
    let mut tables = Vec::new();
    let onto = take.onward.as_ref().map(|onward| &onward.relation);
    for name in [Some(&take.relation), onto].into_iter().flatten() {
        match ask_table(conn, name).await? {
            Some(table) => tables.push(table),
            None => return Ok(Err(NO_TABLE.to_owned())),
        }
    }
    let picking = harmless_sql(&take.picking(), &[take::TRY_LOCK]);
    let taking = harmless_sql(&take.taking(), &VALUES_WITHOUT_ORDER);
    let changing = harmless_sql(&take.moving(), &VALUES_OF_ROWS);
    let assigned = take.assignments.iter().flatten();
    let assigned: Vec<String> = assigned.map(|(column, _)| column.clone()).collect();
    let mut questions = vec![picking, taking, changing];
    questions.push(facts::apart_sql(&take.relation, &assigned));
    questions.push(facts::no_names_sql(&take.relation));
    let of_onto = |name| [facts::apart_sql(name, &[]), facts::no_names_sql(name)];
    questions.extend(onto.into_iter().flat_map(of_onto));
    let relations = [Some(&take.relation), onto].into_iter().flatten();
    let relations: Vec<Name> = relations.cloned().collect();
    questions.push(facts::no_numbers_read_sql(&relations, &[]));
    let exprs = take.picking().into_iter().chain(take.changing());
    let names = Names::of(exprs);
    let Some(print) = ask_names(conn, &names, &questions).await? else {
        return Ok(Err(FOREIGN.to_owned()));
    };
    if let Some(queue) = tables.first_mut() {
        queue.fingerprint = queue.fingerprint.and(&print);
    }
    let Some((parameter_names, returning_names)) = ask_types(conn, &parameters, &fields).await?
    else {
        return Ok(Err(NO_TYPE.to_owned()));
    };
    let [queue, onto @ ..] = tables.as_slice() else {
        return Ok(Err(NO_TABLE.to_owned()));
    };
    let taking = take::rewrite(
        take,
        queue,
        onto.first(),
        &parameter_names,
        &returning_names,
    );
    Ok(match taking {
        Err(refusal) => Err(refusal.to_string()),
        Ok(taking) => {
            let prints = tables.into_iter().map(|table| table.fingerprint.value);
            let prints = prints.collect();
            DistributePlan::new(template, taking, prints, parameters, fields, templates)
                .ok_or_else(|| TOO_MANY.to_owned())
        }
    })
}

async fn ask_insert(
    conn: &mut ServerConn,
    template: &Template,
    insert: &Insert,
    templates: &Templates,
) -> Result<Result<Arc<dyn GroupPlan>, String>, ServerError> {
    let (parameters, fields) = match describe(conn, template).await? {
        Ok(described) => described,
        Err(why) => return Ok(Err(why)),
    };
    let Some(mut table) = ask_table(conn, &insert.relation).await? else {
        return Ok(Err(NO_TABLE.to_owned()));
    };
    let values = insert.exprs();
    let harmless = harmless_sql(&values, &VALUES_OF_ROWS);
    // Defaults are taken after all values of the group, not each after its own.
    let numbers = values.iter().flat_map(|expr| expr.functions());
    let serial = match numbers.into_iter().any(|name| name.name == "nextval") {
        true => facts::no_serial_sql(&insert.relation, &insert.columns),
        false => "SELECT true".to_owned(),
    };
    let apart = facts::apart_sql(&insert.relation, &[]);
    let nameless = facts::no_names_sql(&insert.relation);
    let unread = facts::no_numbers_read_sql(std::slice::from_ref(&insert.relation), &[]);
    let names = Names::of(values);
    let questions = [harmless, apart, nameless, serial, unread];
    let Some(print) = ask_names(conn, &names, &questions).await? else {
        return Ok(Err(FOREIGN.to_owned()));
    };
    table.fingerprint = table.fingerprint.and(&print);
    let Some((names, returning)) = ask_types(conn, &parameters, &fields).await? else {
        return Ok(Err(NO_TYPE.to_owned()));
    };
    if insert.conflict.is_none() {
        let dealing = match merge::rewrite(insert, &table, &names, &returning) {
            Ok(dealing) => dealing,
            Err(refusal) => return Ok(Err(refusal.to_string())),
        };
        let plan = DistributePlan::new(
            template,
            dealing,
            vec![table.fingerprint.value],
            parameters,
            fields,
            templates,
        );
        let plan = plan.map(|plan| Arc::new(plan) as Arc<dyn GroupPlan>);
        return Ok(plan.ok_or_else(|| TOO_MANY.to_owned()));
    }
    let on_conflict = match upsert::on_conflict(insert, &table, &names) {
        Ok(on_conflict) => on_conflict,
        Err(refusal) => return Ok(Err(refusal.to_string())),
    };
    if let Some(OnConflict {
        update, proposed, ..
    }) = &on_conflict
    {
        let Some(print) = ask_update(conn, update, proposed, &table).await? else {
            return Ok(Err(FOREIGN.to_owned()));
        };
        table.fingerprint = table.fingerprint.and(&print);
    }
    let (change, described) = (on_conflict.as_ref(), (parameters, fields));
    let plan = match insert.rows.len() {
        1 => upsert::rewrite(insert, change, &table, &names, &returning)
            .map(|upsert| plan_upsert(template, upsert, &table, described, templates)),
        _ => upsert::rewrite_several(insert, change, &table, &names, &returning)
            .map(|several| plan_several(template, several, &table, described, templates)),
    };
    Ok(match plan {
        Ok(plan) => plan.ok_or_else(|| TOO_MANY.to_owned()),
        Err(refusal) => Err(refusal.to_string()),
    })
}

/// OIDs of a template's parameters, and RETURNING columns.
type Described = (Vec<u32>, Vec<Field>);

/// What PostgreSQL says of a template, or why there is no need to work out a plan: none takes so many columns, and what is said
/// of a text whenever it is parsed must be said to each client.
async fn describe(
    conn: &mut ServerConn,
    template: &Template,
) -> Result<Result<Described, String>, ServerError> {
    let described = conn.describe(&template.text, &template.types).await?;
    let (parameters, fields) = (described.parameters, described.fields);
    Ok(match parameters.len().max(fields.len()) {
        _ if described.warned => Err(WARNED.to_owned()),
        many if many > FORMATS_MAX => Err(TOO_MANY.to_owned()),
        _ => Ok((parameters, fields)),
    })
}

fn plan_upsert(
    template: &Template,
    upsert: Upsert,
    table: &TableFacts,
    (parameters, fields): Described,
    templates: &Templates,
) -> Option<Arc<dyn GroupPlan>> {
    let plan = UpsertPlan::new(template, upsert, table, parameters, fields, templates)?;
    Some(Arc::new(plan))
}

fn plan_several(
    template: &Template,
    several: Several,
    table: &TableFacts,
    (parameters, fields): Described,
    templates: &Templates,
) -> Option<Arc<dyn GroupPlan>> {
    let plan = MultiRowPlan::new(template, several, table, parameters, fields, templates)?;
    Some(Arc::new(plan))
}

/// Are all functions, operators, types and collations in these expressions PostgreSQL's own, and no function volatile but
/// these?
fn harmless_sql(exprs: &[&Expr], volatile: &[&str]) -> String {
    let types: Vec<_> = exprs.iter().flat_map(|e| e.casts_to()).collect();
    harmless_but_types_sql(exprs, &types, volatile)
}

/// The same, where only these types must be PostgreSQL's own.
fn harmless_but_types_sql(exprs: &[&Expr], types: &[Name], volatile: &[&str]) -> String {
    let functions: Vec<_> = exprs.iter().flat_map(|e| e.functions()).collect();
    let operators: Vec<_> = exprs.iter().flat_map(|e| e.operators()).collect();
    let collations: Vec<_> = exprs.iter().flat_map(|e| e.collations()).collect();
    let questions = [
        facts::harmless_sql(&functions, &operators, types, volatile),
        facts::fits_groups_sql(&functions, types),
        facts::plain_collations_sql(&collations),
    ];
    questions.join("; ")
}

/// What the names in the update, in what is proposed and in the table's checks mean, if all functions, operators and cast types there are
/// PostgreSQL's own, and none volatile.
async fn ask_update(
    conn: &mut ServerConn,
    update: &Update,
    proposed: &[Expr],
    table: &TableFacts,
) -> Result<Option<Fingerprint>, ServerError> {
    let checks: Vec<Expr> = table
        .checks
        .iter()
        .filter_map(|text| Expr::parse(text).ok())
        .collect();
    let returning = update.returning.iter().filter_map(|item| match item {
        paceline_sql::Returning::Expr { expr, .. } => Some(expr),
        paceline_sql::Returning::All => None,
    });
    let assigned = update.assignments.iter().map(|(_, expr)| expr);
    let exprs: Vec<&Expr> = update
        .guards
        .iter()
        .chain(assigned)
        .chain(returning)
        .chain(proposed)
        .chain(&checks)
        .collect();
    // Values that are cast to the type of their column are no more than assigned.
    let of_column = |name: &Name| {
        let full = format!(
            "{}.{}",
            name.schema.as_deref().unwrap_or_default(),
            name.name
        );
        let mut columns = table.columns.iter().filter(|column| column.builtin);
        columns.any(|column| column.type_name == name.name || column.type_name == full)
    };
    let mut types: Vec<Name> = exprs.iter().flat_map(|e| e.casts_to()).collect();
    types.retain(|name| !of_column(name));
    let harmless = harmless_but_types_sql(&exprs, &types, &[]);
    let nameless = facts::no_names_sql(&update.relation);
    ask_names(conn, &Names::of(exprs), &[harmless, nameless]).await
}
