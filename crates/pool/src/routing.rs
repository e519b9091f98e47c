//! Finds the shard that executes a statement, and writes the statement on the shard's own table.
//!
//! Pure: the caller has the map (crate `shards`), the analysis of the statement on the coordinator, and the pools. What a text says is
//! read once per template and map, and the text on a partition is written once per template and partition.

mod refusal;
mod table;
mod template;
#[cfg(test)]
mod tests;
mod values;

pub use refusal::RouteRefusal;

use paceline_batch::analysis::TemplateAnalysis;
use paceline_batch::strategy::{PlannedRequest, ShardPart};
use paceline_relay::request::{Request, Values};
use paceline_relay::settings::SettingsInterner;
use paceline_relay::template::Templates;
use paceline_shards::{ShardMap, ShardServerId};
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex, PoisonError};
use table::KnownTables;
use template::{RoutedBy, TemplateRoute};

/// Maximum number of templates whose routes are known. If there are more, all are read again.
const TEMPLATES_MAX: usize = 4_096;

/// The routes of one role's statements by one map.
#[derive(Debug)]
pub struct Routes {
    map: Arc<dyn ShardMap>,
    /// The role on the coordinator.
    role: String,
    /// By the ids of templates.
    templates: Mutex<FxHashMap<u64, Arc<TemplateRoute>>>,
    tables: KnownTables,
}

/// A statement for a shard.
#[derive(Debug)]
pub struct RoutedStatement {
    /// The server, in the map of the routes.
    pub server: ShardServerId,
    /// The statement on the shard's table.
    pub request: PlannedRequest,
}

impl Routes {
    /// The routes by a map, which may take the place of that of `before`.
    pub fn new(map: Arc<dyn ShardMap>, role: String, before: Option<&Self>) -> Self {
        Self {
            tables: before
                .map(|before| before.tables.clone())
                .unwrap_or_default(),
            templates: Mutex::default(),
            map,
            role,
        }
    }

    /// The map.
    pub fn map(&self) -> &Arc<dyn ShardMap> {
        &self.map
    }

    /// The route of a statement whose template has this analysis on the coordinator.
    ///
    /// # Errors
    /// The reason why it runs on the coordinator.
    pub fn route(
        &self,
        request: &PlannedRequest,
        analysis: &TemplateAnalysis,
        templates: &Templates,
        settings: &SettingsInterner,
    ) -> Result<RoutedStatement, RouteRefusal> {
        let template = self.template(request);
        let (table, statement) = template.on_map(&*self.map)?;
        if analysis.portable_table != Some(table.oid) {
            return Err(RouteRefusal::NotPortable);
        }
        if let Some(why) = refusal::of_settings(&request.settings) {
            return Err(why);
        }
        if let Values::Literals(literals) = &request.values
            && statement.parameters() > literals.len()
        {
            return Err(RouteRefusal::Parameter);
        }
        let leaf = values::leaf(table, statement, request)?;
        let by = RoutedBy {
            map: &*self.map,
            role: &self.role,
            tables: &self.tables,
            templates,
        };
        let leaf = template.on_leaf(by, leaf, request)?;
        let moved = leaf.text(statement, request)?;
        let own_settings = settings.without_search_path(&request.settings);
        let other = Request::on_other_table(
            request,
            Arc::clone(&leaf.template),
            own_settings,
            &moved.text,
        );
        let mut planned = PlannedRequest::from(Box::new(other));
        planned.stats.clone_from(&request.stats);
        planned.trace.clone_from(&request.trace);
        planned.shard = Some(Box::new(ShardPart {
            table: Arc::clone(&leaf.table),
            replaced: moved.replaced,
            permission: analysis.permission,
        }));
        Ok(RoutedStatement {
            server: leaf.server,
            request: planned,
        })
    }

    /// Whether the text of a request is a statement on a sharded table that may run on a shard.
    pub fn has_table(&self, request: &Request) -> bool {
        self.template(request).on_map(&*self.map).is_ok()
    }

    /// The route of the template of a request.
    fn template(&self, request: &Request) -> Arc<TemplateRoute> {
        let mut templates = self
            .templates
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let id = request.template.id;
        if let Some(known) = templates.get(&id) {
            return Arc::clone(known);
        }
        if templates.len() >= TEMPLATES_MAX {
            templates.clear();
        }
        let route = Arc::new(TemplateRoute::new(&request.template, &*self.map));
        templates.insert(id, Arc::clone(&route));
        route
    }
}
