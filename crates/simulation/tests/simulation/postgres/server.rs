//! The simulated server: its sessions, their waits for rows, and its crash.

use super::catalog::{Catalog, Command};
use super::error::{SqlError, failed};
use super::execute::execute;
use super::session::Session;
use super::settings::Settings;
use super::storage::{Storage, Xid};
use super::value::{RowId, Value};
use crate::mutation::Mutator;
use crate::random::Random;
use bytes::BytesMut;
use paceline_net::memory::{Connecting, MemoryListener};
use rustc_hash::FxHashMap;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::sleep;

/// Time of a wait after which PostgreSQL looks for a deadlock.
const DEADLOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// The times that a server process takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Delays {
    /// Maximum time of a statement, in milliseconds.
    pub(crate) statement_ms: u64,
    /// Maximum time of a commit.
    pub(crate) commit_ms: u64,
    /// Maximum time to open a connection.
    pub(crate) connect_ms: u64,
    /// Maximum time between two parts of an answer.
    pub(crate) network_ms: u64,
}

/// The bytes that sessions have read and sent.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Captured {
    /// Number of sessions.
    pub(crate) sessions: usize,
    pub(crate) read: BytesMut,
    pub(crate) sent: BytesMut,
}

/// The commands and parameters of a statement.
type ExecutedStatement = (Rc<Vec<Command>>, Vec<Value>);

/// The state of a session that the others see.
#[derive(Debug)]
pub(crate) struct SessionState {
    pub(crate) process: u32,
    pub(crate) xid: Cell<Xid>,
    /// The commit record may be on the disk, and the transaction has not ended.
    pub(crate) commits: Cell<bool>,
    pub(crate) cancelled: Notify,
    /// The last statement, if a mutation needs it.
    pub(crate) last: RefCell<Option<ExecutedStatement>>,
    task: RefCell<Option<AbortHandle>>,
}

pub(crate) struct Server {
    pub(crate) catalog: Rc<Catalog>,
    pub(crate) storage: RefCell<Storage>,
    pub(crate) random: RefCell<Random>,
    pub(crate) delays: Delays,
    pub(crate) mutator: Mutator,
    sessions: RefCell<Vec<Rc<SessionState>>>,
    /// The row for which a transaction waits.
    waiting: RefCell<FxHashMap<Xid, RowId>>,
    /// The server does not accept connections.
    down: Cell<bool>,
    next_process: Cell<u32>,
    /// Messages that sessions have read.
    pub(crate) steps: Cell<u64>,
    pub(crate) crashes: Cell<u64>,
    /// The messages that sessions have read and sent.
    pub(crate) captured: RefCell<Captured>,
}

impl Server {
    pub(crate) fn new(
        catalog: &Rc<Catalog>,
        random: Random,
        delays: Delays,
        mutator: Mutator,
    ) -> Self {
        Self {
            storage: RefCell::new(Storage::new(Rc::clone(&catalog.schema))),
            catalog: Rc::clone(catalog),
            random: RefCell::new(random),
            delays,
            mutator,
            sessions: RefCell::default(),
            waiting: RefCell::default(),
            down: Cell::new(false),
            next_process: Cell::new(1),
            steps: Cell::new(0),
            crashes: Cell::new(0),
            captured: RefCell::default(),
        }
    }

    pub(crate) fn within(&self, max: u64) -> u64 {
        self.random.borrow_mut().within(0..=max)
    }

    /// Lets a random time pass.
    pub(crate) async fn pause(&self, max_ms: u64) {
        let pause = self.within(max_ms);
        if pause > 0 {
            sleep(Duration::from_millis(pause)).await;
        }
    }

    /// Accepts connections until the listener is dropped.
    pub(crate) async fn listen(self: Rc<Self>, mut listener: MemoryListener) {
        while let Some(connecting) = listener.next().await {
            // A refused connection is one that is dropped.
            if !self.down.get() {
                self.start(connecting);
            }
        }
    }

    fn start(self: &Rc<Self>, connecting: Connecting) {
        self.captured.borrow_mut().sessions += 1;
        let process = self.next_process.get();
        self.next_process.set(process + 1);
        let state = Rc::new(SessionState {
            process,
            xid: Cell::new(0),
            commits: Cell::new(false),
            cancelled: Notify::new(),
            last: RefCell::default(),
            task: RefCell::default(),
        });
        let server = Rc::clone(self);
        self.sessions.borrow_mut().push(Rc::clone(&state));
        let own = Rc::clone(&state);
        let task = tokio::task::spawn_local(async move {
            server.pause(server.delays.connect_ms).await;
            let write_max = [64, 1_024, 65_536][usize::try_from(server.within(2)).unwrap()];
            let peer = connecting.accept(write_max);
            Session::new(Rc::clone(&server), Rc::clone(&own), peer)
                .run()
                .await;
            server.end(&own);
        });
        state.task.replace(Some(task.abort_handle()));
    }

