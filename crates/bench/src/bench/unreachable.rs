//! Targets at whose address nobody answered: whoever asks there again waits as long for nothing.

use crate::connection::Failure;
use crate::target::Target;
use std::sync::Arc;

/// They are not asked again in this bench.
#[derive(Debug, Default)]
pub(super) struct UnreachableTargets<'a>(Vec<(&'a Arc<Target>, String)>);

impl<'a> UnreachableTargets<'a> {
    /// Remembers `target` if `failure` says that nobody is there.
    pub(super) fn note(&mut self, target: &'a Arc<Target>, failure: &Failure) {
        if let Failure::Unreachable(why) = failure {
            self.0.push((target, why.clone()));
        }
    }

    /// # Errors
    /// `target` is one of them.
    pub(super) fn refuse(&self, target: &Arc<Target>) -> Result<(), Failure> {
        let known = self
            .0
            .iter()
            .find(|(unreachable, _)| Arc::ptr_eq(unreachable, target));
        known.map_or(Ok(()), |(_, why)| {
            let why = format!("{why}; that was in an earlier run, and not tried again");
            Err(Failure::Unreachable(why))
        })
    }
}
