//! Targets that could not be reached. The bench does not try them again, because each attempt would wait for the same
//! timeout.

use crate::connection::Failure;
use crate::target::Target;
use std::sync::Arc;

/// Targets that could not be reached, with the reason.
#[derive(Debug, Default)]
pub(super) struct UnreachableTargets<'a>(Vec<(&'a Arc<Target>, String)>);

impl<'a> UnreachableTargets<'a> {
    /// Records `target` if `failure` says that it cannot be reached.
    pub(super) fn note(&mut self, target: &'a Arc<Target>, failure: &Failure) {
        if let Failure::Unreachable(why) = failure {
            self.0.push((target, why.clone()));
        }
    }

    /// # Errors
    /// `target` could not be reached in an earlier run.
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
