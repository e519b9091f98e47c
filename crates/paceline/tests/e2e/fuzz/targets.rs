//! The targets: each reads an input as Paceline does and checks conditions that hold for any bytes. The returned number identifies the
//! result, so that inputs with a new result are recognised.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZeroU32;

use bytes::BytesMut;
use paceline_relay::request::{Boundary, RequestScanner};
use paceline_wire::auth::{Credential, Login, Progress};
use paceline_wire::frame::{HEADER_LEN, split_message};
use paceline_wire::frontend::{BindNames, BindValues, Parse, Target, tag};
use paceline_wire::scram::server::AwaitProof;
use paceline_wire::scram::{self, Keys, Stretch};
use paceline_wire::startup::{self, Packet};
use paceline_wire::{Frames, WireError, backend};

/// The random bytes of a client's nonce.
const RANDOM: [u8; scram::NONCE_LEN] = [7; scram::NONCE_LEN];

pub(super) fn outcome(seen: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    seen.hash(&mut hasher);
    hasher.finish()
}

/// The variant of the error, without its content.
fn kind<T>(result: &Result<T, WireError>) -> Option<std::mem::Discriminant<WireError>> {
    result.as_ref().err().map(std::mem::discriminant)
}

/// All readers split the bytes into the same messages, and no byte is lost.
pub(super) fn frames(input: &[u8]) -> u64 {
    let mut frames = Frames::new(input);
    let mut buffer = BytesMut::from(input);
    let mut tags = Vec::new();
    let end = loop {
        let (frame, message) = (frames.next_frame(), split_message(&mut buffer));
        assert_eq!(kind(&frame), kind(&message));
        let (Ok(Some(frame)), Ok(Some((tag, message)))) = (&frame, &message) else {
            assert!(!matches!(
                (&frame, &message),
                (Ok(Some(_)), _) | (_, Ok(Some(_)))
            ));
            break kind(&frame);
        };
        assert_eq!((frame.tag, frame.bytes), (*tag, &message[..]));
        assert_eq!(frame.body().len() + HEADER_LEN, frame.bytes.len());
        tags.push(frame.tag);
    };
    assert_eq!(frames.rest(), &buffer[..]);
    outcome((tags, end))
}

/// Bodies of servers' messages, for each reader, with any type in front of them.
pub(super) fn server_messages(input: &[u8]) -> u64 {
    let mut seen = Vec::new();
    for frame in Frames::new(input) {
        let body = frame.body();
        let values = backend::row_values(body);
        let fields = backend::read_fields(body);
        if let Ok(fields) = &fields {
            let mut written = BytesMut::new();
            backend::write_fields(&mut written, fields, &[0]);
            let again = Frames::new(&written)
                .next()
                .map(|frame| backend::read_fields(frame.body()));
            assert_eq!(again.as_ref(), Some(&Ok(fields.clone())));
        }
        let mut told = BytesMut::new();
        backend::write_error_with(body, b'M', "told", &mut told);
        let told = Frames::new(&told).next().unwrap();
        if let Some(message) = backend::error_field(told.body(), b'M') {
            assert_eq!(message, "told");
        }
        seen.push((
            frame.tag,
            values.as_ref().map(Vec::len).ok(),
            fields.as_ref().map(Vec::len).ok(),
            kind(&backend::read_parameter_types(body)),
            kind(&backend::read_parameter_status(body)),
            kind(&backend::read_backend_key(body)),
            kind(&backend::Status::read(body)),
            backend::affected_rows(body).is_some(),
            backend::error_field(body, b'C').map(str::len),
        ));
    }
    outcome(seen)
}

