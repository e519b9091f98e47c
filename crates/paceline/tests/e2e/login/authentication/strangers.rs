//! The cost of clients that have not logged in, and of servers that have not proved their identity: time, memory and processors are
//! bounded. docs/threat-model.md names these tests.

use super::*;
use crate::harness::message::terminate;
use crate::harness::until;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

/// Memory that a connection may cost before its login, in KiB.
const CONNECTION_KIB_MAX: u64 = 24;

fn strangers(cluster: &Cluster) -> Builder {
    let users = userlist(&[("app", "of the app")]);
    start(cluster)
        .set("auth_type=scram-sha-256")
        .set(&format!("auth_file={}", users.display()))
}

fn has_room(paceline: &Paceline) -> bool {
    let done = psql("127.0.0.1", paceline.port(), "app", "of the app").output();
    done.unwrap().status.success()
}

/// Raises the number of files that this process may open; returns it.
fn open_files() -> u64 {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
    hard
}

#[test]
fn ten_thousand_half_open_connections_take_little_memory_and_end() {
    let Some(cluster) = cluster() else { return };
    // Both processes have a file for each, and other tests run beside.
    let peers = (open_files() / 2 - 500).min(10_000);
    let paceline = strangers(&cluster)
        .set(&format!("max_client_conn={peers}"))
        .set("client_login_timeout=0")
        .spawn();
    assert!(has_room(&paceline));
    let before = paceline.memory_kib("VmRSS");
    // Half of them have sent the beginning of a startup packet.
    let part = &startup(PROTOCOL, &[("user", "app")])[..15];
    let open: Vec<TcpStream> = (0..peers)
        .map(|number| {
            let mut stream = TcpStream::connect(("127.0.0.1", paceline.port())).unwrap();
            if number.is_multiple_of(2) {
                stream.write_all(part).unwrap();
            }
            stream
        })
        .collect();
    until("all connections are accepted", || !has_room(&paceline));
    let mut surplus = RawClient::open(paceline.port());
    surplus.send(&startup(PROTOCOL, &[("user", "app")]));
    let last = surplus.receive_to_end().pop().unwrap().fields();
    assert!(last.text().contains("max_client_conn"), "{last:?}");
    let each = (paceline.memory_kib("VmRSS") - before) / peers;
    println!("{peers} connections, {each} KiB each");
    assert!(each <= CONNECTION_KIB_MAX);
    drop(open);
    until("there is room again", || has_room(&paceline));
}

/// A byte now and then does not prolong the login.
#[test]
fn peers_that_send_byte_by_byte_are_disconnected_in_time() {
    let Some(cluster) = cluster() else { return };
    const PEERS: usize = 100;
    let paceline = strangers(&cluster)
        .set(&format!("max_client_conn={}", PEERS + 1))
        .set("client_login_timeout=2")
        .spawn();
    let long = "x".repeat(9_900);
    let packet = startup(PROTOCOL, &[("user", "app"), ("application_name", &long)]);
    thread::scope(|scope| {
        for _ in 0..PEERS {
            scope.spawn(|| {
                let mut stream = TcpStream::connect(("127.0.0.1", paceline.port())).unwrap();
                stream
                    .set_read_timeout(Some(Duration::from_millis(20)))
                    .unwrap();
                let answer = dribble(&mut stream, &packet);
                let text = String::from_utf8_lossy(&answer);
                assert!(text.contains("client_login_timeout"), "{text}");
            });
        }
        assert!(has_room(&paceline));
    });
}

