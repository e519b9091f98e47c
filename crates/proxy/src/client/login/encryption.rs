//! What a client says before it says who it is: whether it wants TLS, by request or straight away; or a cancel request.
//!
//! Nothing that came before the handshake is used after it: it may have been put in by somebody between (CVE-2021-23214).

use super::Refusal;
use crate::proxy::Proxy;
use crate::stream::Stream;
use crate::tls;
use bytes::{Buf, BytesMut};
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

/// Reads packets up to one of these, and encrypts the stream on the way. Each kind of encryption may be asked for once.
pub(super) async fn read_opening(
    proxy: &Arc<Proxy>,
    stream: &mut Stream,
    input: &mut BytesMut,
) -> Result<Opening, Refusal> {
    stream.read_some(input).await?;
    if input.first() == Some(&TLS_HANDSHAKE) {
        shake_hands(proxy, stream, input, true).await?;
    }
    let (mut tls_was_asked, mut gss_was_asked) = (false, false);
    loop {
        match next_packet(stream, input).await? {
            Packet::Startup(startup) => {
                check_encrypted(proxy, stream)?;
                return Ok(Opening::Startup(startup));
            }
            Packet::Cancel { process, secret } => return Ok(Opening::Cancel { process, secret }),
            Packet::Tls => {
                if stream.is_encrypted() {
                    return Err(ErrorResponse::fatal("08P01", "SSL req inside SSL").into());
                }
                once(&mut tls_was_asked)?;
                answer_request(proxy, stream, input).await?;
            }
            Packet::Gss => {
                once(&mut gss_was_asked)?;
                stream.write_all(&mut BytesMut::from(&b"N"[..])).await?;
            }
        }
    }
}

fn once(was_asked: &mut bool) -> Result<(), Refusal> {
    match std::mem::replace(was_asked, true) {
        false => Ok(()),
        true => Err(ErrorResponse::fatal("08P01", "encryption was asked for before").into()),
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
            Err(error @ WireError::Version { .. }) => {
                return Err(ErrorResponse::fatal("0A000", error.to_string()).into());
            }
            Err(_) => {
                let message = "invalid startup packet layout: expected terminator as last byte";
                return Err(ErrorResponse::fatal("08P01", message).into());
            }
        }
    }
}

/// `SSLRequest`: yes and the handshake, or no and the client decides.
async fn answer_request(
    proxy: &Arc<Proxy>,
    stream: &mut Stream,
    input: &mut BytesMut,
) -> Result<(), Refusal> {
    if proxy.keyring.acceptor().is_none() || stream.is_unix() {
        return Ok(stream.write_all(&mut BytesMut::from(&b"N"[..])).await?);
    }
    if !input.is_empty() {
        let detail = "This could be either a client-software bug or evidence of an attempted man-in-the-middle attack.";
        let message = "received unencrypted data after SSL request";
        let error = ErrorResponse::fatal("08P01", message);
        return Err(error.with_detail(detail).into());
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
    let acceptor = proxy.keyring.acceptor().filter(|_| !stream.is_unix());
    let Some(acceptor) = acceptor else {
        tracing::debug!("a client begins with TLS, which it cannot have here");
        return Err(Refusal::Left);
    };
    stream.begin_handshake();
    let shaken = tls::session::accept(&stream.socket, &acceptor, input, direct).await;
    let (session, identity) = shaken.map_err(|error| {
        tracing::debug!(%error, "TLS handshake with a client failed");
        Refusal::Left
    })?;
    stream.encrypt(session, identity);
    Ok(())
}

/// On this machine's own sockets nobody listens in.
fn check_encrypted(proxy: &Arc<Proxy>, stream: &Stream) -> Result<(), Refusal> {
    let acceptor = proxy.keyring.acceptor();
    let required = acceptor.is_some_and(|acceptor| acceptor.is_required());
    if required && !stream.is_encrypted() && !stream.is_unix() {
        return Err(ErrorResponse::fatal("08P01", "SSL required").into());
    }
    Ok(())
}
