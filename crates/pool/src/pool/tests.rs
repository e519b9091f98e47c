//! Pools without a server.

use super::*;
use crate::pools::Pools;
use crate::quota::Full;
use crate::server::{GenerationGuard, ServerError};
use bytes::BytesMut;
use paceline_batch::group_limit::FlightId;
use paceline_batch::line::NextStep;
use paceline_config::Config;
use paceline_net::Stream;
use paceline_relay::relay::Ddl;
use paceline_relay::sequences::SequenceToken;
use paceline_relay::server::{AcceptedParse, StatementKey};
use paceline_wire::ErrorResponse;
use std::time::Duration;
use tokio::net::UnixStream;

/// Only reached if a test fails.
const LIMIT: Duration = Duration::from_secs(30);

/// No server listens there.
const FILE: &str = "[databases.app]\nprimary = \"postgres://127.0.0.1:1\"";

impl Pool {
    pub(crate) fn is_active(&self) -> bool {
        self.lock().admin.state == PoolState::Active
    }

    /// Dequeues a request on this row for a further connection. `None`: the row is in flight.
    pub(crate) fn dequeue_one(
        &self,
        row: &LineKeys,
    ) -> Option<(Dispatch<Waiter>, oneshot::Receiver<WaitResult>)> {
        let now = Instant::now();
        let mut inner = self.lock();
        let (answer, waits) = oneshot::channel();
        let waiter = Waiter {
            purpose: Purpose::Request,
            request: None,
            answer,
            queued_sent: false,
            position: Lsn::ZERO,
        };
        let spec = WaitSpec {
            keys: row.clone(),
            ..WaitSpec::default()
        };
        let waiter = inner.line.submit(now, spec, waiter);
        let dispatch = inner.line.next(now, 1);
        match dispatch {
            Some(NextStep::Group(dispatch)) => {
                inner.servers.open += 1;
                Some((dispatch, waits))
            }
            _ => {
                inner.line.withdraw(now, waiter);
                None
            }
        }
    }

    /// Begins an attempt to open a connection.
    fn attempt(&self) -> Arc<Generation> {
        let mut inner = self.lock();
        inner.servers.open += 1;
        inner.servers.opening += 1;
        Arc::clone(&inner.servers.generation)
    }

    /// Opens a connection; returns its other end.
    fn connect(self: &Arc<Self>) -> UnixStream {
        let generation = self.attempt();
        let (conn, server) = conn(self, &generation);
        self.opened(generation, Ok(conn));
        server
    }
}

fn conn(pool: &Pool, generation: &Arc<Generation>) -> (Box<ServerConn>, UnixStream) {
    let (socket, server) = UnixStream::pair().unwrap();
    let none = pool.shared.settings_interner.none();
    let mut conn = ServerConn::new(Stream::unix(socket), &generation.address, &none, 0);
    conn.generation = Some(GenerationGuard::new(generation, &conn.stream));
    (Box::new(conn), server)
}

fn config(settings: &str) -> Config {
    Config::from_toml(&format!("[paceline]\n{settings}\n{FILE}"), "").unwrap()
}

fn pools_with(settings: &str) -> (Arc<Pools>, Arc<Pool>) {
    let pools = Pools::new(Arc::new(config(settings)));
    let pool = pools.pool("app", "web").unwrap();
    (pools, pool)
}

fn pool_with(settings: &str) -> Arc<Pool> {
    pools_with(settings).1
}

fn elsewhere() -> Arc<Config> {
    let text = FILE.replace("127.0.0.1:1", "somebody@127.0.0.2:1");
    Arc::new(Config::from_toml(&text, "").unwrap())
}

fn unreachable() -> Result<Box<ServerConn>, ServerError> {
    Err(std::io::Error::from(std::io::ErrorKind::ConnectionRefused).into())
}

fn failure() -> Result<Box<ServerConn>, ServerError> {
    let mut out = BytesMut::new();
    ErrorResponse::fatal("28P01", "wrong password").write(&mut out);
    Err(ServerError::Refused(out.freeze()))
}

fn refuses(pool: &Pool) -> bool {
    pool.lock().servers.refusal(Instant::now()).is_some()
}

fn shown(password: &str) -> crate::credentials::Credential {
    crate::credentials::Credential::Password(paceline_config::Secret::new(password.to_owned()))
}

/// Puts a request into the line.
fn wait_in(pool: &Arc<Pool>) -> oneshot::Receiver<WaitResult> {
    match pool.check_out(Admission::Limited, WaitSpec::default(), false, || None) {
        CheckoutResult::Waiting(_, waits) => waits,
        _ => panic!("the request waits"),
    }
}

#[tokio::test]
async fn failures_belong_to_a_generation_and_a_password() {
    let pool = pool_with("");
    pool.set_shown(&shown("old"));
    pool.opened(pool.attempt(), failure());
    assert!(refuses(&pool));
    pool.set_shown(&shown("old"));
    assert!(refuses(&pool), "nothing is new");
    pool.set_shown(&shown("new"));
    assert!(!refuses(&pool));
    assert!(pool.lock().servers.grow_not_before <= Instant::now());
    pool.opened(pool.attempt(), failure());
    assert!(refuses(&pool));
    pool.reconnect();
    assert!(!refuses(&pool));
}

