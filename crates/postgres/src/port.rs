//! TCP ports on loopback. It never reserves a port: the server binds it later, so callers must expect that another program
//! has taken a free port in the meantime.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use crate::error::Error;

/// Whether a server can listen on this port of 127.0.0.1 now.
pub(crate) fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// Refuses a port that is taken.
pub(crate) fn check_free(port: u16) -> Result<(), Error> {
    if is_free(port) {
        Ok(())
    } else {
        Err(Error::PortTaken { port })
    }
}

/// A port that is free now.
pub(crate) fn any_free() -> Result<u16, Error> {
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    Ok(listener
        .map_err(Error::io("listen on", Path::new("127.0.0.1")))?
        .port())
}
