//! CommandSignals. Each is a command, as in PgBouncer 1.23 and later.

use paceline_admin::admin::Admin;
use paceline_admin::commands::{AdminCommand, Shutdown};
use paceline_proxy::lifecycle::Phase;
use paceline_proxy::proxy::Proxy;
use std::io;
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that Paceline handles.
pub(crate) struct CommandSignals {
    hang_up: Signal,
    interrupt: Signal,
    quit: Signal,
    terminate: Signal,
    user_1: Signal,
    user_2: Signal,
}

impl CommandSignals {
    /// Handles these signals from now on.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            hang_up: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            terminate: signal(SignalKind::terminate())?,
            user_1: signal(SignalKind::user_defined1())?,
            user_2: signal(SignalKind::user_defined2())?,
        })
    }

    /// Executes the commands of signals until the process ends.
    pub(super) async fn execute_commands(mut self, admin: Arc<Admin>) {
        loop {
            let command = tokio::select! {
                _ = self.hang_up.recv() => AdminCommand::Reload,
                _ = self.interrupt.recv() => end(&admin.proxy, Shutdown::WaitForServers),
                _ = self.quit.recv() => AdminCommand::Shutdown(Shutdown::Immediate),
                _ = self.terminate.recv() => end(&admin.proxy, Shutdown::WaitForClients),
                _ = self.user_1.recv() => AdminCommand::Pause(None),
                _ = self.user_2.recv() => AdminCommand::Resume(None),
            };
            tokio::spawn(execute(Arc::clone(&admin), command));
        }
    }
}

/// A second signal to shut down ends the process at once.
fn end(proxy: &Proxy, when: Shutdown) -> AdminCommand {
    match *proxy.phase.borrow() {
        Phase::Serving => AdminCommand::Shutdown(when),
        _ => AdminCommand::Shutdown(Shutdown::Immediate),
    }
}

async fn execute(admin: Arc<Admin>, command: AdminCommand) {
    let name = format!("{command:?}");
    match admin.execute(command).await {
        Ok(()) => tracing::info!("{name}: done"),
        Err(error) => tracing::warn!("{name}: {}", error.message),
    }
}
