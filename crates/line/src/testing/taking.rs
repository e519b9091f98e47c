//! A queue and a statement of its consumers, as if PostgreSQL's catalog had been asked about them, and units of them.

use super::folding::{Type, single, type_name};
use super::messages::client::{bind_values, describe_portal, execute, parse, sync};
use crate::session::Session;
use crate::settings::SettingsBook;
use crate::strategy::GroupPlan;
use crate::strategy::dealing::DealPlan;
use crate::template::Templates;
use crate::unit::Unit;
use paceline_sql::dealing::{Dealing, TypeName};
use paceline_sql::function::FunctionFacts;
use paceline_sql::{Statement, TableFacts, call, take};
use paceline_wire::backend::Field;
use std::sync::Arc;

/// A session and a statement of a consumer.
pub(crate) struct Taking {
    templates: Templates,
    session: Session,
    pub(crate) plan: Arc<DealPlan>,
    text: String,
}

impl Taking {
    /// A statement that consumers prepare.
    pub(crate) fn prepared(
        text: &str,
        queue: &TableFacts,
        parameters: &[Type],
        fields: Vec<Field>,
    ) -> Self {
        Self::new(text, parameters, fields, |statement, types, returning| {
            let take = statement.take.as_ref().expect("a consumer's statement");
            take::rewrite(take, queue, None, types, returning).expect("it travels")
        })
    }

    /// A call that consumers prepare of a function with rows of these columns.
    pub(crate) fn calling(
        text: &str,
        function: &FunctionFacts,
        columns: &[&str],
        parameters: &[Type],
        fields: Vec<Field>,
    ) -> Self {
        let columns: Vec<_> = columns.iter().map(|name| (*name).to_owned()).collect();
        Self::new(text, parameters, fields, |statement, types, returning| {
            let call = statement.call.as_ref().expect("a call");
            call::rewrite(call, function, &columns, types, returning).expect("it travels")
        })
    }

    fn new(
        text: &str,
        parameters: &[Type],
        fields: Vec<Field>,
        rewrite: impl FnOnce(&Statement, &[TypeName], &[TypeName]) -> Dealing,
    ) -> Self {
        let templates = Templates::default();
        let template = templates.prepared(text, &[0, 0]);
        let statement = template.statement.as_ref().expect("the text parses");
        let types: Vec<_> = parameters.iter().map(|t| type_name(t.0)).collect();
        let returning: Vec<_> = fields.iter().map(|_| type_name("text")).collect();
        let dealing = rewrite(statement, &types, &returning);
        let oids = parameters.iter().map(|t| t.1).collect();
        let prints = vec!["(16400,{7})".to_owned()];
        let plan = DealPlan::new(&template, dealing, prints, oids, fields, &templates);
        Self {
            plan: Arc::new(plan.expect("few parameters and columns")),
            templates,
            session: Session::new(SettingsBook::default().none()),
            text: text.to_owned(),
        }
    }

    /// `Parse Bind Describe Execute Sync` with these values: binary?, bytes.
    pub(crate) fn bound(&mut self, values: &[(bool, Option<&[u8]>)]) -> Unit {
        let messages = [
            parse("", &self.text),
            bind_values("", values, &[]),
            describe_portal(),
            execute(),
            sync(),
        ];
        let mut unit = single(&mut self.session, &self.templates, messages.concat());
        unit.plan = Some(GroupPlan::Deal(Arc::clone(&self.plan)));
        unit
    }

    /// The same, all in text.
    pub(crate) fn texts(&mut self, values: &[&str]) -> Unit {
        let values: Vec<_> = values.iter().map(|v| (false, Some(v.as_bytes()))).collect();
        self.bound(&values)
    }
}
