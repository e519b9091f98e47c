//! Operators by the key that they were given, so that a cancel request finds them: who waits for the end of PAUSE, SUSPEND or
//! WAIT_CLOSE gives it up.

use super::Access;
use crate::proxy::Proxy;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Those who are there, by process id.
#[derive(Debug, Default)]
pub(crate) struct Operators(Mutex<HashMap<u32, Operator>>);

#[derive(Debug)]
struct Operator {
    secret: u32,
    gives_up: Arc<Notify>,
}

/// An operator who may come in, and is known as long as this lives.
pub(crate) struct Pass {
    proxy: Arc<Proxy>,
    /// What it may do.
    pub(super) access: Access,
    /// Its key for cancel requests.
    pub(super) process: u32,
    /// The other half.
    pub(super) secret: u32,
    /// A cancel request has come.
    pub(super) gives_up: Arc<Notify>,
}

impl Operators {
    fn lock(&self) -> MutexGuard<'_, HashMap<u32, Operator>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.lock().len()
    }

    /// Carries out a cancel request; one with a wrong key does nothing.
    pub(crate) fn cancel(&self, process: u32, secret: u32) {
        let operators = self.lock();
        if let Some(operator) = operators.get(&process)
            && operator.secret == secret
        {
            operator.gives_up.notify_waiters();
        }
    }
}

impl Pass {
    /// `None`: the system has no random numbers.
    pub(super) fn new(proxy: &Arc<Proxy>, access: Access) -> Option<Self> {
        let (secret, gives_up) = (getrandom::u32().ok()?, Arc::new(Notify::new()));
        let mut operators = proxy.operators.lock();
        let process = loop {
            let process = getrandom::u32().ok()? >> 1;
            if process != 0 && !operators.contains_key(&process) {
                break process;
            }
        };
        let operator = Operator {
            secret,
            gives_up: Arc::clone(&gives_up),
        };
        operators.insert(process, operator);
        drop(operators);
        Some(Self {
            proxy: Arc::clone(proxy),
            access,
            process,
            secret,
            gives_up,
        })
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.proxy.operators.lock().remove(&self.process);
    }
}
