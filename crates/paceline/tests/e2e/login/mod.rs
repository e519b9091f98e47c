//! Logins of clients: start-up, authentication, TLS.

mod authentication;
mod startup;
pub(crate) mod tls;
