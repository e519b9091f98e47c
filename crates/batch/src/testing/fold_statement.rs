//! Tables, statements that fold, and their requests, as after a catalog analysis.

use crate::strategy::ChainFacts;
use crate::strategy::GroupPlan;
use crate::strategy::PlannedRequest;
use crate::strategy::fold::FoldPlan;
use bytes::Bytes;
use paceline_relay::local_show::{ShowSource, ShowTable};
use paceline_relay::session::{ClientSession, RequestPlan};
use paceline_relay::settings::SettingsInterner;
use paceline_relay::template::{Template, Templates};
use paceline_sql::TypeName;
use paceline_sql::facts::Extent;
use paceline_sql::fold::rewrite;
use paceline_sql::{CatalogVersion, Column, Compared, TableFacts};
use paceline_testing::messages::client::{
    bind_values, describe_portal, execute, parse, query, sync,
};
use paceline_wire::backend::Field;
use std::sync::Arc;

/// A type by name and OID.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Type(pub(crate) &'static str, pub(crate) u32);

pub(crate) const INT4: Type = Type("integer", 23);
pub(crate) const INT8: Type = Type("bigint", 20);
pub(crate) const TEXT: Type = Type("text", 25);
pub(crate) const UUID: Type = Type("uuid", 2950);
pub(crate) const NUMERIC: Type = Type("numeric", 1700);
pub(crate) const INT4_ARRAY: Type = Type("integer[]", 1007);

/// A console with one parameter.
pub(crate) struct TestConsole;

impl ShowSource for TestConsole {
    fn variables(&self) -> Vec<(String, String)> {
        vec![("hotspot".to_owned(), "on".to_owned())]
    }

    fn status(&self) -> Vec<(String, String)> {
        vec![("Group_update_group_count".to_owned(), "7".to_owned())]
    }

    fn groups(&self) -> ShowTable {
        crate::template_stats::show_groups(
            Vec::new(),
            crate::template_stats::TemplateNaming::Text,
            0,
        )
    }
}

/// A table `public.t` with these columns and one unique key.
pub(crate) fn table(columns: &[(&str, Type)], key: &[&str]) -> TableFacts {
    let column = |(name, Type(sql, oid)): &(&str, Type)| Column {
        name: (*name).to_owned(),
        type_name: (*sql).to_owned(),
        bare_type_name: (*sql).to_owned(),
        type_oid: *oid,
        type_modifier: -1,
        base_type_oid: *oid,
        deterministic: true,
        builtin: true,
        ..Column::default()
    };
    TableFacts {
        schema: "public".to_owned(),
        name: "t".to_owned(),
        extent: Extent {
            tree: vec![16_400],
            ..Extent::default()
        },
        catalog_version: CatalogVersion {
            always: facts(),
            at_analysis: None,
        },
        columns: columns.iter().map(column).collect(),
        keys: vec![key.iter().map(|name| (*name).to_owned()).collect()],
        ..TableFacts::default()
    }
}

/// A session and a statement that folds.
pub(crate) struct FoldStatement {
    pub(crate) templates: Templates,
    pub(crate) session: ClientSession,
    pub(crate) plan: Arc<FoldPlan>,
    text: String,
}

impl FoldStatement {
    /// A statement that clients prepare.
    pub(crate) fn prepared(
        text: &str,
        table: &TableFacts,
        parameters: &[Type],
        fields: Vec<Field>,
    ) -> Self {
        let templates = Templates::default();
        let template = templates.prepared(text, &[0, 0]);
        Self::new(templates, &template, text, table, parameters, fields)
    }

    /// A statement that clients send as a simple query.
    pub(crate) fn simple(
        text: &str,
        table: &TableFacts,
        parameters: &[Type],
        fields: Vec<Field>,
    ) -> Self {
        let templates = Templates::default();
        let template = templates.simple(text).template;
        Self::new(templates, &template, text, table, parameters, fields)
    }

    fn new(
        templates: Templates,
        template: &Template,
        text: &str,
        table: &TableFacts,
        parameters: &[Type],
        fields: Vec<Field>,
    ) -> Self {
        let statement = template.statement.as_ref().expect("the text parses");
        let update = statement.update.as_ref().expect("an update that may fold");
        let types: Vec<_> = parameters.iter().map(|t| type_name(t.0)).collect();
        let returning: Vec<_> = fields.iter().map(|_| type_name("text")).collect();
        let fold = rewrite(update, table, &types, &returning).expect("the statement folds");
        let oids = parameters.iter().map(|t| t.1).collect();
        let plan = FoldPlan::new(template, fold, table, oids, fields, &templates);
        Self {
            plan: Arc::new(plan.expect("few parameters and columns")),
            templates,
            session: ClientSession::new(SettingsInterner::default().none()),
            text: text.to_owned(),
        }
    }

    /// `Parse Bind Describe Execute Sync` with these values: whether binary, and the bytes.
    pub(crate) fn bound(
        &mut self,
        values: &[(bool, Option<&[u8]>)],
        results: &[i16],
    ) -> PlannedRequest {
        let messages = [
            parse("", &self.text),
            bind_values("", values, results),
            describe_portal(),
            execute(),
            sync(),
        ];
        self.request(messages.concat())
    }

    /// [`FoldStatement::bound`] with all values in text format.
    pub(crate) fn texts(&mut self, values: &[&str]) -> PlannedRequest {
        let values: Vec<_> = values.iter().map(|v| (false, Some(v.as_bytes()))).collect();
        self.bound(&values, &[])
    }

    /// A simple query.
    pub(crate) fn query(&mut self, text: &str) -> PlannedRequest {
        self.request(query(text))
    }

    fn request(&mut self, messages: Vec<u8>) -> PlannedRequest {
        let mut request = single(&mut self.session, &self.templates, messages);
        request.plan = Some(Arc::clone(&self.plan) as Arc<dyn GroupPlan>);
        request
    }
}

/// Facts that permit requests in a chain.
pub(crate) fn chain_facts(templates: &Templates) -> Arc<ChainFacts> {
    Arc::new(ChainFacts::new(&facts(), templates))
}

fn facts() -> Compared {
    Compared {
        sql: "pg_catalog.to_regclass('t')::pg_catalog.text".to_owned(),
        value: "(16400,{7})".to_owned(),
    }
}

/// The request of these messages.
pub(crate) fn single(
    session: &mut ClientSession,
    templates: &Templates,
    messages: Vec<u8>,
) -> PlannedRequest {
    let bytes = Bytes::from(messages);
    loop {
        match session.plan(&bytes, templates, &TestConsole) {
            RequestPlan::Group(request) => return request.into(),
            RequestPlan::Unparsed(unparsed) => templates.parse(&unparsed),
            other => panic!("not a single request: {other:?}"),
        }
    }
}

/// A type of PostgreSQL's own.
pub(crate) fn type_name(sql: &str) -> TypeName {
    TypeName {
        sql: sql.to_owned(),
        array: sql.ends_with("[]"),
        builtin: true,
        collatable: false,
    }
}
