//! Operators by the key that they were given, so that a cancel request finds them: who waits for the end of PAUSE, SUSPEND or
//! WAIT_CLOSE gives it up.

use super::Access;
use crate::cancel::CancelKey;
use crate::proxy::Proxy;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Those who are there, by process id.
#[derive(Debug, Default)]
pub(crate) struct Operators(Mutex<HashMap<u32, Operator>>);

#[derive(Debug)]
struct Operator {
    key: CancelKey,
    /// Peers know whose it is.
    is_of_peer: bool,
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

    /// Carries out a cancel request. False: the key is no operator's.
    pub(crate) fn cancel(&self, key: CancelKey) -> bool {
        let operators = self.lock();
        let Some(operator) = operators.get(&key.process) else {
            return false;
        };
        let given = match operator.is_of_peer {
            true => key.as_given(),
            false => key,
        };
        let is_its = operator.key == given;
        if is_its {
            operator.gives_up.notify_waiters();
        }
        is_its
    }
}

impl Pass {
    /// `None`: the system has no random numbers.
    pub(super) fn new(proxy: &Arc<Proxy>, access: Access) -> Option<Self> {
        let gives_up = Arc::new(Notify::new());
        let peer_id = u16::try_from(proxy.config().paceline.listening.peer_id).unwrap_or_default();
        let mut operators = proxy.operators.lock();
        let key = loop {
            let key = match peer_id {
                0 => CancelKey::random()?,
                _ => CancelKey::of_peer(peer_id)?,
            };
            if key.process != 0 && !operators.contains_key(&key.process) {
                break key;
            }
        };
        let operator = Operator {
            key,
            is_of_peer: peer_id > 0,
            gives_up: Arc::clone(&gives_up),
        };
        operators.insert(key.process, operator);
        drop(operators);
        Some(Self {
            proxy: Arc::clone(proxy),
            access,
            process: key.process,
            secret: key.secret,
            gives_up,
        })
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.proxy.operators.lock().remove(&self.process);
    }
}
