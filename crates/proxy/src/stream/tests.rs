//! Messages that are written in part; signs of life.

use super::*;

#[tokio::test]
async fn a_message_is_cut_until_its_rest_is_written() {
    let (near, far) = UnixStream::pair().unwrap();
    let stream = Stream::unix(near);
    let mut message = BytesMut::from(vec![0; 8 << 20].as_slice());
    assert!(!stream.is_cut());
    stream.write_now(&mut message).unwrap();
    assert!(message.has_remaining() && stream.is_cut());
    let reading = tokio::spawn(async move {
        let far = Stream::unix(far);
        let mut heard = BytesMut::new();
        while far.read_some(&mut heard).await.is_ok() {}
    });
    stream.write_all(&mut message).await.unwrap();
    assert!(!stream.is_cut());
    drop(stream);
    reading.await.unwrap();
}

/// What is given is set, what is zero stays as the system has it.
#[tokio::test]
async fn tcp_is_told_when_to_ask_for_a_sign_of_life() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let usual = TcpStream::connect(address).await.unwrap();
    let usual = SockRef::from(&usual);
    let seconds = Duration::from_secs;
    let set = async |tcp: &Tcp| {
        let stream = Stream::tcp(TcpStream::connect(address).await.unwrap());
        stream.keep_alive(tcp);
        let Socket::Tcp(socket) = &stream.socket else {
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
    let all = Tcp {
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
    assert_eq!(set(&Tcp::default()).await, as_usual(true));
    let off = Tcp {
        keepalive: false,
        ..Tcp::default()
    };
    assert_eq!(set(&off).await, as_usual(false));
}
