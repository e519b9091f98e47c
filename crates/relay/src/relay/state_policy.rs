//! The treatment of session state by a pool, by configuration.

/// The treatment of state that cannot follow its client (`session_state`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SessionStateMode {
    /// It is lost when the client returns its server connection.
    Track,
    /// The same, and the client is warned.
    Warn,
    /// Paceline rejects the statement.
    Refuse,
    /// The client keeps its server connection until the state is removed.
    #[default]
    Pin,
}

/// The treatment of the session state of a pool's clients.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StatePolicy {
    /// For state that cannot follow its client.
    pub session_state: SessionStateMode,
    /// Settings (in lower case) for which the server is asked after a statement that may have set them untracked.
    pub extra: Vec<String>,
    /// The connection that listens for clients.
    pub listen_mode: ListenMode,
}

/// The connection that listens for clients (`listen_mode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ListenMode {
    /// On their own server connection, which they keep.
    #[default]
    Session,
    /// By one connection for all clients.
    Shared,
}
