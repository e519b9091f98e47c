//! Changes of a session, as data.

use super::meaning::decides_meaning;
use super::pin_reason::PinReason;

/// The setting that may name the temporary schema.
pub(super) const SEARCH_PATH: &str = "search_path";

/// The effect of a text on data and session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// One SELECT, VALUES or TABLE without locking clause, INTO, or a CTE that changes data.
    Read,
    /// One INSERT, UPDATE, DELETE or MERGE, or a SELECT with a locking clause or a CTE that changes data.
    Write,
    /// Another text that does not change the session: an empty text, DDL, transaction control, COPY, SHOW, more than
    /// one statement, …
    Other,
    /// The text changes the session: all changes in order. Other effects of the text are not listed.
    Session(Vec<SessionChange>),
}

/// One change of a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SessionChange {
    /// A setting receives a value that outlasts the transaction.
    Set {
        /// The setting, in lower case. `SET NAMES` sets `client_encoding`, `SET TIME ZONE` sets `timezone`, `SET
        /// SESSION CHARACTERISTICS` sets the defaults of the characteristics.
        name: String,
        /// SQL that sets the same value again.
        sql: String,
    },
    /// A call of `set_config` whose parameters determine the change.
    SetTo(SetConfig),
    /// A setting may have another value, which must be read from the server after the transaction.
    SetUnknown {
        /// The setting, in lower case.
        name: String,
    },
    /// A setting returns to its default.
    Reset {
        /// The setting, in lower case.
        name: String,
    },
    /// The session has this customized option from now on, although the value ends with the transaction.
    OptionDefined {
        /// The name, in lower case.
        name: String,
    },
    /// `RESET ALL`
    ResetAll,
    /// `DISCARD ALL`
    DiscardAll,
    /// `DISCARD SEQUENCES`
    DiscardSequences,
    /// `DEALLOCATE ALL`
    DeallocateAll,
    /// `DEALLOCATE name`
    Deallocate {
        /// The SQL-level name of the prepared statement.
        name: String,
    },
    /// The search path may contain the temporary schema until the transaction ends.
    PathUnknown,
    /// A setting that decides the meaning of statements has another value until the transaction ends.
    LocalSettings,
    /// Session state that exists only on this server connection from now on.
    Pin(PinReason),
    /// The channels of the session change when its transaction commits.
    Listening(Listening),
    /// Session state that exists only on this server connection, and pins the client, may have ended.
    PinMayEnd,
    /// The statement may change the session in a way that its text does not show.
    Anything,
    /// The statement calls functions that may change the session. The catalog has to be checked; the parser does not
    /// return this variant.
    FunctionsCalled,
    /// `SAVEPOINT name`
    Savepoint {
        /// Name of the savepoint.
        name: String,
    },
    /// `RELEASE name`
    Release {
        /// Name of the savepoint.
        name: String,
    },
    /// `ROLLBACK TO name`
    RollbackTo {
        /// Name of the savepoint.
        name: String,
    },
    /// The following changes belong to the next statement of the text.
    Next,
}

impl SessionChange {
    /// Whether the session has no sequence numbers after the change.
    pub fn discards_sequences(&self) -> bool {
        matches!(self, Self::DiscardSequences | Self::DiscardAll)
    }

    /// Whether the search path may contain the temporary schema from now on although the text does not show it.
    pub fn hides_path(&self) -> bool {
        match self {
            Self::PathUnknown | Self::Pin(PinReason::Setting) => true,
            Self::Anything | Self::FunctionsCalled => true,
            Self::SetUnknown { name } => name == SEARCH_PATH,
            _ => false,
        }
    }

    /// Whether settings that decide the meaning of statements may have other values from now on than those of the session that are known.
    pub fn hides_settings(&self) -> bool {
        match self {
            Self::LocalSettings | Self::PathUnknown | Self::Pin(PinReason::Setting) => true,
            Self::Anything | Self::FunctionsCalled => true,
            Self::SetUnknown { name } => decides_meaning(name),
            _ => false,
        }
    }

    /// Whether the session has no prepared statements after the change.
    pub fn drops_statements(&self) -> bool {
        matches!(self, Self::DeallocateAll | Self::DiscardAll)
    }
}

/// A change of the channels of a session. It takes effect at COMMIT.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Listening {
    /// `LISTEN channel`
    Listen(String),
    /// `UNLISTEN channel`
    Unlisten(String),
    /// `UNLISTEN *`
    UnlistenAll,
}

impl Listening {
    /// The command tag of the statement.
    pub fn command(&self) -> &'static str {
        match self {
            Self::Listen(_) => "LISTEN",
            Self::Unlisten(_) | Self::UnlistenAll => "UNLISTEN",
        }
    }
}

/// An argument of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Argument {
    /// A constant; `None` is NULL.
    Constant(Option<String>),
    /// The number of a parameter, from 1.
    Parameter(usize),
    /// Anything else.
    Computed,
}

/// A call of `set_config`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SetConfig {
    pub(super) name: Argument,
    pub(super) value: Argument,
    pub(super) local: Argument,
}
