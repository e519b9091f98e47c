//! The first packets of a connection: TLS, on request or directly, then a startup packet or a cancel request.
//!
//! Bytes that arrive before the handshake are never used after it: an attacker may have inserted them (CVE-2021-23214).

use crate::login_refusal::LoginRefusal;
use crate::proxy::Proxy;
use bytes::{Buf, BytesMut};
use paceline_net::Stream;
use paceline_wire::startup::{self, Packet, Startup};
use paceline_wire::{ErrorResponse, WireError};
use std::sync::Arc;

/// First byte of a TLS handshake. A packet of PostgreSQL begins with its length, whose first byte is zero.
const TLS_HANDSHAKE: u8 = 0x16;

/// The packet that ends the opening.
pub(super) enum Opening {
    /// The client wants to log in.
    Startup(Startup),
    /// The client wants to cancel a request.
    Cancel {
        /// The first half of the key.
        process: u32,
        /// The other half.
        secret: u32,
    },
}

/// Kinds of encryption that the client has requested, and must not request again.
#[derive(Default)]
struct RequestedEncryption {
    tls: bool,
    gss: bool,
}

/// Reads packets up to a startup packet or a cancel request, and encrypts the stream on request. A client may request each kind
/// of encryption once, and none on an encrypted connection. Malformed packets get PostgreSQL's answers.
pub(super) async fn read_opening(
    proxy: &Arc<Proxy>,
    stream: &mut Stream,
    input: &mut BytesMut,
) -> Result<Opening, LoginRefusal> {
    stream.read_some(input).await?;
    if input.first() == Some(&TLS_HANDSHAKE) {
        shake_hands(proxy, stream, input, true).await?;
    }
    let mut requested = RequestedEncryption::default();
    loop {
        let packet = next_packet(stream, input).await?;
        let again = match packet {
            Packet::Tls => std::mem::replace(&mut requested.tls, true),
            Packet::Gss => std::mem::replace(&mut requested.gss, true),
            Packet::Startup(_) | Packet::Cancel { .. } => false,
        };
        if let Some(error) = startup::out_of_place(&packet)
            && (again || stream.is_encrypted())
        {
            return Err(refusal(&error));
        }
        match packet {
            Packet::Startup(startup) => {
                check_encrypted(proxy, stream)?;
                return Ok(Opening::Startup(startup));
            }
            Packet::Cancel { process, secret } => return Ok(Opening::Cancel { process, secret }),
            Packet::Tls => answer_request(proxy, stream, input).await?,
            Packet::Gss => decline(stream, input, "GSSAPI encryption").await?,
        }
    }
}

async fn next_packet(stream: &Stream, input: &mut BytesMut) -> Result<Packet, LoginRefusal> {
    loop {
        match startup::read(input) {
            Ok(Some((packet, len))) => {
                input.advance(len);
                return Ok(packet);
            }
            Ok(None) => stream.read_some(input).await?,
            Err(error) => return Err(refusal(&error)),
        }
    }
}

/// PostgreSQL closes the connection without an error if the first bytes are not a packet length. A client of an older protocol
/// gets the error in the old format; version 0.0 is not one.
fn refusal(error: &WireError) -> LoginRefusal {
    let sqlstate = match error {
        WireError::FrontendLength => return LoginRefusal::Left,
        WireError::Version { .. } => "0A000",
        WireError::StartupEncoding => "22021",
        _ => "08P01",
    };
    let fatal = ErrorResponse::fatal(sqlstate, error.to_string());
    match error {
        WireError::Version { major: 0, minor: 0 } => fatal.into(),
        WireError::Version { major: ..3, .. } => {
            let mut out = BytesMut::new();
            fatal.write_before_3(&mut out);
            LoginRefusal::Error(out.freeze())
        }
        _ => fatal.into(),
    }
}

/// Declines encryption. Bytes behind the request are rejected, as an attacker may have inserted them.
async fn decline(stream: &Stream, input: &BytesMut, request: &str) -> Result<(), LoginRefusal> {
    stream.write_all(&mut BytesMut::from(&b"N"[..])).await?;
    match input.is_empty() {
        true => Ok(()),
        false => Err(unencrypted_data(request)),
    }
}

fn unencrypted_data(request: &str) -> LoginRefusal {
    let detail = "This could be either a client-software bug or evidence of an attempted man-in-the-middle attack.";
    let message = format!("received unencrypted data after {request} request");
    let error = ErrorResponse::fatal("08P01", message);
    error.with_detail(detail).into()
}

/// Answers `SSLRequest`: with the handshake, or with `N`, after which the client decides.
async fn answer_request(
    proxy: &Arc<Proxy>,
    stream: &mut Stream,
    input: &mut BytesMut,
) -> Result<(), LoginRefusal> {
    if proxy.shared.keyring.acceptor().is_none() || stream.is_unix() {
        return decline(stream, input, "SSL").await;
    }
    if !input.is_empty() {
        return Err(unencrypted_data("SSL"));
    }
    stream.write_all(&mut BytesMut::from(&b"S"[..])).await?;
    shake_hands(proxy, stream, input, false).await
}

/// Performs the handshake. If it fails, the client gets a TLS alert and no other error.
async fn shake_hands(
    proxy: &Arc<Proxy>,
    stream: &mut Stream,
    input: &mut BytesMut,
    direct: bool,
) -> Result<(), LoginRefusal> {
    let acceptor = proxy
        .shared
        .keyring
        .acceptor()
        .filter(|_| !stream.is_unix());
    let Some(acceptor) = acceptor else {
        tracing::debug!("a client begins a TLS handshake, but has no TLS here");
        return Err(LoginRefusal::Left);
    };
    let accepted = acceptor.accept(stream, input, direct).await;
    accepted.map_err(|error| {
        tracing::debug!(%error, "TLS handshake with a client failed");
        LoginRefusal::Left
    })
}

/// TLS is not required on Unix sockets: no other machine can listen on them.
fn check_encrypted(proxy: &Arc<Proxy>, stream: &Stream) -> Result<(), LoginRefusal> {
    let acceptor = proxy.shared.keyring.acceptor();
    let required = acceptor.is_some_and(|acceptor| acceptor.is_required());
    if required && !stream.is_encrypted() && !stream.is_unix() {
        return Err(ErrorResponse::fatal("08P01", "SSL required").into());
    }
    Ok(())
}