/// As in PgBouncer, clients get an error only if a login is refused.
#[tokio::test]
async fn clients_wait_for_a_server_that_cannot_be_reached() {
    let pool = pool_with("");
    pool.opened(pool.attempt(), unreachable());
    assert!(!refuses(&pool));
    let mut waits = wait_in(&pool);
    assert_eq!(pool.lock().servers.opening, 0, "no attempt before its time");
    assert!(pool.lock().servers.grow_not_before > Instant::now());
    pool.opened(pool.attempt(), unreachable());
    let later = wait_in(&pool);
    assert!(waits.try_recv().is_err());
    pool.opened(pool.attempt(), failure());
    for waits in [waits, later] {
        assert!(matches!(waits.await, Ok(WaitResult::Fatal(_))));
    }
    assert!(refuses(&pool));
}

/// Requests go on waiting for a connection of the new generation.
#[tokio::test]
async fn a_failure_of_an_earlier_generation_is_ignored() {
    let pool = pool_with("");
    let generation = pool.attempt();
    let mut waits = wait_in(&pool);
    pool.reconnect();
    pool.opened(generation, failure());
    assert!(!refuses(&pool));
    assert!(waits.try_recv().is_err());
    // Another attempt is made for the request that waits.
    assert_eq!(pool.lock().servers.opening, 1);
}

#[tokio::test]
async fn parameters_are_those_of_the_current_server() {
    let pool = pool_with("");
    let _server = pool.connect();
    let (first, _other_end) = conn(&pool, &pool.attempt());
    pool.set_parameters(&pool.shared.settings_interner.none(), Vec::new(), &first);
    assert!(pool.parameters(0).is_some());
    pool.reconnect();
    assert!(pool.parameters(0).is_some(), "nothing better is known");
    let _server = pool.connect();
    assert!(pool.parameters(0).is_none());
    pool.set_parameters(&pool.shared.settings_interner.none(), Vec::new(), &first);
    assert!(pool.parameters(0).is_none(), "it comes from before");
}

#[tokio::test]
async fn analyses_of_another_server_are_dropped() {
    let (pools, pool) = pools_with("");
    pool.add_accepted(&[accepted(1)]);
    pools.set_config(Arc::new(config("")));
    assert!(pool.has_accepted(7, 0, 0), "it leads to the same place");
    pools.set_config(elsewhere());
    assert!(!pool.has_accepted(7, 0, 0));
    let other = pools.auth_pool("app", "somebody").unwrap();
    assert!(pool.quotas.share(&other.quotas, Full::User));
}

#[tokio::test]
async fn only_a_parse_that_was_written_after_ddl_found_its_changes() {
    let pool = pool_with("");
    let shared = &pool.shared;
    let (before, during) = (shared.templates.new_id(), shared.templates.new_id());
    shared.ddl_ended(Ddl::Relations);
    // Their answers arrive after the DDL.
    pool.add_accepted(&[accepted(during), accepted(before)]);
    assert!(pool.has_accepted(7, 0, 0));
    assert!(!pool.has_accepted(7, 0, shared.last_ddl()));
    pool.add_accepted(&[accepted(shared.templates.new_id())]);
    assert!(pool.has_accepted(7, 0, shared.last_ddl()));
}

/// A `Parse` of one statement that was written at this time.
fn accepted(written: u64) -> AcceptedParse {
    let statement = StatementKey::new(7, 0);
    AcceptedParse { statement, written }
}

/// Else it would keep others from a slot that it cannot use.
#[tokio::test]
async fn a_suspended_pool_does_not_starve() {
    let pool = pool_with("max_db_connections = 1");
    pool.lock().servers.starving = Some(pool.quotas.starving(Full::Database));
    pool.set_state(PoolState::Suspended);
    assert!(!pool.quotas.others_starve());
}

#[tokio::test]
async fn a_pool_does_not_starve_while_an_exclusive_statement_runs() {
    let pool = pool_with("max_db_connections = 1");
    pool.lock().servers.starving = Some(pool.quotas.starving(Full::Database));
    let running = Arc::new(ExclusiveUse);
    pool.exclude(&Arc::downgrade(&running));
    assert!(!pool.quotas.others_starve());
}

#[tokio::test]
async fn the_wait_timer_is_woken_when_more_connections_are_allowed() {
    let (pools, pool) = pools_with("default_pool_size = 1");
    let message = || tokio::time::timeout(LIMIT, pool.signals.look_again.notified());
    pool.set_state(PoolState::Suspended);
    message().await.unwrap();
    pool.set_state(PoolState::Active);
    message().await.unwrap();
    let larger = Arc::new(config("default_pool_size = 2"));
    pools.set_config(larger);
    message().await.unwrap();
}

