//! The least of an HTTP client: one request per connection, answers read to their end.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::wait::LIMIT;

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Answer {
    /// The value of a header, named in small letters.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let headers = self.head.lines().filter_map(|line| line.split_once(": "));
        let mut named = headers.filter(|(key, _)| key.eq_ignore_ascii_case(name));
        named.next().map(|(_, value)| value)
    }
}

/// A connection that has sent nothing yet.
pub(crate) fn open(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream
}

/// GET.
#[track_caller]
pub(crate) fn get(address: &str, path: &str) -> Answer {
    ask(address, "GET", path)
}

/// A request without a body.
#[track_caller]
pub(crate) fn ask(address: &str, method: &str, path: &str) -> Answer {
    let mut stream = open(address);
    let request = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    answer(stream)
}

/// A request with these headers and this body.
#[track_caller]
pub(crate) fn send(address: &str, first: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let mut stream = open(address);
    let mut request = format!("{first} HTTP/1.1\r\nHost: {address}\r\n");
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    request.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
    stream.write_all(request.as_bytes()).unwrap();
    answer(stream)
}

fn answer(mut stream: TcpStream) -> Answer {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let (first, head) = head.split_once("\r\n").unwrap();
    let status = first.split(' ').nth(1).unwrap();
    Answer {
        status: status.parse().unwrap(),
        head: head.to_owned(),
        body: body.to_owned(),
    }
}
