//! What becomes of the state of clients' sessions, by configuration.

/// What becomes of state that cannot follow its client (`session_state`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SessionStateMode {
    /// It is lost with its server.
    Track,
    /// The same, and the client is warned.
    Warn,
    /// It is refused before it reaches a server.
    Refuse,
    /// The client keeps its server until it lets go.
    #[default]
    Pin,
}

/// What a pool does about the state of its clients' sessions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StatePolicy {
    /// About state that cannot follow.
    pub session_state: SessionStateMode,
    /// Settings in lower case that the server is asked for after a statement that may have set them unseen.
    pub extra: Vec<String>,
    /// How clients listen.
    pub listen_mode: ListenMode,
}

/// How clients listen (`listen_mode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ListenMode {
    /// It is state of their session.
    #[default]
    Session,
    /// By one connection for all.
    Shared,
}
