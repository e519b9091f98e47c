//! Signals, as PgBouncer (1.23 and later) understands them: each is an order.

use crate::control::{Order, Phase, Shutdown};
use crate::proxy::Proxy;
use std::io;
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that are understood.
pub(crate) struct Signals {
    hang_up: Signal,
    interrupt: Signal,
    quit: Signal,
    terminate: Signal,
    user_1: Signal,
    user_2: Signal,
}

impl Signals {
    /// From now on they are noticed.
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

    /// Gives the orders as long as the process lives.
    pub(super) async fn obey(mut self, proxy: Arc<Proxy>) {
        loop {
            let order = tokio::select! {
                _ = self.hang_up.recv() => Order::Reload,
                _ = self.interrupt.recv() => end(&proxy, Shutdown::WaitForServers),
                _ = self.quit.recv() => Order::Shutdown(Shutdown::Immediate),
                _ = self.terminate.recv() => end(&proxy, Shutdown::WaitForClients),
                _ = self.user_1.recv() => Order::Pause(None),
                _ = self.user_2.recv() => Order::Resume(None),
            };
            tokio::spawn(give(Arc::clone(&proxy), order));
        }
    }
}

/// Whoever asks again while the process comes to its end does not want to wait any longer.
fn end(proxy: &Proxy, when: Shutdown) -> Order {
    match *proxy.phase.borrow() {
        Phase::Serving => Order::Shutdown(when),
        _ => Order::Shutdown(Shutdown::Immediate),
    }
}

async fn give(proxy: Arc<Proxy>, order: Order) {
    let given = format!("{order:?}");
    match proxy.carry_out(order).await {
        Ok(()) => tracing::info!("{given}: done"),
        Err(error) => tracing::warn!("{given}: {}", error.message),
    }
}
