//! What the configuration says of a pool. A reload gives it another shape while it works.

use super::settings::SettingsInForce;
use super::{Era, Inner, Pool};
use crate::log::reasons;
use crate::server::Address;
use paceline_batch::analysis::Policy;
use paceline_batch::line::Limits;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;

/// What the configuration says of a pool.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    /// Where its connections lead.
    pub(crate) address: Address,
    /// What may travel together.
    pub(crate) policy: Policy,
    /// How many connections there may be, and how long anything may take.
    pub(crate) settings: SettingsInForce,
    /// Of its line.
    pub(crate) limits: Limits,
}

/// A policy that is read for every unit and seldom changes.
#[derive(Debug)]
pub(super) struct PolicyCell(AtomicU8);

impl PolicyCell {
    const HOTSPOT: u8 = 1;
    const FOR_AUTOCOMMIT: u8 = 2;
    const LOCK_TYPE: u8 = 4;
    const PIPELINE: u8 = 8;

    pub(super) fn new(policy: Policy) -> Self {
        Self(AtomicU8::new(Self::bits(policy)))
    }

    fn bits(policy: Policy) -> u8 {
        let switches = [
            (policy.hotspot, Self::HOTSPOT),
            (policy.for_autocommit, Self::FOR_AUTOCOMMIT),
            (policy.lock_type, Self::LOCK_TYPE),
            (policy.pipeline, Self::PIPELINE),
        ];
        switches
            .iter()
            .filter(|(on, _)| *on)
            .map(|(_, bit)| bit)
            .sum()
    }

    fn set(&self, policy: Policy) {
        self.0.store(Self::bits(policy), Ordering::Relaxed);
    }

    fn get(&self) -> Policy {
        let bits = self.0.load(Ordering::Relaxed);
        let on = |bit| bits & bit != 0;
        Policy {
            hotspot: on(Self::HOTSPOT),
            for_autocommit: on(Self::FOR_AUTOCOMMIT),
            lock_type: on(Self::LOCK_TYPE),
            pipeline: on(Self::PIPELINE),
        }
    }
}

impl Pool {
    /// What may travel together.
    pub(crate) fn policy(&self) -> Policy {
        self.policy.get()
    }

    /// Where its next connections lead.
    pub(crate) fn address(&self) -> Arc<Address> {
        Arc::clone(&self.lock().era.address)
    }

    /// The configuration has changed. Connections that lead elsewhere, or are more than there may be, are closed when
    /// they are free.
    pub(crate) fn reshape(self: &Arc<Self>, shape: Shape) {
        self.policy.set(shape.policy);
        let open_max = shape.settings.open_max();
        let settings = Arc::new(shape.settings);
        self.settings.store(Arc::clone(&settings));
        let now = Instant::now();
        let mut inner = self.lock();
        inner.open_max = open_max;
        inner.hasten_retirement(&settings, now);
        inner.line.set_limits(shape.limits);
        if !inner.era.address.leads_to(&shape.address) {
            self.move_to(&mut inner, shape.address);
        }
        while inner.open > open_max
            && let Some(mut conn) = inner.idle.pop().or_else(|| inner.parked.pop())
        {
            inner.open -= 1;
            conn.closes_because(reasons::TOO_MANY);
            conn.say_goodbye();
        }
        self.dispatch(&mut inner, now);
        self.tend(&mut inner);
        // Those who wait may be worth a further connection from now on.
        self.look_again.notify_one();
    }

    /// From now on connections lead there, where what was found out elsewhere need not hold.
    fn move_to(&self, inner: &mut Inner, address: Address) {
        self.proxy.quotas.move_to(&self.quotas, &address.user);
        inner.learned.clear();
        inner.accepted.clear();
        let next = Era::new(Arc::new(address), &self.over);
        self.begin_era(inner, next, reasons::CONFIGURATION_CHANGED);
        inner.replication.replace();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_is_kept() {
        for bits in 0..16 {
            let cell = PolicyCell(AtomicU8::new(bits));
            assert_eq!(PolicyCell::new(cell.get()).0.into_inner(), bits);
        }
    }
}