/// Bodies of clients' messages: what is read is written again byte for byte.
pub(super) fn client_messages(input: &[u8]) -> u64 {
    let mut seen = Vec::new();
    for frame in Frames::new(input) {
        let mut written = BytesMut::new();
        let error = match frame.tag {
            tag::PARSE => {
                let parse = Parse::read(frame.body());
                let _ = parse.as_ref().map(|parse| parse.write(&mut written));
                kind(&parse)
            }
            tag::BIND => {
                let names = BindNames::read(frame.body());
                let _ = names.as_ref().map(|names| names.write(&mut written));
                kind(&names.and_then(|names| read_values(frame.body(), names.rest)))
            }
            tag::DESCRIBE | tag::CLOSE => {
                let target = Target::read(frame.body());
                let _ = target
                    .as_ref()
                    .map(|target| target.write(&mut written, frame.tag));
                kind(&target)
            }
            _ => None,
        };
        // Bytes after the last field are not kept; nothing else may differ.
        let same = frame.bytes.get(HEADER_LEN..written.len());
        assert_eq!(
            same.unwrap_or_default(),
            written.get(HEADER_LEN..).unwrap_or_default()
        );
        seen.push((frame.tag, error));
    }
    outcome(seen)
}

/// Values of a Bind are within its body.
fn read_values(body: &[u8], rest: &[u8]) -> Result<usize, WireError> {
    let values = BindValues::read(rest, body.len() - rest.len())?;
    assert_eq!(values.binary.len(), values.values.len());
    for range in values.values.iter().flatten() {
        assert!(body.get(range.clone()).is_some());
    }
    Ok(values.values.len())
}

/// Units end at the same places, however the bytes arrive; what is relayed before a unit ends depends on that.
pub(super) fn units(input: &[u8]) -> u64 {
    let (whole, boundaries) = scanned(input, input.len());
    for step in [1, 7] {
        assert_eq!(whole, scanned(input, step).0, "{step} bytes at a time");
    }
    outcome(format!("{boundaries:?}"))
}

/// The ends of messages that end a unit or ask for answers, and the cause of the scan's end.
#[derive(Debug, PartialEq, Eq)]
struct Scanned {
    ends: Vec<usize>,
    end: Option<ScanEnd>,
}

#[derive(Debug, PartialEq, Eq)]
enum ScanEnd {
    /// A long message begins here; what follows is not the scanner's.
    Long(usize),
    Error(WireError),
}

/// The results of a scanner while `step` more bytes arrive at a time, up to an error or the end.
fn scanned(input: &[u8], step: usize) -> (Scanned, Vec<Boundary>) {
    let (mut scanner, mut buffer) = (RequestScanner::default(), BytesMut::new());
    let (mut at, mut ends, mut boundaries) = (0, Vec::new(), Vec::new());
    for chunk in input.chunks(step.max(1)) {
        buffer.extend_from_slice(chunk);
        loop {
            let is_first = !scanner.is_in_ignored();
            let (boundary, len) = match scanner.scan(&buffer) {
                Ok(Boundary::Incomplete) => break,
                Ok(Boundary::Ignored(len)) => {
                    assert!((1..=buffer.len()).contains(&len));
                    at += len;
                    let first = buffer.split_to(len).first().copied();
                    if is_first && first == Some(tag::FLUSH) {
                        ends.push(at);
                    }
                    continue;
                }
                Ok(Boundary::Long(len)) => {
                    assert!(len < buffer.len());
                    let end = Some(ScanEnd::Long(at + len));
                    return (Scanned { ends, end }, boundaries);
                }
                Err(error) => {
                    let end = Some(ScanEnd::Error(error));
                    return (Scanned { ends, end }, boundaries);
                }
                Ok(
                    boundary @ (Boundary::Complete(len)
                    | Boundary::Relay(len)
                    | Boundary::Terminate(len)),
                ) => (boundary, len),
            };
            assert!((1..=buffer.len()).contains(&len));
            let taken = buffer.split_to(len);
            let mut frames = Frames::new(&taken);
            for frame in frames.by_ref() {
                at += frame.bytes.len();
                if matches!(frame.tag, tag::QUERY | tag::SYNC | tag::FUNCTION_CALL)
                    || matches!(frame.tag, tag::FLUSH | tag::TERMINATE)
                {
                    ends.push(at);
                }
            }
            assert!(frames.rest().is_empty(), "whole messages");
            let last = ends.last() == Some(&at);
            assert!(last || matches!(boundary, Boundary::Relay(_)));
            boundaries.push(boundary);
        }
    }
    (Scanned { ends, end: None }, boundaries)
}

