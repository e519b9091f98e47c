//! What cannot follow its client: whether the client keeps its server for it, and how the server is asked if it still has it.

use super::change::Unseen;
use super::idle::read_idle_timeout;
use super::{Desk, Expect, Progress, Ride};
use crate::server::NAME_PREFIX;
use crate::session::CLIENT_STATEMENTS_MAX;
use bytes::{Bytes, BytesMut};
use paceline_sql::{
    IDLE_SESSION_TIMEOUT, Listening, PinReason, SessionChange, quote_literal, set_to,
};
use paceline_wire::backend::{self, Status};
use paceline_wire::{ErrorResponse, Frame, frontend};

/// What becomes of state that cannot follow its client (`session_state`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Keeping {
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
    pub keeping: Keeping,
    /// Settings in lower case that the server is asked for after a statement that may have set them unseen.
    pub extra: Vec<String>,
    /// How clients listen.
    pub listen_mode: super::ListenMode,
}

/// Why a client is refused what PostgreSQL would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It could not follow the client.
    Keeps(PinReason),
    /// The client has prepared too many statements.
    Full,
    /// The statement has other columns than the client was told of.
    OtherColumns,
    /// The portal of that name was executed before.
    PortalDone(Box<[u8]>),
    /// The shared connection cannot listen on a channel.
    Listen(Bytes),
    /// The client's channels are not those of its server.
    ListsChannels,
    /// `EXECUTE` of a LISTEN.
    ExecutesListen,
    /// A text that is too large to be parsed.
    ListensUnread,
    /// The client listens by the shared connection and by its own server.
    ListensTwice,
}

impl Refusal {
    /// The `ErrorResponse` that the client receives.
    pub(super) fn message(&self) -> Bytes {
        let error = match self {
            Self::Listen(error) => return error.clone(),
            Self::Keeps(kept) => ErrorResponse::error(
                "0A000",
                format!("{kept} cannot follow its client to other server connections"),
            )
            .with_hint("Set session_state = \"pin\" for this database or user, or connect to PostgreSQL directly."),
            Self::Full => ErrorResponse::error("53400", "too many prepared statements")
                .with_detail(format!(
                    "A client may have {CLIENT_STATEMENTS_MAX} prepared statements at a time."
                ))
                .with_hint("Close or DEALLOCATE those that are no longer used."),
            // PostgreSQL's own words.
            Self::OtherColumns => {
                ErrorResponse::error("0A000", "cached plan must not change result type")
                    .of_routine("RevalidateCachedQuery")
            }
            Self::ListsChannels => ErrorResponse::error(
                "0A000",
                "pg_listening_channels() is not supported within a statement if listen_mode is \"shared\"",
            )
            .with_hint("Send SELECT pg_listening_channels() or SELECT * FROM pg_listening_channels() as a statement of its own."),
            Self::ExecutesListen => ErrorResponse::error(
                "0A000",
                "EXECUTE of a prepared LISTEN or UNLISTEN is not supported if listen_mode is \"shared\"",
            )
            .with_hint("Bind and execute the prepared statement by messages of the protocol, or send LISTEN as a statement of its own."),
            Self::ListensUnread => ErrorResponse::error(
                "0A000",
                "LISTEN, UNLISTEN and DISCARD are not supported in such a large text of a client that listens if listen_mode is \"shared\"",
            )
            .with_hint("Send them as statements of their own."),
            Self::ListensTwice => ErrorResponse::error(
                "0A000",
                "LISTEN and UNLISTEN are not supported while a client listens by the shared connection and also by a server connection of its own",
            )
            .with_detail("A LISTEN that DO, CALL or a function executes is that of the server connection.")
            .with_hint("DISCARD ALL ends both."),
            Self::PortalDone(name) => {
                let name = String::from_utf8_lossy(name);
                ErrorResponse::error("55000", format!("portal \"{name}\" cannot be run"))
                    .of_routine("MarkPortalActive")
            }
        };
        let mut out = BytesMut::new();
        error.write(&mut out);
        out.freeze()
    }
}

/// What a server is asked about the session on it.
#[derive(Debug, Default)]
pub(super) struct Question {
    kinds: Vec<PinReason>,
    settings: Vec<String>,
}

impl Question {
    fn sql(&self) -> String {
        let kinds = self.kinds.iter().map(|kept| kept.condition(NAME_PREFIX));
        let kinds = kinds.map(|condition| condition.unwrap_or_else(|| "true".to_owned()));
        let settings = self.settings.iter().map(|name| {
            let name = quote_literal(name);
            format!("pg_catalog.current_setting({name}, true)")
        });
        let off = self
            .settings
            .iter()
            .any(|name| name == IDLE_SESSION_TIMEOUT);
        let off =
            off.then(|| format!("pg_catalog.set_config('{IDLE_SESSION_TIMEOUT}', '0', false)"));
        let columns: Vec<String> = kinds.chain(settings).chain(off).collect();
        format!("SELECT {}", columns.join(", "))
    }
}

