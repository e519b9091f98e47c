//! Messages that are written in part.

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
