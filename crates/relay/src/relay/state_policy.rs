//! What a pool does with session state, by configuration.

/// What becomes of state that cannot follow its client (`session_state`).
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

/// What a pool does with the session state of its clients.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StatePolicy {
    /// For state that cannot follow its client.
    pub session_state: SessionStateMode,
    /// Settings (in lower case) for which the server is asked after a statement that may have set them untracked.
    pub extra: Vec<String>,
    /// How clients listen.
    pub listen_mode: ListenMode,
}

/// How clients listen (`listen_mode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ListenMode {
    /// On their own server connection, which they keep.
    #[default]
    Session,
    /// By one connection for all clients.
    Shared,
}
