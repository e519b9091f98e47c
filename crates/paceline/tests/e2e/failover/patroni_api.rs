//! Patroni's word, from a REST API that a test controls.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use super::{ADD, SETUP, end_of, shown, start};
use crate::harness::cluster::Cluster;
use crate::harness::message;
use crate::harness::raw::{PROTOCOL, RawClient};
use crate::harness::until;

/// A REST API that answers as Patroni does. The leader can be changed; `None` does not answer.
pub(super) struct Patroni {
    port: u16,
    leader: Arc<Mutex<Option<u16>>>,
    /// Questions that got no answer.
    ignored: Arc<AtomicUsize>,
}

impl Patroni {
    /// With this port of PostgreSQL as the leader.
    pub(super) fn start(leader: Option<u16>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let patroni = Self {
            port,
            leader: Arc::new(Mutex::new(leader)),
            ignored: Arc::default(),
        };
        let (leader, ignored) = (Arc::clone(&patroni.leader), Arc::clone(&patroni.ignored));
        // Ends with the process.
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, leader) = (stream.unwrap(), *leader.lock().unwrap());
                match leader {
                    Some(leader) => answer_as_patroni(stream, leader),
                    None => drop(ignored.fetch_add(1, Ordering::SeqCst)),
                }
            }
        });
        patroni
    }

    pub(super) fn set_leader(&self, leader: Option<u16>) {
        *self.leader.lock().unwrap() = leader;
    }

    pub(super) fn setting(&self) -> String {
        format!("patroni=http://127.0.0.1:{}", self.port)
    }
}

fn answer_as_patroni(mut stream: TcpStream, port: u16) {
    let mut request = [0; 1024];
    // A question that is given up gets no answer.
    let _ = stream.read(&mut request);
    let body = format!(
        r#"{{"members": [{{"name": "one", "role": "leader", "state": "running", "host": "127.0.0.1", "port": {port}}}]}}"#
    );
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length";
    let _ = write!(stream, "{head}: {}\r\n\r\n{body}", body.len());
}

/// PostgreSQL says that it is the primary, and Patroni names another host.
#[test]
fn a_primary_that_patroni_does_not_name_gets_no_request() {
    let (primary, patroni) = (Cluster::private(), Patroni::start(Some(1)));
    primary.client("postgres").ok(SETUP);
    let settings = [patroni.setting(), "failover_timeout=60s".to_owned()];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let paceline = start(&[&primary], &settings);
    let reason = || shown(&paceline, primary.port(), &["role", "reason"]);
    until("Patroni was asked", || {
        reason() == "rejected primary Patroni's leader is one"
    });
    let parameters = [("user", "postgres"), ("database", "postgres")];
    let mut client = RawClient::open(paceline.port());
    client.send(&message::startup(PROTOCOL, &parameters));
    patroni.set_leader(Some(primary.port()));
    client.receive_until(b"Z");
    client.ok(ADD);
    // If Patroni does not answer any more, its last answer holds.
    patroni.set_leader(None);
    until("Patroni was asked again", || {
        patroni.ignored.load(Ordering::SeqCst) > 1
    });
    assert_eq!(shown(&paceline, primary.port(), &["role"]), "primary");
    client.ok(ADD);
}

/// Replication clients, too, get only a primary.
#[test]
fn a_replication_client_gets_no_rejected_primary() {
    let (primary, patroni) = (Cluster::private(), Patroni::start(Some(1)));
    let setting = patroni.setting();
    let paceline = start(&[&primary], &[&setting, "failover_timeout=1s"]);
    let mut client = RawClient::open(paceline.port());
    let parameters = [
        ("user", "postgres"),
        ("database", "postgres"),
        ("replication", "database"),
    ];
    client.send(&message::startup(PROTOCOL, &parameters));
    assert_eq!(end_of(client), "57P03");
}