    /// Ends a session: its transaction is undone, unless its commit record has reached the disk.
    fn end(&self, state: &Rc<SessionState>) {
        self.sessions
            .borrow_mut()
            .retain(|other| !Rc::ptr_eq(other, state));
        self.end_transaction(state);
    }

    fn end_transaction(&self, state: &SessionState) {
        let xid = state.xid.replace(0);
        self.waiting.borrow_mut().remove(&xid);
        if xid == 0 {
            return;
        }
        match state.commits.replace(false) && self.within(1) == 1 {
            true => {
                self.storage.borrow_mut().commit(xid);
                self.repeat(state);
            }
            false => self.storage.borrow_mut().abort(xid),
        }
    }

    /// Executes the last statement of a session again, if a mutation says so.
    fn repeat(&self, state: &SessionState) {
        let Some((commands, parameters)) = state.last.take() else {
            return;
        };
        let Some(Command::Execute(statement)) = commands.first() else {
            return;
        };
        let mut storage = self.storage.borrow_mut();
        let xid = storage.begin();
        let snapshot = storage.snapshot(xid);
        match execute(
            statement,
            &parameters,
            snapshot,
            &mut storage,
            &mut Settings::default(),
        ) {
            Ok(_) => storage.commit(xid),
            Err(_) => storage.abort(xid),
        }
    }

    fn kill(&self, state: &Rc<SessionState>) {
        if let Some(task) = state.task.take() {
            task.abort();
        }
        self.end(state);
    }

    /// Ends one server process.
    pub(crate) fn kill_one(&self) {
        let all = self.sessions.borrow().clone();
        if !all.is_empty() {
            let state = self.random.borrow_mut().one_of(&all).clone();
            self.kill(&state);
        }
    }

    /// Ends all sessions. Until [`Server::restart`], connections are refused.
    pub(crate) fn crash(&self) {
        self.crashes.set(self.crashes.get() + 1);
        self.down.set(true);
        let all = self.sessions.borrow().clone();
        all.iter().for_each(|state| self.kill(state));
    }

    pub(crate) fn restart(&self) {
        self.down.set(false);
    }

    /// Cancels what the process with this number executes.
    pub(crate) fn cancel(&self, process: u32) {
        let sessions = self.sessions.borrow();
        if let Some(state) = sessions.iter().find(|state| state.process == process) {
            state.cancelled.notify_waiters();
        }
    }

    /// Waits until the lock of a row may be free.
    pub(crate) async fn wait_for_row(
        &self,
        state: &SessionState,
        row: RowId,
        lock_timeout: u64,
    ) -> Result<(), SqlError> {
        let Some(free) = self.storage.borrow_mut().wait(row) else {
            return Ok(());
        };
        let xid = state.xid.get();
        self.waiting.borrow_mut().insert(xid, row);
        let limit = async {
            match lock_timeout {
                0 => std::future::pending().await,
                limit => sleep(Duration::from_millis(limit)).await,
            }
        };
        let deadlock = async {
            sleep(DEADLOCK_TIMEOUT).await;
            if !self.is_deadlock(xid) {
                std::future::pending::<()>().await;
            }
        };
        let waited = tokio::select! {
            biased;
            _ = free => Ok(()),
            () = state.cancelled.notified() => Err(failed("57014", "canceling statement due to user request")),
            () = limit => Err(failed("55P03", "canceling statement due to lock timeout")),
            () = deadlock => Err(failed("40P01", "deadlock detected")),
        };
        self.waiting.borrow_mut().remove(&xid);
        match &waited {
            // Another transaction may take the lock before this process wakes up.
            Ok(()) => self.pause(1).await,
            Err(_) => self.storage.borrow_mut().pass_on(row),
        }
        waited
    }

    fn is_deadlock(&self, xid: Xid) -> bool {
        let (waiting, storage) = (self.waiting.borrow(), self.storage.borrow());
        let mut blocker = xid;
        for _ in 0..=waiting.len() {
            let Some(row) = waiting.get(&blocker) else {
                return false;
            };
            blocker = storage.holder(*row);
            if blocker == xid {
                return true;
            }
        }
        false
    }
}