/// Sends one byte after another; returns the bytes that the peer has sent when it closes the connection.
fn dribble(stream: &mut TcpStream, packet: &[u8]) -> Vec<u8> {
    let mut answer = Vec::new();
    for byte in packet {
        if stream.write_all(&[*byte]).is_err() {
            return answer;
        }
        let mut buffer = [0; 1_024];
        match stream.read(&mut buffer) {
            Ok(0) => return answer,
            Ok(read) => answer.extend(&buffer[..read]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return answer,
        }
    }
    panic!("the whole packet was read");
}

/// The length of a message alone takes no memory.
#[test]
fn announced_gigabytes_take_no_memory() {
    let Some(cluster) = cluster() else { return };
    // A message that arrives in parts occupies a server connection.
    let paceline = start(&cluster)
        .set("auth_type=trust")
        .set("default_pool_size=30")
        .spawn();
    let login = [("user", "postgres"), ("database", "postgres")];
    let before = paceline.memory_kib("VmHWM");
    let mut announcing = Vec::new();
    for tag in *b"QPBd" {
        for _ in 0..5 {
            let mut client = RawClient::connect(paceline.port(), &login);
            client.send(&[&[tag][..], &0x3fff_fff0_u32.to_be_bytes(), b"SELECT"].concat());
            announcing.push(client);
        }
    }
    let mut other = RawClient::connect(paceline.port(), &login);
    other.ok("SELECT 1");
    let after = paceline.memory_kib("VmHWM");
    println!("{} KiB before, {} KiB after", before, after);
    assert!(after - before < 16 << 10);
    other.send(&terminate());
}

/// A server that wants a proof of a billion iterations gets none, and other databases are served.
#[test]
fn a_server_cannot_occupy_a_processor() {
    let Some(cluster) = cluster() else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let hostile = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        message_of(&mut stream, false);
        stream
            .write_all(&any(b'R', b"\0\0\0\x0aSCRAM-SHA-256\0\0"))
            .unwrap();
        let initial = message_of(&mut stream, true);
        let initial = String::from_utf8_lossy(&initial);
        let nonce = initial.rsplit("r=").next().unwrap();
        let challenge = format!("r={nonce}more,s=QUFBQUFBQUFBQUFBQUFBQQ==,i=1000000000");
        stream
            .write_all(&any(b'R', &[b"\0\0\0\x0b", challenge.as_bytes()].concat()))
            .unwrap();
        // Nothing but the end of the connection follows.
        message_of(&mut stream, true)
    });
    let paceline = Paceline::configured(&format!(
        "[databases.good]\nprimary = \"postgres://127.0.0.1:{}/postgres\"\n\
         [databases.bad]\nprimary = \"postgres://app:secret@127.0.0.1:{port}/postgres?sslmode=disable\"\n",
        cluster.port()
    ))
    .spawn();
    let mut waiting = RawClient::open(paceline.port());
    waiting.send(&startup(
        PROTOCOL,
        &[("user", "postgres"), ("database", "bad")],
    ));
    let good = [("user", "postgres"), ("database", "good")];
    let mut served = RawClient::connect(paceline.port(), &good);
    assert_eq!(served.number("SELECT 1"), 1);
    assert_eq!(hostile.join().unwrap(), b"");
    until("the reason is logged", || {
        paceline.logged("iteration count")
    });
    assert_eq!(served.number("SELECT 2"), 2);
}

/// The body of the next message; empty if the connection ends.
fn message_of(stream: &mut TcpStream, tagged: bool) -> Vec<u8> {
    let mut header = vec![0; 4 + usize::from(tagged)];
    if stream.read_exact(&mut header).is_err() {
        return Vec::new();
    }
    let length: [u8; 4] = *header.last_chunk().unwrap();
    let mut body = vec![0; u32::from_be_bytes(length) as usize - 4];
    stream.read_exact(&mut body).unwrap();
    body
}

/// A client cannot make Paceline repeat the handshake of TLS 1.2, which costs a server more than its client.
#[test]
fn handshakes_are_not_repeated() {
    let Some(cluster) = cluster() else { return };
    let folder = caretaker::folder("t");
    let made = program("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
        ])
        .args(["-nodes", "-days", "1", "-subj", "/CN=localhost"])
        .args(["-keyout", "key.pem", "-out", "certificate.pem"])
        .current_dir(&folder)
        .stderr(Stdio::null())
        .status();
    assert!(made.unwrap().success());
    let paceline = strangers(&cluster)
        .set("client_tls_sslmode=require")
        .set(&format!(
            "client_tls_cert_file={}/certificate.pem",
            folder.display()
        ))
        .set(&format!("client_tls_key_file={}/key.pem", folder.display()))
        .spawn();
    let mut client = program("openssl")
        .args(["s_client", "-starttls", "postgres", "-tls1_2"])
        .args(["-connect", &format!("127.0.0.1:{}", paceline.port())])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A line "R" makes it ask for another handshake.
    client.stdin.take().unwrap().write_all(b"R\n").unwrap();
    let done = client.wait_with_output().unwrap();
    let printed = [done.stdout, done.stderr].concat();
    let printed = String::from_utf8_lossy(&printed);
    assert!(printed.contains("RENEGOTIATING"), "{printed}");
    assert!(printed.contains("no renegotiation"), "{printed}");
}