impl Ride {
    /// What cannot follow the client is there.
    pub(super) fn keep(&mut self, kept: PinReason, desk: &mut Desk<'_>, to_client: &mut BytesMut) {
        desk.server.tainted = true;
        self.prepares |= kept == PinReason::Prepared;
        if self.stays {
            desk.server.spent |= !kept.can_be_discarded();
            return self.pin(kept);
        }
        match desk.state.keeping {
            Keeping::Pin => return self.pin(kept),
            Keeping::Warn => {
                if !self.warned.contains(&kept) {
                    self.warned.push(kept);
                }
                let message = format!("{kept} is lost at the end of the transaction");
                ErrorResponse::warning("01000", message)
                    .with_hint("Other statements of the session may run on other server connections (session_state = warn).")
                    .write(to_client);
            }
            _ => {}
        }
        // No reset before the next client would take it away.
        desk.server.spent |= !kept.can_be_discarded() || kept == PinReason::Prepared;
    }

    /// The client keeps its server for this.
    pub(super) fn pin(&mut self, kept: PinReason) {
        if !self.kept.contains(&kept) {
            self.kept.push(kept);
        }
        self.unit.lets_go = true;
    }

    /// Statements of the client may be on the server under its own names.
    pub(super) fn has_own_names(&self) -> bool {
        let unmoved = [PinReason::Prepared, PinReason::NotText];
        // What its own DO has prepared is its own, too.
        let by_itself = self.unseen == Unseen::Anything;
        self.stays
            || self.prepares
            || by_itself
            || self.kept.iter().any(|kept| unmoved.contains(kept))
    }

    /// The first of these changes that the client may not make.
    pub(super) fn refused(&self, changes: &[SessionChange], desk: &Desk<'_>) -> Option<PinReason> {
        if desk.state.keeping != Keeping::Refuse || self.stays || self.status == Status::Failed {
            return None;
        }
        changes.iter().find_map(|change| match change {
            SessionChange::Pin(kept) => Some(*kept),
            SessionChange::Listening(Listening::Listen(_)) if !self.shares_listen(desk) => {
                Some(PinReason::Listening)
            }
            _ => None,
        })
    }

    /// Asks the server, when the client may have let go of what it keeps, or has something that nobody saw.
    pub(super) fn ask(&mut self, unit: &Progress, desk: &mut Desk<'_>, to_server: &mut BytesMut) {
        let question = self.question(unit, desk);
        if question.kinds.is_empty() && question.settings.is_empty() {
            return;
        }
        self.asked.clear();
        // They would be taken for the client's.
        self.close_leftovers(desk, to_server);
        frontend::write_query(to_server, &question.sql());
        desk.server.unnamed = None;
        self.expect.push_back(Expect::Asking(question));
    }

    fn question(&self, unit: &Progress, desk: &Desk<'_>) -> Question {
        // To ask would destroy such a statement; and who stays need not be asked about.
        if self.stays || self.kept.contains(&PinReason::NotText) {
            return Question::default();
        }
        let may_be_free = !self.kept.is_empty() && (unit.lets_go || unit.failed);
        let kinds = match self.unseen {
            Unseen::Anything if desk.state.keeping == Keeping::Pin => PinReason::ASKED.to_vec(),
            _ if may_be_free && self.kept.iter().all(|kept| kept.is_asked()) => self.kept.clone(),
            _ => Vec::new(),
        };
        let mut settings = self.asked.clone();
        if self.unseen != Unseen::Nothing {
            let extra = desk.state.extra.iter();
            let further: Vec<_> = extra.filter(|name| !settings.contains(name)).collect();
            settings.extend(further.into_iter().cloned());
        }
        Question { kinds, settings }
    }

    /// The server has not answered: the client keeps it for all that it may have, until it is asked again after the next unit.
    pub(super) fn unanswered(&mut self, question: &Question, desk: &mut Desk<'_>) {
        desk.server.tainted = true;
        question.kinds.iter().for_each(|kept| self.pin(*kept));
        if desk.state.keeping == Keeping::Pin {
            self.asked.clone_from(&question.settings);
        }
    }

    /// The server has answered.
    pub(super) fn answered(&mut self, question: Question, row: Frame<'_>, desk: &mut Desk<'_>) {
        let values = backend::row_values(row.body()).unwrap_or_default();
        let mut values = values.into_iter();
        for (kept, value) in question.kinds.into_iter().zip(&mut values) {
            self.kept.retain(|known| *known != kept);
            match value {
                Some(b"t") => self.kept.push(kept),
                _ if kept == PinReason::Prepared => desk.server.strewn = false,
                _ => {}
            }
        }
        for (name, value) in question.settings.iter().zip(&mut values) {
            match value.map(std::str::from_utf8) {
                Some(Ok(value)) => {
                    let changes = match name.as_str() {
                        IDLE_SESSION_TIMEOUT => read_idle_timeout(value),
                        name => set_to(name, Some(value)),
                    };
                    changes.iter().for_each(|change| desk.set_unseen(change));
                }
                // In an encoding that cannot be kept as text.
                Some(Err(_)) if desk.state.keeping == Keeping::Pin => self.pin(PinReason::Setting),
                Some(Err(_)) | None => {}
            }
        }
    }
}
