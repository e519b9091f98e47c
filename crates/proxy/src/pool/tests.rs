//! Pools without a server: what becomes of what they have and know.

use super::*;
use crate::server::ServerError;
use bytes::BytesMut;
use paceline_config::Config;
use paceline_net::Stream;
use paceline_relay::server::StatementKey;
use paceline_wire::ErrorResponse;
use std::time::Duration;
use tokio::net::UnixStream;

/// For failures only.
const LIMIT: Duration = Duration::from_secs(30);

/// Where these pools lead, nobody listens.
const FILE: &str = "[databases.app]\nprimary = \"postgres://127.0.0.1:1\"";

impl Pool {
    pub(crate) fn is_held(&self) -> bool {
        self.lock().hold != Hold::Open
    }

    /// A unit on this row departs on a further connection. `None`: the row is in flight, and nobody waits for it.
    pub(crate) fn set_off(
        &self,
        row: &LineKeys,
    ) -> Option<(Dispatch<Waiter>, oneshot::Receiver<Delivery>)> {
        let now = Instant::now();
        let mut inner = self.lock();
        let (answer, waits) = oneshot::channel();
        let waiter = Waiter {
            asks: Asks::Request,
            unit: None,
            answer,
            told_queued: false,
        };
        let spec = WaitSpec {
            keys: row.clone(),
            ..WaitSpec::default()
        };
        let waiter = inner.line.submit(now, spec, waiter);
        let dispatch = inner.line.next(now);
        match dispatch {
            Some(NextStep::Group(dispatch)) => {
                inner.open += 1;
                Some((dispatch, waits))
            }
            _ => {
                inner.line.withdraw(now, waiter);
                None
            }
        }
    }

    /// An attempt to open a connection begins.
    fn attempt(&self) -> Arc<Era> {
        let mut inner = self.lock();
        inner.open += 1;
        inner.opening += 1;
        Arc::clone(&inner.era)
    }

    /// Opens a connection; the other end of it is returned.
    fn connect(self: &Arc<Self>) -> UnixStream {
        let era = self.attempt();
        let (conn, server) = conn(self, &era);
        self.opened(era, Ok(conn));
        server
    }
}

fn conn(pool: &Pool, era: &Arc<Era>) -> (Box<ServerConn>, UnixStream) {
    let (socket, server) = UnixStream::pair().unwrap();
    let none = pool.proxy.book.none();
    let mut conn = ServerConn::new(Stream::unix(socket), &era.address, &none, 0);
    Arc::clone(era).bind(&mut conn);
    (Box::new(conn), server)
}

fn config(settings: &str) -> Config {
    Config::from_toml(&format!("[paceline]\n{settings}\n{FILE}"), "").unwrap()
}

fn pool_with(settings: &str) -> Arc<Pool> {
    let proxy = Arc::new(Proxy::new(config(settings)));
    proxy.pool("app", "web").unwrap()
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
    pool.lock().refusal(Instant::now()).is_some()
}

fn shown(password: &str) -> crate::auth::Credential {
    crate::auth::Credential::Password(paceline_config::Secret::new(password.to_owned()))
}

/// Somebody stands in the line.
fn wait_in(pool: &Arc<Pool>) -> oneshot::Receiver<Delivery> {
    match pool.submit(WaitSpec::default(), false, || None) {
        Submitted::Waiting(_, waits) => waits,
        Submitted::Seat(_) | Submitted::Refused(_) => panic!("nobody waits"),
    }
}

#[tokio::test]
async fn failures_are_of_an_era_and_a_password() {
    let pool = pool_with("");
    pool.has_been_shown(&shown("old"));
    pool.opened(pool.attempt(), failure());
    assert!(refuses(&pool));
    pool.has_been_shown(&shown("old"));
    assert!(refuses(&pool), "nothing is new");
    pool.has_been_shown(&shown("new"));
    assert!(!refuses(&pool));
    assert!(pool.lock().grow_not_before <= Instant::now());
    pool.opened(pool.attempt(), failure());
    assert!(refuses(&pool));
    pool.reconnect();
    assert!(!refuses(&pool));
}

/// As in PgBouncer: only a refused login is told.
#[tokio::test]
async fn clients_wait_for_a_server_that_cannot_be_reached() {
    let pool = pool_with("");
    pool.opened(pool.attempt(), unreachable());
    assert!(!refuses(&pool));
    let mut waits = wait_in(&pool);
    assert_eq!(pool.lock().opening, 0, "no attempt before its time");
    assert!(pool.lock().grow_not_before > Instant::now());
    pool.opened(pool.attempt(), unreachable());
    let later = wait_in(&pool);
    assert!(waits.try_recv().is_err());
    pool.opened(pool.attempt(), failure());
    for waits in [waits, later] {
        assert!(matches!(waits.await, Ok(Delivery::Fatal(_))));
    }
    assert!(refuses(&pool));
}

