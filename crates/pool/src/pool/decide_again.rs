//! Requests that entered the line before their template was analyzed. When the analysis ends, the pool decides again how each of
//! them leaves. They keep their places in the line.

#[cfg(test)]
mod tests;

use super::{Inner, Pool, Waiter};
use crate::clock;
use crate::counters::Counters;
use paceline_batch::analysis::TemplateAnalysis;
use paceline_batch::line::WaiterId;
use paceline_batch::strategy::PlannedRequest;
use std::sync::Arc;
use std::time::Instant;

/// Maximum number of requests in the line that are examined at a time, under the pool's lock.
const EXAMINED_MAX: usize = 256;

impl Waiter {
    /// The request, if it is to be decided again.
    fn undecided(&self) -> Option<&Arc<PlannedRequest>> {
        let request = self.request.as_ref();
        request.filter(|request| request.awaits_analysis)
    }
}

impl Pool {
    /// Decides again on all requests of a template, if it is analyzed now. In parts, because no request can leave the line
    /// meanwhile.
    pub(crate) async fn decide_again(self: &Arc<Self>, template: u64, settings: u64) {
        let mut after = None;
        loop {
            after = self.decide_part(template, settings, after);
            if after.is_none() {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Decides on the requests among the next [`EXAMINED_MAX`] in the line, and returns the last of these. `None`: there are no
    /// more.
    fn decide_part(
        self: &Arc<Self>,
        template: u64,
        settings: u64,
        after: Option<WaiterId>,
    ) -> Option<WaiterId> {
        let now = clock::now();
        let mut inner = self.lock();
        let analysis = inner.analyses.done(template, settings).map(Arc::clone)?;
        let of_template = |request: &&Arc<PlannedRequest>| {
            request.template.id == template && request.settings.id == settings
        };
        let mut last = None;
        let waiting = inner.line.waiting_after(after).take(EXAMINED_MAX);
        let undecided: Vec<WaiterId> = waiting
            .inspect(|(waiter, _)| last = Some(*waiter))
            .filter(|(_, waiter)| waiter.undecided().filter(of_template).is_some())
            .map(|(waiter, _)| waiter)
            .collect();
        if !undecided.is_empty() {
            for waiter in undecided {
                self.decide(&mut inner, now, waiter, &analysis);
            }
            self.dispatch(&mut inner, now);
            self.start_timer(&mut inner);
        }
        last
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

    /// Decides again on a request. A read that a replica should answer leaves the line. The client of another plain read learns
    /// that it is one.
    fn decide(&self, inner: &mut Inner, now: Instant, waiter: WaiterId, by: &TemplateAnalysis) {
        let entry = inner.line.get(waiter);
        let Some(request) = entry.and_then(|(_, waiter)| waiter.undecided()) else {
            return;
        };
        let mut request = PlannedRequest::clone(request);
        request.awaits_analysis = false;
        let decision = by.decide(&mut request, self.policy());
        if request.prefers_replica && by.group_on_replica(&request).is_some() {
            self.send_read_elsewhere(inner, now, waiter);
            return;
        }
        let reads = decision.joins_reads();
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
        if reads {
            waiter.send_plain_read();
        }
    }
}
