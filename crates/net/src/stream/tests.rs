//! Partly written messages; keepalive.

use super::*;

#[tokio::test]
async fn a_write_is_partial_until_the_rest_is_written() {
    let (near, far) = UnixStream::pair().unwrap();
    let stream = Stream::unix(near);
    let mut message = BytesMut::from(vec![0; 8 << 20].as_slice());
    assert!(!stream.has_partial_write());
    stream.write_now(&mut message).unwrap();
    assert!(message.has_remaining() && stream.has_partial_write());
    let reading = tokio::spawn(async move {
        let far = Stream::unix(far);
        let mut received = BytesMut::new();
        while far.read_some(&mut received).await.is_ok() {}
    });
    stream.write_all(&mut message).await.unwrap();
    assert!(!stream.has_partial_write());
    drop(stream);
    reading.await.unwrap();
}

/// Values above zero are set, zero keeps the value of the system.
#[tokio::test]
async fn tcp_options_are_set_unless_they_are_zero() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let usual = TcpStream::connect(address).await.unwrap();
    let usual = SockRef::from(&usual);
    let seconds = Duration::from_secs;
    let set = async |settings: &TcpSettings| {
        let stream = Stream::tcp(TcpStream::connect(address).await.unwrap());
        stream.set_tcp_options(settings);
        let Socket::Tcp(socket) = stream.socket() else {
            panic!("{stream:?}")
        };
        let socket = SockRef::from(socket);
        (
            socket.keepalive().unwrap(),
            socket.tcp_keepalive_time().unwrap(),
            socket.tcp_keepalive_interval().unwrap(),
            socket.tcp_keepalive_retries().unwrap(),
            socket.tcp_user_timeout().unwrap(),
        )
    };
    let all = TcpSettings {
        keepalive: true,
        keepcnt: 3,
        keepidle: seconds(70),
        keepintvl: Duration::from_millis(250),
        user_timeout: Duration::from_millis(1_500),
    };
    let timeout = Some(Duration::from_millis(1_500));
    assert_eq!(set(&all).await, (true, seconds(70), seconds(1), 3, timeout));
    let (time, interval, retries) = (
        usual.tcp_keepalive_time().unwrap(),
        usual.tcp_keepalive_interval().unwrap(),
        usual.tcp_keepalive_retries().unwrap(),
    );
    let as_usual = |on| (on, time, interval, retries, None);
    let defaults = |keepalive| TcpSettings {
        keepalive,
        keepcnt: 0,
        keepidle: Duration::ZERO,
        keepintvl: Duration::ZERO,
        user_timeout: Duration::ZERO,
    };
    assert_eq!(set(&defaults(true)).await, as_usual(true));

    assert_eq!(set(&defaults(false)).await, as_usual(false));
}
