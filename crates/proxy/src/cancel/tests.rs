//! Cancel requests and the server that must take them.

use super::*;
use crate::proxy::Proxy;
use paceline_config::{Config, Host, SslMode, Tcp, Upstream, UpstreamTls};
use paceline_net::Peer;
use paceline_pool::address::Address;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

const KEY: CancelKey = CancelKey {
    process: 7,
    secret: 3,
};

/// A server that accepts connections, and a client that relays there.
async fn relaying() -> (TcpListener, Arc<ClientEntry>) {
    let server = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = server.local_addr().expect("an address").port();
    let address = Address {
        upstream: Upstream {
            host: Host::Tcp("127.0.0.1".to_owned()),
            port,
            user: None,
            password: None,
            dbname: None,
            tls: UpstreamTls {
                sslmode: Some(SslMode::Disable),
                ..UpstreamTls::default()
            },
        },
        database: "app".to_owned(),
        user: "app".to_owned(),
        keyring: Arc::default(),
        compression: None,
        location: None,
        startup: Vec::new(),
        connect_query: String::new(),
        tcp: Tcp::default(),
    };
    let config = Config::for_upstream("postgres://db").expect("a configuration");
    let proxy = Arc::new(Proxy::new(config));
    let pool = proxy.pools.pool("app", "rider").expect("a pool");
    let client = Arc::new(ClientEntry {
        info: ClientInfo::new(&pool, Peer::Disconnected, None),
        key: KEY,
        state: Mutex::default(),
        delivered: Notify::new(),
        in_flight_cancelled: Notify::new(),
    });
    client.set_state(ClientState::Relaying(BackendKey::new(
        &Arc::new(address),
        None,
    )));
    (server, client)
}

/// The sender's login time may be over before the server has taken the request. That must not block the client.
#[tokio::test]
async fn an_abandoned_cancel_request_does_not_block_the_client() {
    let (server, client) = relaying().await;
    let cancels = CancelKeys::default();
    cancels.lock().insert(7, Arc::clone(&client));
    tokio::select! {
        _ = cancels.cancel(KEY, Duration::from_secs(10)) => panic!("the server has not answered"),
        taken = server.accept() => drop(taken.expect("the cancel request")),
    }
    assert_eq!(client.lock().cancels_in_flight, 0);
    assert!(client.relay_ends().await, "the server may take it later");
    assert!(
        !client.relay_ends().await,
        "the next relay has no cancel request"
    );
}

/// The server accepts the connection and does not answer: `cancel_wait_timeout`.
#[tokio::test]
async fn a_cancel_request_that_the_server_does_not_take_times_out() {
    let (_server, client) = relaying().await;
    let cancels = CancelKeys::default();
    cancels.lock().insert(7, Arc::clone(&client));
    assert!(cancels.cancel(KEY, Duration::from_millis(20)).await);
    assert!(client.relay_ends().await, "the server may take it later");
}

#[tokio::test]
async fn a_cancel_request_that_the_server_confirms_is_not_pending() {
    let (server, client) = relaying().await;
    let cancels = CancelKeys::default();
    cancels.lock().insert(7, Arc::clone(&client));
    let take = async {
        let (mut socket, _) = server.accept().await.expect("the cancel request");
        let mut request = [0; 16];
        socket.read_exact(&mut request).await.expect("16 bytes");
    };
    tokio::join!(cancels.cancel(KEY, Duration::from_secs(10)), take);
    assert!(!client.relay_ends().await);
}

/// Its request is neither in the line nor at a server.
#[tokio::test]
async fn a_client_that_waits_for_an_analysis_can_cancel() {
    let (_server, client) = relaying().await;
    let cancels = CancelKeys::default();
    cancels.lock().insert(7, Arc::clone(&client));
    assert_eq!(
        client
            .unless_cancelled(ClientState::Starting, async { 1 })
            .await,
        Some(1)
    );
    let cancelled = cancels.cancel(KEY, Duration::ZERO);
    assert_eq!(
        client
            .unless_cancelled(ClientState::Starting, cancelled)
            .await,
        None
    );
    assert_eq!(
        client
            .unless_cancelled(ClientState::Starting, async { 2 })
            .await,
        Some(2)
    );
}