#[tokio::test]
async fn a_shorter_lifetime_applies_to_connections_in_use() {
    let (pools, pool) = pools_with("");
    let _server = pool.connect();
    let CheckoutResult::Server(server) =
        pool.check_out(Admission::Limited, WaitSpec::default(), false, || None)
    else {
        panic!("there is a connection");
    };
    // As if another one had just been replaced.
    pool.lock().servers.lifetime_ends_not_before = Instant::now() + Duration::from_secs(3_600);
    pools.set_config(Arc::new(config("server_lifetime = 0")));
    drop(server);
    assert_eq!(pool.lock().servers.open, 0);
}

/// Another connection may have to discard what it remembers.
#[tokio::test]
async fn a_client_gets_the_connection_that_remembers_its_sequence_values() {
    let pool = pool_with("");
    let _servers = [pool.connect(), pool.connect(), pool.connect()];
    let (mut own, mut other) = (SequenceToken::default(), SequenceToken::default());
    let draw = |at: usize, token: &mut SequenceToken, id| {
        pool.lock().servers.idle[at]
            .side
            .sequences
            .draw(token, || id);
    };
    draw(0, &mut own, 1);
    draw(2, &mut other, 2);
    let take = |own| match pool.check_out_alone(Admission::Limited, own) {
        CheckoutResult::Server(mut server) => {
            let token = server.conn().expect("open").side.sequences.token();
            (token, server)
        }
        _ => panic!("there is a connection"),
    };
    let (got, _first) = take(own);
    assert_eq!(got, own);
    let (got, _second) = take(own);
    assert_eq!(got, other, "the connection that was used last");
}

#[tokio::test]
async fn waits_for_a_connection_that_was_opened_do_not_count() {
    let pool = pool_with("");
    let transaction = || pool.check_out_alone(Admission::Limited, SequenceToken::default());
    let _waits = [transaction(), transaction()];
    pool.lock()
        .servers
        .waits
        .add(clock::now(), Duration::from_millis(20));
    pool.lock().servers.opening = 0;
    let _server = pool.connect();
    pool.tick();
    assert_eq!(pool.lock().servers.opening, 0);
}

/// None of them is long enough to open a connection by itself.
#[tokio::test]
async fn short_waits_of_transactions_are_worth_a_connection_together() {
    let waits = |settings, check_out: fn(&Arc<Pool>) -> CheckoutResult| {
        let pool = pool_with(settings);
        let _server = pool.connect();
        let almost = Duration::from_millis(20) - Duration::from_nanos(1);
        pool.lock().servers.waits.add(clock::now(), almost);
        let holds = check_out(&pool);
        let _waits = [check_out(&pool), check_out(&pool)];
        // Its slot counts, although the connection has none.
        let slot = pool.quotas.server_slot(&pool.settings());
        drop(holds);
        pool.tick();
        drop(slot);
        pool.lock().servers.opening
    };
    let transaction =
        |pool: &Arc<Pool>| pool.check_out_alone(Admission::Limited, SequenceToken::default());
    let statement =
        |pool: &Arc<Pool>| pool.check_out(Admission::Limited, WaitSpec::default(), false, || None);
    assert_eq!(waits("", transaction), 1);
    assert_eq!(
        waits("", statement),
        0,
        "more connections make groups smaller"
    );
    assert_eq!(waits("max_db_connections = 1", transaction), 0);
}

/// Its slot is free for its successor.
#[tokio::test]
async fn a_closed_connection_leaves_its_slot_to_the_next() {
    let pool = pool_with("max_db_connections = 1\nserver_lifetime = 0");
    let (generation, settings) = (pool.attempt(), Arc::clone(&pool.settings()));
    let (mut conn, _server) = conn(&pool, &generation);
    conn.slot = Some(pool.quotas.server_slot(&settings).unwrap());
    pool.lock().servers.opening -= 1;
    let _waits = wait_in(&pool);
    pool.check_in(Some(conn), &LineKeys::Unknown, FlightId::UNCOUNTED);
    let inner = pool.lock();
    assert_eq!((inner.servers.open, inner.servers.opening), (1, 1));
}

#[tokio::test]
async fn a_suspended_pool_shows_its_connections_as_idle() {
    let pool = pool_with("");
    let _server = pool.connect();
    pool.set_state(PoolState::Suspended);
    let servers = pool.servers();
    assert!(servers.len() == 1 && servers.iter().all(|server| server.idle));
}

/// The line forgets a login that has waited, whether or not it was served.
#[tokio::test]
async fn a_request_that_has_left_the_line_leaves_no_trace() {
    let pool = pool_with("");
    let (dispatch, _waits) = pool.dequeue_one(&LineKeys::Unknown).expect("a request");
    let waiter = dispatch.entries[0].waiter;
    assert!(!pool.withdraw(waiter));
    assert!(pool.lock().unwanted.is_empty());
    pool.client_left(waiter);
    assert_eq!(pool.lock().unwanted.len(), 1);
    pool.forget(waiter);
    assert!(pool.lock().unwanted.is_empty());
}
