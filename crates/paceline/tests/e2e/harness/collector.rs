//! A collector of traces (OTLP over HTTP, JSON) that a test controls.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value;

use super::wait::until;

/// A collector. Ends with the process.
pub(crate) struct Collector {
    port: u16,
    spans: Arc<Mutex<Vec<ReceivedSpan>>>,
    connections: Arc<AtomicUsize>,
}

/// The treatment of spans by a collector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behaviour {
    Accepts,
    /// It reads requests and never answers.
    Silent,
    /// It answers with this status.
    Rejects(u16),
}

/// A span as it was received.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedSpan(Value);

impl Collector {
    pub(crate) fn start(behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let collector = Self {
            port: listener.local_addr().unwrap().port(),
            spans: Arc::default(),
            connections: Arc::default(),
        };
        let (spans, connections) = (
            Arc::clone(&collector.spans),
            Arc::clone(&collector.connections),
        );
        thread::spawn(move || {
            let mut unanswered = Vec::new();
            for stream in listener.incoming() {
                connections.fetch_add(1, Ordering::SeqCst);
                let mut stream = stream.unwrap();
                // A request that is given up is no request.
                let Some(body) = read_request(&stream) else {
                    continue;
                };
                match behaviour {
                    Behaviour::Accepts => {
                        spans.lock().unwrap().extend(spans_of(&body));
                        answer(&mut stream, 200);
                    }
                    Behaviour::Silent => unanswered.push(stream),
                    Behaviour::Rejects(status) => answer(&mut stream, status),
                }
            }
        });
        collector
    }

    /// The setting of Paceline that names it.
    pub(crate) fn setting(&self) -> String {
        format!("otlp_endpoint=http://127.0.0.1:{}/v1/traces", self.port)
    }

    /// The number of connections that it has accepted.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Returns the spans for which `is_wanted` holds when there are `count` of them or more.
    #[track_caller]
    pub(crate) fn await_spans(
        &self,
        count: usize,
        is_wanted: impl Fn(&ReceivedSpan) -> bool,
    ) -> Vec<ReceivedSpan> {
        let mut found = Vec::new();
        until(&format!("{count} spans have arrived"), || {
            let spans = self.spans.lock().unwrap();
            found = spans
                .iter()
                .filter(|span| is_wanted(span))
                .cloned()
                .collect();
            found.len() >= count
        });
        found
    }
}

/// The body of a POST to the right path.
fn read_request(stream: &TcpStream) -> Option<Vec<u8>> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    if line.is_empty() {
        return None;
    }
    assert_eq!(line, "POST /v1/traces HTTP/1.1\r\n");
    let (mut length, mut kind) = (0, String::new());
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().unwrap(),
            "content-type" => kind = value.to_owned(),
            _ => {}
        }
    }
    assert_eq!(kind, "application/json");
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(body)
}

fn spans_of(body: &[u8]) -> Vec<ReceivedSpan> {
    let body: Value = serde_json::from_slice(body).unwrap();
    let scope = &body["resourceSpans"][0]["scopeSpans"][0];
    let spans = scope["spans"].as_array().unwrap();
    spans.iter().cloned().map(ReceivedSpan).collect()
}

fn answer(stream: &mut TcpStream, status: u16) {
    let head = format!("HTTP/1.1 {status} x\r\nContent-Type: application/json\r\n");
    // Paceline may have given up.
    let _ = write!(stream, "{head}Content-Length: 2\r\n\r\n{{}}");
}

impl ReceivedSpan {
    /// A field of the span itself; empty if it is missing.
    pub(crate) fn field(&self, name: &str) -> &str {
        self.0[name].as_str().unwrap_or_default()
    }

    /// An attribute as text; empty if it is missing.
    pub(crate) fn attribute(&self, key: &str) -> String {
        let attributes = self.0["attributes"].as_array().unwrap();
        let found = attributes.iter().find(|attribute| attribute["key"] == key);
        let value = found.and_then(|found| found["value"].as_object());
        match value.and_then(|value| value.values().next()) {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => String::new(),
        }
    }

    /// The trace and the span of each link.
    pub(crate) fn links(&self) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let links = self.0["links"].as_array().unwrap().iter();
        links
            .map(|link| (text(&link["traceId"]), text(&link["spanId"])))
            .collect()
    }

    /// Its trace and itself.
    pub(crate) fn ids(&self) -> (String, String) {
        let ids = ["traceId", "spanId"].map(|name| self.field(name).to_owned());
        ids.into()
    }

    /// Whether its status is an error.
    pub(crate) fn failed(&self) -> bool {
        self.0["status"]["code"] == 2
    }

    /// Nanoseconds since 1970 at its beginning and at its end.
    pub(crate) fn times(&self) -> [u128; 2] {
        ["startTimeUnixNano", "endTimeUnixNano"].map(|name| self.field(name).parse().unwrap())
    }
}
