//! Logins of clients: start-up, authentication, TLS.

mod authentication;
mod startup;
mod tls;
