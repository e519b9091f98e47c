//! The commands of the console, read as PgBouncer reads them: a word with at most one argument, or SET. Commands are
//! case-insensitive, names in double quotes are taken literally, and a semicolon at the end is optional.

use super::error::console_error;
use super::show;
use super::table::AnyTable;
use crate::commands::{AdminCommand, Shutdown};
use paceline_config::GroupingTarget;
use paceline_wire::ErrorResponse;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ConsoleCommand {
    /// An empty text, or a comment.
    Empty,
    /// `SHOW HELP`.
    Help,
    /// `SHOW` of a table.
    Show(&'static dyn AnyTable),
    /// `SHOW SNAPSHOT`.
    Snapshot,
    /// `SHOW` of a parameter that drivers read when they connect.
    Parameter(&'static ServerParameter),
    /// `SET key = value`.
    Set {
        /// A key of the configuration.
        key: String,
        /// The new value.
        value: String,
    },
    /// `SET` of a parameter that drivers set when they connect. Has no effect.
    SetParameter,
    /// The command tag of `BEGIN`, `COMMIT` or `ROLLBACK`. Has no effect: the console has no transactions.
    Transaction(&'static str),
    /// A command that changes how Paceline runs, and its command tag.
    AdminCommand(AdminCommand, &'static str),
    /// `KILL_CLIENT id`.
    KillClient(u32),
}

/// A parameter that PostgreSQL has and drivers expect. The value never changes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ServerParameter {
    pub(super) name: &'static str,
    pub(super) value: &'static str,
}

impl ServerParameter {
    const fn new(name: &'static str, value: &'static str) -> Self {
        Self { name, value }
    }
}

static PARAMETERS: [ServerParameter; 6] = [
    ServerParameter::new("client_encoding", "UTF-8"),
    ServerParameter::new("default_transaction_isolation", "read committed"),
    ServerParameter::new("standard_conforming_strings", "on"),
    ServerParameter::new("datestyle", "ISO"),
    ServerParameter::new("timezone", "GMT"),
    ServerParameter::new("extra_float_digits", "2"),
];

/// The commands that drivers send around others, with their command tags.
const TRANSACTIONS: [(&str, &str); 4] = [
    ("begin", "BEGIN"),
    ("commit", "COMMIT"),
    ("end", "COMMIT"),
    ("rollback", "ROLLBACK"),
];

/// The commands that decide on grouping, with their command tags.
const GROUPING: [(&str, Option<bool>, &str); 3] = [
    ("allow", Some(true), "ALLOW"),
    ("deny", Some(false), "DENY"),
    ("reset", None, "RESET"),
];

impl ConsoleCommand {
    /// Parses a text.
    ///
    /// # Errors
    /// The error for the operator.
    pub(super) fn parse(text: &str) -> Result<Self, ErrorResponse> {
        let invalid = || console_error(format!("invalid command '{text}', use SHOW HELP;"));
        let mut cursor = Cursor(without_comment(text));
        if cursor.is_at_end() {
            return Ok(Self::Empty);
        }
        let word = cursor.word().ok_or_else(invalid)?.to_ascii_lowercase();
        if word == "set" {
            return set(cursor).ok_or_else(invalid);
        }
        if let Some((_, allowed, tag)) = GROUPING.iter().find(|(name, ..)| *name == word) {
            let command = grouping(cursor, *allowed).ok_or_else(invalid)?;
            return Ok(Self::AdminCommand(command, tag));
        }
        let argument = cursor.argument();
        if !cursor.is_at_end() {
            return Err(invalid());
        }
        match command(&word, argument.as_deref()) {
            Some(command) => command,
            None => Err(invalid()),
        }
    }
}

/// `None`: there is no such command.
fn command(word: &str, argument: Option<&str>) -> Option<Result<ConsoleCommand, ErrorResponse>> {
    let database = || argument.map(str::to_owned);
    let admin = |command, tag| Ok(ConsoleCommand::AdminCommand(command, tag));
    let transaction = || TRANSACTIONS.iter().find(|(name, _)| *name == word);
    Some(match (word, argument) {
        ("show" | "select", Some(name)) => return shown(name).map(Ok),
        ("reload", None) => admin(AdminCommand::Reload, "RELOAD"),
        ("suspend", None) => admin(AdminCommand::Suspend, "SUSPEND"),
        ("shutdown", when) => admin(shutdown(when)?, "SHUTDOWN"),
        ("pause", _) => admin(AdminCommand::Pause(database()), "PAUSE"),
        ("resume", _) => admin(AdminCommand::Resume(database()), "RESUME"),
        ("reconnect", _) => admin(AdminCommand::Reconnect(database()), "RECONNECT"),
        ("kill", _) => admin(AdminCommand::Kill(database()), "KILL"),
        ("wait_close", _) => admin(AdminCommand::WaitClose(database()), "WAIT_CLOSE"),
        ("disable" | "enable", None) => Err(console_error("a database is required")),
        ("disable", Some(db)) => admin(AdminCommand::Disable(db.to_owned()), "DISABLE"),
        ("enable", Some(db)) => admin(AdminCommand::Enable(db.to_owned()), "ENABLE"),
        ("kill_client", id) => kill_client(id.unwrap_or_default()),
        (_, noise) if noise.is_none_or(is_noise) => {
            Ok(ConsoleCommand::Transaction(transaction()?.1))
        }
        _ => return None,
    })
}

/// Words without effect that may follow BEGIN, COMMIT and ROLLBACK.
fn is_noise(word: &str) -> bool {
    let mut noise = ["transaction", "work"].into_iter();
    noise.any(|noise| noise.eq_ignore_ascii_case(word))
}

fn shown(name: &str) -> Option<ConsoleCommand> {
    let name = name.to_ascii_lowercase();
    match name.as_str() {
        "help" => return Some(ConsoleCommand::Help),
        "snapshot" => return Some(ConsoleCommand::Snapshot),
        _ => {}
    }
    let parameter = PARAMETERS.iter().find(|parameter| parameter.name == name);
    parameter
        .map(ConsoleCommand::Parameter)
        .or_else(|| show::find(&name).map(ConsoleCommand::Show))
}

fn shutdown(when: Option<&str>) -> Option<AdminCommand> {
    let when = when.map(str::to_ascii_lowercase);
    Some(AdminCommand::Shutdown(match when.as_deref() {
        None => Shutdown::Immediate,
        Some("wait_for_servers") => Shutdown::WaitForServers,
        Some("wait_for_clients") => Shutdown::WaitForClients,
        Some(_) => return None,
    }))
}

fn kill_client(id: &str) -> Result<ConsoleCommand, ErrorResponse> {
    match id.parse() {
        Ok(id) => Ok(ConsoleCommand::KillClient(id)),
        Err(_) => Err(console_error("invalid client pointer supplied")),
    }
}

/// Parses `key = value` or `key TO value` of a `SET`. `None`: the text is neither.
fn set(mut cursor: Cursor<'_>) -> Option<ConsoleCommand> {
    let key = cursor.word()?;
    let rest = cursor.0.trim_start();
    let after_to = || rest.get(..2).filter(|to| to.eq_ignore_ascii_case("to"));
    let rest = match rest.strip_prefix('=') {
        Some(rest) => rest,
        None => after_to().and_then(|_| rest.get(2..))?,
    };
    let mut cursor = Cursor(rest);
    let value = cursor.value()?;
    if !cursor.is_at_end() {
        return None;
    }
    let is_key = |parameter: &ServerParameter| parameter.name.eq_ignore_ascii_case(&key);
    Some(match PARAMETERS.iter().any(is_key) {
        true => ConsoleCommand::SetParameter,
        false => ConsoleCommand::Set { key, value },
    })
}

/// Parses `GROUPING database target` after ALLOW, DENY or RESET. `None`: the text is something else.
fn grouping(mut cursor: Cursor<'_>, allowed: Option<bool>) -> Option<AdminCommand> {
    let word = cursor.argument()?;
    if !word.eq_ignore_ascii_case("grouping") {
        return None;
    }
    let database = cursor.argument()?;
    let rest = cursor.0.trim_end();
    let target = rest.strip_suffix(';').unwrap_or(rest);
    Some(AdminCommand::Grouping {
        database,
        target: GroupingTarget::parse(target)?,
        allowed,
    })
}

/// The text, empty if it is only a comment: drivers send comments to check the connection.
fn without_comment(text: &str) -> &str {
    let text = text.trim();
    match text.starts_with("--") && !text.contains('\n') {
        true => "",
        false => text,
    }
}

/// The rest of a text that has not been read.
struct Cursor<'a>(&'a str);

impl Cursor<'_> {
    fn skip_spaces(&mut self) {
        self.0 = self.0.trim_start();
    }

    /// Is nothing left except a semicolon?
    fn is_at_end(&mut self) -> bool {
        self.skip_spaces();
        let rest = self.0.strip_prefix(';').unwrap_or(self.0);
        rest.trim_start().is_empty()
    }

    /// Letters, digits and underscores, or anything in double quotes.
    fn word(&mut self) -> Option<String> {
        self.skip_spaces();
        match self.0.starts_with('"') {
            true => self.quoted('"'),
            false => self.run_of(|c| c == '_' || c.is_ascii_alphanumeric()),
        }
    }

    /// A word after a space, if there is one.
    fn argument(&mut self) -> Option<String> {
        match self.0.starts_with(char::is_whitespace) {
            true => self.word(),
            false => None,
        }
    }

    /// Text in quotes of either kind, or everything before a space or semicolon.
    fn value(&mut self) -> Option<String> {
        self.skip_spaces();
        match self.0.chars().next()? {
            quote @ ('\'' | '"') => self.quoted(quote),
            _ => self.run_of(|c| c != ';' && !c.is_whitespace()),
        }
    }

    fn run_of(&mut self, belongs: impl Fn(char) -> bool) -> Option<String> {
        let end = self.0.find(|c| !belongs(c)).unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at_checked(end)?;
        self.0 = rest;
        (!word.is_empty()).then(|| word.to_owned())
    }

    /// Reads text in quotes. A quote within the text is written twice.
    fn quoted(&mut self, quote: char) -> Option<String> {
        let mut rest = self.0.strip_prefix(quote)?;
        let mut inside = String::new();
        loop {
            let (before, after) = rest.split_once(quote)?;
            inside.push_str(before);
            match after.strip_prefix(quote) {
                Some(after) => {
                    inside.push(quote);
                    rest = after;
                }
                None => {
                    self.0 = after;
                    return Some(inside);
                }
            }
        }
    }
}
