//! Statements that take from a queue, upserts, and their requests, as after a catalog analysis.

use super::fold_statement::{Type, single, type_name};
use crate::strategy::GroupPlan;
use crate::strategy::PlannedRequest;
use crate::strategy::distribute::DistributePlan;
use crate::strategy::multi_row::MultiRowPlan;
use crate::strategy::upsert::UpsertPlan;
use paceline_relay::session::ClientSession;
use paceline_relay::settings::SettingsInterner;
use paceline_relay::template::{Template, Templates};
use paceline_sql::TypeName;
use paceline_sql::distribution::Distribution;
use paceline_sql::function::FunctionFacts;
use paceline_sql::merge::upsert;
use paceline_sql::{Statement, TableFacts, call, take};
use paceline_testing::messages::client::{bind_values, describe_portal, execute, parse, sync};
use paceline_wire::backend::Field;
use std::sync::Arc;

/// A session and a statement that it prepares.
pub(crate) struct PlannedStatement {
    templates: Templates,
    session: ClientSession,
    pub(crate) plan: Arc<dyn GroupPlan>,
    text: String,
}

/// PostgreSQL's description of a statement.
struct DescribedStatement<'a> {
    templates: &'a Templates,
    template: &'a Template,
    statement: &'a Statement,
    types: Vec<TypeName>,
    oids: Vec<u32>,
    returning: Vec<TypeName>,
    fields: Vec<Field>,
}

impl DescribedStatement<'_> {
    fn distribution(self, distribution: Distribution) -> Arc<dyn GroupPlan> {
        let (oids, fields) = (self.oids, self.fields);
        let plan = DistributePlan::new(self.template, distribution, oids, fields, self.templates);
        Arc::new(plan.expect("few parameters and columns"))
    }
}

impl PlannedStatement {
    /// A statement that takes from a queue.
    pub(crate) fn taking(
        text: &str,
        queue: &TableFacts,
        parameters: &[Type],
        fields: Vec<Field>,
    ) -> Self {
        Self::new(text, parameters, fields, |d| {
            let take = d.statement.take.as_ref().expect("a consumer's statement");
            let taking = take::rewrite(take, queue, None, &d.types, &d.returning);
            let taking = taking.expect("these members share a group");
            d.distribution(taking)
        })
    }

    /// A call of a function that returns these columns.
    pub(crate) fn calling(
        text: &str,
        function: &FunctionFacts,
        columns: &[&str],
        parameters: &[Type],
        fields: Vec<Field>,
    ) -> Self {
        let columns: Vec<_> = columns.iter().map(|name| (*name).to_owned()).collect();
        Self::new(text, parameters, fields, |d| {
            let call = d.statement.call.as_ref().expect("a call");
            let distribution = call::rewrite(call, function, &columns, &d.types, &d.returning);
            d.distribution(distribution.expect("these members share a group"))
        })
    }

    /// An INSERT of several rows with ON CONFLICT.
    pub(crate) fn upserting_multi_row(
        text: &str,
        table: &TableFacts,
        parameters: &[Type],
        fields: Vec<Field>,
    ) -> Self {
        Self::new(text, parameters, fields, |d| {
            let insert = d.statement.insert.as_ref().expect("an INSERT");
            let change = upsert::on_conflict(insert, table, &d.types).expect("the statement folds");
            let change = change.as_ref();
            let multi_row =
                upsert::rewrite_multi_row(insert, change, table, &d.types, &d.returning);
            let multi_row = multi_row.expect("these members share a group");
            let plan =
                MultiRowPlan::new(d.template, multi_row, table, d.oids, d.fields, d.templates);
            Arc::new(plan.expect("few parameters and columns"))
        })
    }

    /// An INSERT of one row with ON CONFLICT.
    pub(crate) fn upserting(
        text: &str,
        table: &TableFacts,
        parameters: &[Type],
        fields: Vec<Field>,
    ) -> Self {
        Self::new(text, parameters, fields, |d| {
            let insert = d.statement.insert.as_ref().expect("an INSERT");
            let change = upsert::on_conflict(insert, table, &d.types).expect("the statement folds");
            let upsert = upsert::rewrite(insert, change.as_ref(), table, &d.types, &d.returning);
            let upsert = upsert.expect("these members share a group");
            let plan = UpsertPlan::new(d.template, upsert, table, d.oids, d.fields, d.templates);
            Arc::new(plan.expect("few parameters and columns"))
        })
    }

    fn new(
        text: &str,
        parameters: &[Type],
        fields: Vec<Field>,
        plan: impl FnOnce(DescribedStatement<'_>) -> Arc<dyn GroupPlan>,
    ) -> Self {
        let templates = Templates::default();
        let template = templates.prepared(text, &[0, 0]);
        let plan = plan(DescribedStatement {
            templates: &templates,
            template: &template,
            statement: template.statement.as_ref().expect("the text parses"),
            types: parameters.iter().map(|t| type_name(t.0)).collect(),
            oids: parameters.iter().map(|t| t.1).collect(),
            returning: fields.iter().map(|_| type_name("text")).collect(),
            fields,
        });
        Self {
            templates,
            session: ClientSession::new(SettingsInterner::default().none()),
            plan,
            text: text.to_owned(),
        }
    }

    /// `Parse Bind Describe Execute Sync` with these values: whether binary, and the bytes.
    pub(crate) fn bound(&mut self, values: &[(bool, Option<&[u8]>)]) -> PlannedRequest {
        let messages = [
            parse("", &self.text),
            bind_values("", values, &[]),
            describe_portal(),
            execute(),
            sync(),
        ];
        let mut request = single(&mut self.session, &self.templates, messages.concat());
        request.plan = Some(self.plan.clone());
        request
    }

    /// [`PlannedStatement::bound`] with all values in text format.
    pub(crate) fn texts(&mut self, values: &[&str]) -> PlannedRequest {
        let values: Vec<_> = values.iter().map(|v| (false, Some(v.as_bytes()))).collect();
        self.bound(&values)
    }
}
