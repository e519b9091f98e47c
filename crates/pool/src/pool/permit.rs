//! Applies the decisions of operators on grouping to the analyses of templates.

use super::{Pool, PoolConfig};
use paceline_batch::analysis::TemplateAnalysis;
use paceline_batch::policy::Permission;
use paceline_relay::template::Template;
use paceline_sql::Effect;

impl Pool {
    /// Takes over the decisions of a configuration. What is known of templates depends on them.
    pub(super) fn set_decisions(&self, config: &PoolConfig) {
        // On a shard, the decision on the coordinator's table applies.
        if self.permits.replace(&config.grouping) && !self.is_of_shard() {
            self.forget_analyses();
        }
    }

    /// The permission of a template by the decisions of operators that are in force, and by its analysis.
    pub(super) fn permission(
        &self,
        template: &Template,
        analysis: &TemplateAnalysis,
    ) -> Permission {
        // On a shard, the decision on the coordinator's table applies.
        if self.is_of_shard() {
            return analysis.permission;
        }
        let decided = self.permits.decided(template.text_id(), &analysis.tables);
        decided.or(analysis.permission)
    }

    /// If consumers of logical replication see the tables of a template, logs that once for each table.
    pub(crate) fn log_if_captured(&self, template: &Template, analysis: &TemplateAnalysis) {
        let captured = analysis.permission == Permission::Hinted;
        if captured && template.effect() == Some(&Effect::Write) && analysis.plan.is_ok() {
            self.log_captured(template, analysis);
        }
    }

    fn log_captured(&self, template: &Template, analysis: &TemplateAnalysis) {
        let asked = template.hints().commit_on_success || analysis.declared;
        let grouped = match self.permission(template, analysis) {
            Permission::Denied => return,
            Permission::Allowed => true,
            Permission::Default | Permission::Hinted => asked,
        };
        if !grouped && !self.policy().for_autocommit {
            return;
        }
        for table in &analysis.tables {
            if !self.permits.is_first(table, grouped) {
                continue;
            }
            if grouped {
                tracing::warn!(
                    %table,
                    "the table is in a publication or behind a logical replication slot: its consumers see one change for a group of updates of a row"
                );
            } else {
                tracing::warn!(
                    %table,
                    "the table is in a publication or behind a logical replication slot: statements without a hint are not grouped unless allow_grouping names it"
                );
            }
        }
    }
}
