//! A queue and a statement of its consumers, as if PostgreSQL's catalog had been asked about them, and units of them.

use super::folding::{Type, single, type_name};
use super::messages::client::{bind_values, describe_portal, execute, parse, sync};
use crate::session::Session;
use crate::settings::SettingsBook;
use crate::strategy::GroupPlan;
use crate::strategy::dealing::DealPlan;
use crate::template::Templates;
use crate::unit::Unit;
use paceline_sql::TableFacts;
use paceline_sql::take::rewrite;
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
        let templates = Templates::default();
        let template = templates.prepared(text, &[0, 0]);
        let statement = template.statement.as_ref().expect("the text parses");
        let take = statement.take.as_ref().expect("a consumer's statement");
        let types: Vec<_> = parameters.iter().map(|t| type_name(t.0)).collect();
        let returning: Vec<_> = fields.iter().map(|_| type_name("text")).collect();
        let taking = rewrite(take, queue, None, &types, &returning).expect("it travels");
        let oids = parameters.iter().map(|t| t.1).collect();
        let tables = std::slice::from_ref(queue);
        let plan = DealPlan::new(&template, taking, tables, oids, fields, &templates);
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
