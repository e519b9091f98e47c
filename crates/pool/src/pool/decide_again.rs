//! Requests that entered the line before their template was analyzed. When the analysis ends, the pool decides again how each of
//! them leaves. They keep their places in the line.

#[cfg(test)]
mod tests;

use super::{Inner, Pool, Waiter};
use crate::counters::Counters;
use paceline_batch::analysis::TemplateAnalysis;
use paceline_batch::line::WaiterId;
use paceline_batch::strategy::PlannedRequest;
use std::sync::Arc;
use std::time::Instant;

impl Waiter {
    /// The request, if it is to be decided again.
    fn undecided(&self) -> Option<&Arc<PlannedRequest>> {
        let request = self.request.as_ref();
        request.filter(|request| request.awaits_analysis)
    }
}

impl Pool {
    /// Decides again on all requests of a template, if it is analyzed now.
    pub(super) fn decide_again(self: &Arc<Self>, inner: &mut Inner, template: u64, settings: u64) {
        let Some(analysis) = inner.analyses.done(template, settings).map(Arc::clone) else {
            return;
        };
        let of_template = |request: &&Arc<PlannedRequest>| {
            request.template.id == template && request.settings.id == settings
        };
        let waiting = inner.line.waiting();
        let undecided: Vec<WaiterId> = waiting
            .filter(|(_, waiter)| waiter.undecided().filter(of_template).is_some())
            .map(|(waiter, _)| waiter)
            .collect();
        if undecided.is_empty() {
            return;
        }
        let now = Instant::now();
        for waiter in undecided {
            self.decide(inner, now, waiter, &analysis);
        }
        self.dispatch(inner, now);
        self.start_timer(inner);
    }

    /// Decides again on a request, if the analysis of its template ended before it entered the line.
    pub(super) fn decide_if_analyzed(&self, inner: &mut Inner, now: Instant, waiter: WaiterId) {
        let entry = inner.line.get(waiter);
        let Some(request) = entry.and_then(|(_, waiter)| waiter.undecided()) else {
            return;
        };
        let (template, settings) = (request.template.id, request.settings.id);
        if let Some(analysis) = inner.analyses.done(template, settings).map(Arc::clone) {
            self.decide(inner, now, waiter, &analysis);
        }
    }

    /// Decides again on a request. It keeps its first decision if it would join a group of reads: a client waits otherwise for such
    /// a request, which it may give up at any time.
    fn decide(&self, inner: &mut Inner, now: Instant, waiter: WaiterId, by: &TemplateAnalysis) {
        let entry = inner.line.get(waiter);
        let Some(request) = entry.and_then(|(_, waiter)| waiter.undecided()) else {
            return;
        };
        let mut request = PlannedRequest::clone(request);
        request.awaits_analysis = false;
        let decision = by.decide(&mut request, self.policy());
        if decision.spec.group.is_some_and(|id| id.strategy.reads()) {
            return;
        }
        let Some(waiter) = inner.line.specify(now, waiter, decision.spec) else {
            return;
        };
        if decision.would_group {
            Counters::count(&self.shared.counters.would_have_grouped);
            if let Some(stats) = &request.stats {
                stats.count_would_have_grouped();
            }
        }
        waiter.request = Some(Arc::new(request));
    }
}
