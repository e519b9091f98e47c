//! What a client says before it says who it is: whether it wants TLS, by request or straight away; or a cancel request.
//!
//! Nothing that came before the handshake is used after it: it may have been put in by somebody between (CVE-2021-23214).

use crate::auth::Refusal;
use crate::proxy::Proxy;
use bytes::{Buf, BytesMut};
use paceline_net::Stream;
use paceline_wire::startup::{self, Packet, Startup};
use paceline_wire::{ErrorResponse, WireError};
use std::sync::Arc;

/// The first byte of a TLS handshake. A packet of PostgreSQL begins with its length, which begins with zero.
const TLS_HANDSHAKE: u8 = 0x16;

/// What a client says in the end.
pub(super) enum Opening {
    /// Who it is.
    Startup(Startup),
    /// Whom to cancel.
    Cancel {
        /// The first half of the key.
        process: u32,
        /// The other half.
        secret: u32,
    },
}

/// What the client has asked for, and must not ask for again.
#[derive(Default)]
struct Asked {
    tls: bool,
    gss: bool,
}

/// Reads packets up to one of these, and encrypts the stream on the way. Each kind of encryption may be asked for once, and
/// none on an encrypted connection. What cannot be read is answered as PostgreSQL answers it.
pub(super) async fn read_opening(
    proxy: &Arc<Proxy>,
    stream: &mut Stream,
    input: &mut BytesMut,
) -> Result<Opening, Refusal> {
    stream.read_some(input).await?;
    if input.first() == Some(&TLS_HANDSHAKE) {
        shake_hands(proxy, stream, input, true).await?;
    }
    let mut asked = Asked::default();
    loop {
        let packet = next_packet(stream, input).await?;
        let again = match packet {
            Packet::Tls => std::mem::replace(&mut asked.tls, true),
            Packet::Gss => std::mem::replace(&mut asked.gss, true),
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

async fn next_packet(stream: &Stream, input: &mut BytesMut) -> Result<Packet, Refusal> {
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

/// PostgreSQL says nothing to a peer whose first bytes are no length of a packet. A client of an older protocol gets the error
/// in the form that it can read; version 0.0 does not count as one.
fn refusal(error: &WireError) -> Refusal {
    let sqlstate = match error {
        WireError::FrontendLength => return Refusal::Left,
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
            Refusal::Told(out.freeze())
        }
        _ => fatal.into(),
    }
}

/// Says no. What came behind the request may have been put in by somebody between, as it would have been for a yes.
async fn decline(stream: &Stream, input: &BytesMut, request: &str) -> Result<(), Refusal> {
    stream.write_all(&mut BytesMut::from(&b"N"[..])).await?;
    match input.is_empty() {
        true => Ok(()),
        false => Err(unencrypted_data(request)),
    }
}

fn unencrypted_data(request: &str) -> Refusal {
    let detail = "This could be either a client-software bug or evidence of an attempted man-in-the-middle attack.";
    let message = format!("received unencrypted data after {request} request");
    let error = ErrorResponse::fatal("08P01", message);
    error.with_detail(detail).into()
}

/// `SSLRequest`: yes and the handshake, or no and the client decides.
async fn answer_request(
    proxy: &Arc<Proxy>,
    stream: &mut Stream,
    input: &mut BytesMut,
) -> Result<(), Refusal> {
    if proxy.shared.keyring.acceptor().is_none() || stream.is_unix() {
        return decline(stream, input, "SSL").await;
    }
    if !input.is_empty() {
        return Err(unencrypted_data("SSL"));
    }
    stream.write_all(&mut BytesMut::from(&b"S"[..])).await?;
    shake_hands(proxy, stream, input, false).await
}

/// A client with which it fails is told by TLS itself, and by nothing else.
async fn shake_hands(
    proxy: &Arc<Proxy>,
    stream: &mut Stream,
    input: &mut BytesMut,
    direct: bool,
) -> Result<(), Refusal> {
    let acceptor = proxy
        .shared
        .keyring
        .acceptor()
        .filter(|_| !stream.is_unix());
    let Some(acceptor) = acceptor else {
        tracing::debug!("a client begins with TLS, which it cannot have here");
        return Err(Refusal::Left);
    };
    let accepted = acceptor.accept(stream, input, direct).await;
    accepted.map_err(|error| {
        tracing::debug!(%error, "TLS handshake with a client failed");
        Refusal::Left
    })
}

/// On this machine's own sockets nobody listens in.
fn check_encrypted(proxy: &Arc<Proxy>, stream: &Stream) -> Result<(), Refusal> {
    let acceptor = proxy.shared.keyring.acceptor();
    let required = acceptor.is_some_and(|acceptor| acceptor.is_required());
    if required && !stream.is_encrypted() && !stream.is_unix() {
        return Err(ErrorResponse::fatal("08P01", "SSL required").into());
    }
    Ok(())
}
