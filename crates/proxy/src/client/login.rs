//! Login of a client: encryption, cancel requests, startup packet, authentication, and the parameters of the session.

mod attempt;
mod compression;
mod console;
mod encryption;
mod startup_settings;
mod welcome;

use super::Client;
use super::replication::ReplicationClient;
use super::slot::ClientSlot;
use super::taken::Taken;
use super::work_budget::WorkBudget;
use crate::cancel::ConsoleGrant;
use crate::lifecycle::{self, Phase};
use crate::log::{self, ClientNames};
use crate::login_refusal::LoginRefusal;
use crate::proxy::Proxy;
use attempt::{LoggedIn, LoginAttempt};
use bytes::BytesMut;
use paceline_net::Stream;
use paceline_pool::pool::{Admission, DisconnectSignal};
use paceline_pool::replicas::{Seen, ShardsSeen};
use paceline_pool::stats::first_words;
use paceline_relay::request::RequestScanner;
use paceline_wire::ErrorResponse;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// A client that has logged in.
#[expect(
    clippy::large_enum_variant,
    reason = "exists once per login, and the client is moved into its task from here"
)]
pub(super) enum LoginResult {
    /// A client of a database.
    Client(Client),
    /// A replication client. It has a server connection of its own.
    Replication(Box<ReplicationClient>),
    /// A user of the console.
    Console(ConsoleLogin),
}

/// A console user that has logged in. The caller runs the session.
pub struct ConsoleLogin {
    /// The access of the user.
    pub grant: ConsoleGrant,
    /// The connection.
    pub stream: Stream,
    /// Bytes that the client sent after its login.
    pub input: BytesMut,
    /// The database and user in the startup packet.
    pub names: Option<(String, String)>,
}

/// Logs a client in. Returns `None` if there is no session; the client has got its error.
pub(super) async fn log_in(proxy: Arc<Proxy>, mut stream: Stream) -> Option<LoginResult> {
    let limit = proxy.config().paceline.login.client_login_timeout;
    let mut phase = proxy.phase.subscribe();
    let awaits_server = AtomicBool::new(false);
    let names_sent = OnceLock::new();
    let (peer, began) = (stream.peer(), proxy.shared.clock.seconds());
    let attempt = LoginAttempt {
        proxy: &proxy,
        stream: &mut stream,
        input: BytesMut::new(),
        slot: ClientSlot::new(&proxy),
        awaits_server: &awaits_server,
    };
    let login = attempt.run(&names_sent);
    let too_late = async {
        match limit.is_zero() {
            true => std::future::pending().await,
            false => tokio::time::sleep(limit).await,
        }
    };
    let outcome = tokio::select! {
        biased;
        outcome = login => outcome,
        () = too_late => Err(too_late_for(awaits_server.load(Ordering::Relaxed))),
        () = lifecycle::reached(&mut phase, Phase::WaitingForServers) => {
            Err(LoginRefusal::Error(DisconnectSignal::ShutDown.message()))
        }
    };
    match outcome {
        Ok(LoggedIn::Console { grant, input }) => Some(LoginResult::Console(ConsoleLogin {
            grant,
            stream,
            input,
            names: names_sent.into_inner(),
        })),
        Ok(LoggedIn::Replication(login)) => {
            let client = ReplicationClient::new(proxy, stream, *login);
            Some(LoginResult::Replication(Box::new(client)))
        }
        Ok(LoggedIn::Client(login)) => Some(LoginResult::Client(Client {
            replicas: proxy.pools.replicas_beside(&login.pool),
            shards: proxy.pools.shards_beside(&login.pool),
            proxy,
            mode: login.pool.settings().pooling.pool_mode,
            admission: Admission::default(),
            taken: Taken::default(),
            budget: WorkBudget::default(),
            seen: Seen::default(),
            shards_seen: ShardsSeen::default(),
            deferred: None,
            idle_timer: None,
            trace: None,
            disconnect: login.pool.disconnect_signals(),
            pool_settings: login.pool.settings_cache(),
            pool: login.pool,
            stream,
            input: login.input,
            scanner: RequestScanner::default(),
            session: login.session,
            listening: None,
            registration: login.registration,
            _slot: login.slot,
        })),
        Err(refusal) => {
            let client = ClientNames {
                database: names_sent.get().map(|(database, _)| database.as_str()),
                user: names_sent.get().map(|(_, user)| user.as_str()),
                peer: &peer,
            };
            let age = proxy.shared.clock.seconds().saturating_sub(began);
            refuse(&proxy, &stream, refusal, client, age);
            None
        }
    }
}

/// Logs why there is no session, and sends the client its error. `age` is the age of the connection in seconds.
fn refuse(
    proxy: &Proxy,
    stream: &Stream,
    refusal: LoginRefusal,
    client: ClientNames<'_>,
    age: u32,
) {
    let logging = &proxy.config().paceline.logging;
    let LoginRefusal::Error(message) = refusal else {
        // A connection that sent no startup packet, such as that of a cancel request, is not logged at its end either.
        if client.user.is_some() {
            log::client_closed(logging, client, "client unexpected eof", age);
        }
        return;
    };
    if let Some(why) = first_words(&message) {
        log::pooler_error(logging, client, why);
        log::client_closed(logging, client, why, age);
    }
    // The connection is closed whether or not this write succeeds; Paceline does not wait for the socket.
    if !stream.has_partial_write() {
        let _ = stream.write_now(&mut BytesMut::from(message));
    }
}

/// The error in PgBouncer's words.
fn too_late_for(awaits_server: bool) -> LoginRefusal {
    let message = match awaits_server {
        true => "client_login_timeout (server down)",
        false => "client_login_timeout",
    };
    ErrorResponse::fatal("08P01", message).into()
}
