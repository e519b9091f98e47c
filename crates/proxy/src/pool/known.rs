//! What a pool knows: of templates, by what PostgreSQL was asked about them; of statements that PostgreSQL has taken; and of
//! settings, by how it welcomes a client that has them.

use super::{Inner, Pool};
use crate::server::ServerConn;
use paceline_batch::analysis::TemplateAnalysis;
use paceline_batch::template_stats::TemplateStats;
use paceline_relay::server::StatementKey;
use paceline_relay::settings::Settings;
use paceline_relay::template::Template;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// The parameters that PostgreSQL reports under these settings, which keep their id as long as this is known.
pub(super) type Welcome = (Arc<Settings>, Vec<(String, String)>);

/// Templates about which something is remembered, per pool.
const LEARNED_MAX: usize = 8_192;

/// Statements of which it is remembered that PostgreSQL has taken them, per pool.
const ACCEPTED_MAX: usize = 8_192;

/// Settings whose parameters are remembered, per pool.
const WELCOMES_MAX: usize = 1_024;

/// How long a unit waits for what PostgreSQL is being asked about its template.
const ANSWER_AWAITED_MAX: Duration = Duration::from_millis(50);

/// How long a refusal is believed before the catalog is asked again.
const REFUSAL_LASTS: Duration = Duration::from_secs(60);

/// What is known of a template, and where its units are counted.
pub(super) struct Known {
    pub(super) stage: Stage,
    /// Gone when it is forgotten and nobody counts on it any more.
    tally: Weak<TemplateStats>,
}

/// How far the pool has come with a template.
pub(super) enum Stage {
    /// Somebody will find out when its own unit has been served.
    Pending,
    /// PostgreSQL is being asked.
    Asked,
    /// This, since then.
    Learned(Arc<TemplateAnalysis>, Instant),
}

impl Stage {
    /// What a unit may go by; `None`: PostgreSQL must be asked again.
    fn knowledge(&self) -> Option<Knowledge> {
        match self {
            Self::Pending => Some(Knowledge::Pending),
            Self::Asked => Some(Knowledge::Asked),
            Self::Learned(learned, since) => {
                let holds = learned.plan.is_ok() || since.elapsed() < REFUSAL_LASTS;
                holds.then(|| Knowledge::Learned(Arc::clone(learned)))
            }
        }
    }
}

/// What is known of a template when one of its units arrives.
pub(crate) enum Knowledge {
    /// This.
    Learned(Arc<TemplateAnalysis>),
    /// Nothing yet: somebody else will find out.
    Pending,
    /// Nothing yet: PostgreSQL is being asked at this moment.
    Asked,
    /// Nothing: the caller is to find out.
    Ask,
}

impl Pool {
    /// What is known of a template, and where its units are counted. After [`Knowledge::Ask`] the caller owes
    /// [`Pool::learn`].
    pub(crate) fn knowledge(
        &self,
        template: &Arc<Template>,
        settings: u64,
    ) -> (Knowledge, Arc<TemplateStats>) {
        // Made before the lock is taken: the whole text is read for it.
        template.name();
        let mut inner = self.lock();
        let Inner {
            learned, tallies, ..
        } = &mut *inner;
        let key = (template.id, settings);
        if let Some(known) = learned.get_mut(&key)
            && let Some(knowledge) = known.stage.knowledge()
        {
            let tally = known.tally.upgrade().filter(|tally| tally.is_current());
            let tally = tally.unwrap_or_else(|| tallies.of(template));
            known.tally = Arc::downgrade(&tally);
            return (knowledge, tally);
        }
        if learned.len() >= LEARNED_MAX {
            learned.clear();
        }
        let tally = tallies.of(template);
        let known = Known {
            stage: Stage::Pending,
            tally: Arc::downgrade(&tally),
        };
        learned.insert(key, known);
        (Knowledge::Ask, tally)
    }

    /// PostgreSQL is being asked about a template.
    pub(crate) fn asked(&self, template: u64, settings: u64) {
        // If it has been forgotten meanwhile, the next one asks again.
        if let Some(known) = self.lock().learned.get_mut(&(template, settings)) {
            known.stage = Stage::Asked;
        }
    }

    /// What is known of a template about which PostgreSQL is being asked: the answer is only moments away, and without
    /// it units on one row would fill the pool.
    pub(crate) async fn known_soon(&self, template: &Arc<Template>, settings: u64) -> Knowledge {
        let answered = async {
            loop {
                let learned = self.learned_more.notified();
                match self.knowledge(template, settings).0 {
                    Knowledge::Asked => learned.await,
                    known => return known,
                }
            }
        };
        let known = tokio::time::timeout(ANSWER_AWAITED_MAX, answered).await;
        known.unwrap_or(Knowledge::Pending)
    }

    /// PostgreSQL has taken these statements under these settings.
    pub(crate) fn accepted(&self, statements: &[StatementKey]) {
        let mut inner = self.lock();
        if inner.accepted.len() >= ACCEPTED_MAX {
            inner.accepted.clear();
        }
        let names = statements.iter().map(|s| (s.template(), s.settings()));
        inner.accepted.extend(names);
    }

    /// Has PostgreSQL taken this statement under these settings before?
    pub(crate) fn has_accepted(&self, template: u64, settings: u64) -> bool {
        self.lock().accepted.contains(&(template, settings))
    }

    /// Notes what was found out; `None`: nothing, the next one asks again.
    pub(crate) fn learn(&self, template: u64, settings: u64, learned: Option<TemplateAnalysis>) {
        let mut inner = self.lock();
        let key = (template, settings);
        match (learned, inner.learned.get_mut(&key)) {
            (Some(learned), Some(known)) => {
                known.stage = Stage::Learned(Arc::new(learned), Instant::now());
            }
            (None, Some(_)) => {
                inner.learned.remove(&key);
            }
            (_, None) => {}
        }
        self.learned_more.notify_waiters();
    }

    /// The parameters with which PostgreSQL welcomes a client that has these settings, if that is known.
    pub(crate) fn welcome(&self, settings: u64) -> Option<Vec<(String, String)>> {
        let inner = self.lock();
        inner.welcomes.get(&settings).map(|(_, told)| told.clone())
    }

    /// Notes them, unless this connection, which they come from, is to be replaced.
    pub(crate) fn set_welcome(
        &self,
        settings: &Arc<Settings>,
        parameters: Vec<(String, String)>,
        conn: &ServerConn,
    ) {
        let mut inner = self.lock();
        if !inner.is_of_this_era(conn) {
            return;
        }
        if inner.welcomes.len() >= WELCOMES_MAX {
            inner.welcomes.clear();
        }
        let known = (Arc::clone(settings), parameters);
        inner.welcomes.insert(settings.id, known);
    }

    /// Does the template call functions that may change the session?
    pub(crate) fn taints(&self, template: u64, settings: u64) -> Option<bool> {
        match &self.lock().learned.get(&(template, settings))?.stage {
            Stage::Learned(learned, _) => Some(learned.may_change_session),
            Stage::Pending | Stage::Asked => None,
        }
    }
}