/// Who waits goes on waiting for what the new era brings.
#[tokio::test]
async fn a_failure_of_an_earlier_era_is_no_news() {
    let pool = pool_with("");
    let era = pool.attempt();
    let mut waits = wait_in(&pool);
    pool.reconnect();
    pool.opened(era, failure());
    assert!(!refuses(&pool));
    assert!(waits.try_recv().is_err());
    // Another attempt is made for who waits.
    assert_eq!(pool.lock().opening, 1);
}

#[tokio::test]
async fn clients_are_welcomed_as_the_server_does_that_there_is() {
    let pool = pool_with("");
    let _server = pool.connect();
    let (first, _other_end) = conn(&pool, &pool.attempt());
    pool.set_welcome(&pool.proxy.book.none(), Vec::new(), &first);
    assert!(pool.welcome(0).is_some());
    pool.reconnect();
    assert!(pool.welcome(0).is_some(), "nothing better is known");
    let _server = pool.connect();
    assert!(pool.welcome(0).is_none());
    pool.set_welcome(&pool.proxy.book.none(), Vec::new(), &first);
    assert!(pool.welcome(0).is_none(), "it comes from before");
}

#[tokio::test]
async fn what_was_found_out_of_another_server_is_forgotten() {
    let pool = pool_with("");
    pool.accepted(&[StatementKey::new(7, 0)]);
    pool.proxy.set_config(Arc::new(config("")));
    assert!(pool.has_accepted(7, 0), "it leads to the same place");
    pool.proxy.set_config(elsewhere());
    assert!(!pool.has_accepted(7, 0));
    let other = pool.proxy.asker("app", "somebody").unwrap();
    assert!(pool.quotas.share(&other.quotas, Full::User));
}

/// Else it would keep others from what it cannot use.
#[tokio::test]
async fn a_held_pool_is_not_hungry() {
    let pool = pool_with("max_db_connections = 1");
    pool.lock().hunger = Some(pool.quotas.hunger(Full::Database));
    pool.hold(Hold::Suspended);
    assert!(!pool.quotas.others_hunger());
}

#[tokio::test]
async fn a_pool_that_opens_none_for_an_exclusive_statement_is_not_hungry() {
    let pool = pool_with("max_db_connections = 1");
    pool.lock().hunger = Some(pool.quotas.hunger(Full::Database));
    let running = Arc::new(Use);
    pool.exclude(&Arc::downgrade(&running));
    assert!(!pool.quotas.others_hunger());
}

#[tokio::test]
async fn whoever_tends_a_line_learns_of_more_room() {
    let pool = pool_with("default_pool_size = 1");
    let told = || tokio::time::timeout(LIMIT, pool.look_again.notified());
    pool.hold(Hold::Suspended);
    told().await.unwrap();
    pool.hold(Hold::Open);
    told().await.unwrap();
    let larger = Arc::new(config("default_pool_size = 2"));
    pool.proxy.set_config(larger);
    told().await.unwrap();
}

#[tokio::test]
async fn a_shorter_lifetime_holds_for_connections_at_work() {
    let pool = pool_with("");
    let _server = pool.connect();
    let Submitted::Seat(seat) = pool.submit(WaitSpec::default(), false, || None) else {
        panic!("there is a connection");
    };
    // As if another one had just been replaced.
    pool.lock().retire_not_before = Instant::now() + Duration::from_secs(3_600);
    pool.proxy
        .set_config(Arc::new(config("server_lifetime = 0")));
    drop(seat);
    assert_eq!(pool.lock().open, 0);
}

/// Its place is free for the one that takes its place.
#[tokio::test]
async fn a_connection_that_is_worn_out_makes_room_for_the_next() {
    let pool = pool_with("max_db_connections = 1\nserver_lifetime = 0");
    let (era, settings) = (pool.attempt(), Arc::clone(&pool.settings()));
    let (mut conn, _server) = conn(&pool, &era);
    conn.place = Some(pool.quotas.server_place(&settings).unwrap());
    pool.lock().opening -= 1;
    let _waits = wait_in(&pool);
    pool.release(Some(conn), &LineKeys::Unknown);
    let inner = pool.lock();
    assert_eq!((inner.open, inner.opening), (1, 1));
}

#[tokio::test]
async fn a_suspended_pool_shows_its_connections_at_rest() {
    let pool = pool_with("");
    let _server = pool.connect();
    pool.hold(Hold::Suspended);
    let servers = pool.servers();
    assert!(servers.len() == 1 && servers.iter().all(|server| server.idle));
}

/// A client that leaves while it logs in.
#[tokio::test]
async fn an_abandoned_login_does_not_stay_in_the_line() {
    let pool = pool_with("");
    pool.hold(Hold::Paused);
    let mut login = Box::pin(crate::auth::seat(&pool));
    tokio::select! {
        biased;
        _ = &mut login => panic!("it is held"),
        () = std::future::ready(()) => {}
    }
    assert_eq!(pool.load().0.clients_waiting, 1);
    drop(login);
    assert_eq!(pool.load().0.clients_waiting, 0);
}