/// A packet is read when it is complete, and not before; writing it again gives the same content.
pub(super) fn startup_packets(input: &[u8]) -> u64 {
    let read = startup::read(input);
    if let Ok(Some((packet, len))) = &read {
        assert!((8..=startup::PACKET_LEN_MAX.min(input.len())).contains(len));
        for cut in 0..*len {
            assert_eq!(
                startup::read(&input[..cut]),
                Ok(None),
                "{cut} bytes of {len}"
            );
        }
        let mut written = BytesMut::new();
        match packet {
            Packet::Startup(startup) if startup.minor == 0 => startup.write(&mut written),
            Packet::Cancel { process, secret } => {
                startup::write_cancel(&mut written, *process, *secret)
            }
            _ => return outcome(*len),
        }
        let again = startup::read(&written).unwrap();
        assert_eq!(again.map(|(packet, _)| packet).as_ref(), Some(packet));
        if let Packet::Startup(startup) = packet {
            return outcome((
                startup.parameters.len(),
                startup.unsupported_extensions(&[]).len(),
            ));
        }
    }
    outcome(kind(&read))
}

/// A server that does not know the password is never believed to know it.
pub(super) fn logins(input: &[u8]) -> u64 {
    let mut login = Login::new("user", Credential::Password("pencil"), RANDOM);
    let nonce = scram::nonce(RANDOM);
    let keys = Keys::derive(b"pencil", &stretch());
    let mut out = BytesMut::new();
    let mut seen = Vec::new();
    for frame in Frames::new(input) {
        let body = replaced(frame.body(), b"NONCE", nonce.as_bytes());
        out.clear();
        let progress = login.handle(&body, &mut out);
        if matches!(progress, Ok(Progress::WantsKeys(_))) {
            assert_eq!(login.give(&keys, &mut out), Ok(()));
        }
        assert!(Frames::new(&out).all(|frame| frame.tag == b'p'));
        assert!(
            !matches!(progress, Ok(Progress::Nothing)),
            "a proof out of thin air"
        );
        seen.push((
            progress.as_ref().ok().map(std::mem::discriminant),
            kind(&progress),
        ));
        if progress.is_err() {
            break;
        }
    }
    outcome(seen)
}

/// A client that does not know the password never proves that it does. The first message is the client's first, every later one an attempt
/// at its last; the type decides whether the proof binds the channel.
pub(super) fn proofs(input: &[u8]) -> u64 {
    let mut frames = Frames::new(input);
    let Some(first) = frames.next() else {
        return 0;
    };
    let (mechanism, channel) = match first.tag {
        b'P' => ("SCRAM-SHA-256-PLUS", Some(b"channel".as_slice())),
        _ => ("SCRAM-SHA-256", None),
    };
    let mut seen = Vec::new();
    for last in frames {
        let verifier = Keys::derive(b"pencil", &stretch()).verifier(stretch());
        let challenged =
            AwaitProof::challenge(mechanism, first.body(), verifier, "server", channel);
        let proved = challenged.and_then(|(awaits, challenge)| {
            let both = challenge.split([',', '=']).nth(1).unwrap_or_default();
            awaits.verify(&replaced(last.body(), b"NONCE", both.as_bytes()))
        });
        assert!(proved.is_err(), "a proof out of thin air");
        seen.push(kind(&proved));
    }
    outcome(seen)
}

fn stretch() -> Stretch {
    Stretch {
        salt: b"salt".to_vec(),
        iterations: NonZeroU32::MIN,
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
}

fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let Some(at) = find(bytes, from) else {
        return bytes.to_vec();
    };
    [&bytes[..at], to, &bytes[at + from.len()..]].concat()
}
