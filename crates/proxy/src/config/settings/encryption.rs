//! TLS, towards clients and servers.

use super::key::Key;

/// TLS, towards clients and servers.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Encryption {}

/// The keys of it.
pub(super) static KEYS: &[Key] = &[];
