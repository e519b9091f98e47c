//! Commands of the console, as PgBouncer reads them: a word and at most one argument, or SET; letters of any case, names in double
//! quotes as they are, a semicolon at the end or none.

use super::refusal::refusal;
use super::show::Show;
use crate::commands::{AdminCommand, Shutdown};
use paceline_wire::ErrorResponse;

/// A command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    /// Nothing, or a comment.
    Empty,
    /// `SHOW HELP`.
    Help,
    /// A table.
    Show(Show),
    /// What drivers ask of a server when they connect.
    Parameter(&'static Parameter),
    /// `SET`.
    Set {
        /// A key of the configuration.
        key: String,
        /// Its value.
        value: String,
    },
    /// What drivers set on a server when they connect: nothing happens.
    SetParameter,
    /// Begins or ends a transaction, of which there are none here: nothing happens.
    Transaction(&'static str),
    /// What an operator orders, and its name.
    AdminCommand(AdminCommand, &'static str),
    /// `KILL_CLIENT`.
    KillClient(u32),
}

/// A parameter of a server that the console plays for drivers.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Parameter {
    /// Its name.
    pub(super) name: &'static str,
    /// Its value, which never changes.
    pub(super) value: &'static str,
}

static PARAMETERS: [Parameter; 6] = [
    Parameter {
        name: "client_encoding",
        value: "UTF-8",
    },
    Parameter {
        name: "default_transaction_isolation",
        value: "read committed",
    },
    Parameter {
        name: "standard_conforming_strings",
        value: "on",
    },
    Parameter {
        name: "datestyle",
        value: "ISO",
    },
    Parameter {
        name: "timezone",
        value: "GMT",
    },
    Parameter {
        name: "extra_float_digits",
        value: "2",
    },
];

/// What drivers send around their commands, and what is answered.
const TRANSACTIONS: [(&str, &str); 4] = [
    ("begin", "BEGIN"),
    ("commit", "COMMIT"),
    ("end", "COMMIT"),
    ("rollback", "ROLLBACK"),
];

impl Command {
    /// Reads a text.
    ///
    /// # Errors
    /// What whoever wrote it is told.
    pub(super) fn parse(text: &str) -> Result<Self, ErrorResponse> {
        let wrong = || refusal(format!("invalid command '{text}', use SHOW HELP;"));
        let mut cursor = Cursor(without_comment(text));
        if cursor.is_at_end() {
            return Ok(Self::Empty);
        }
        let word = cursor.word().ok_or_else(wrong)?.to_ascii_lowercase();
        if word == "set" {
            return set(cursor).ok_or_else(wrong);
        }
        let argument = cursor.argument();
        if !cursor.is_at_end() {
            return Err(wrong());
        }
        match known(&word, argument.as_deref()) {
            Some(command) => command,
            None => Err(wrong()),
        }
    }
}

/// `None`: there is no such command.
fn known(word: &str, argument: Option<&str>) -> Option<Result<Command, ErrorResponse>> {
    let database = || argument.map(str::to_owned);
    let transaction = || TRANSACTIONS.iter().find(|(name, _)| *name == word);
    Some(match (word, argument) {
        ("show" | "select", Some(what)) => return show(what).map(Ok),
        ("reload", None) => Ok(Command::AdminCommand(AdminCommand::Reload, "RELOAD")),
        ("suspend", None) => Ok(Command::AdminCommand(AdminCommand::Suspend, "SUSPEND")),
        ("shutdown", when) => Ok(Command::AdminCommand(shutdown(when)?, "SHUTDOWN")),
        ("pause", _) => Ok(Command::AdminCommand(
            AdminCommand::Pause(database()),
            "PAUSE",
        )),
        ("resume", _) => Ok(Command::AdminCommand(
            AdminCommand::Resume(database()),
            "RESUME",
        )),
        ("reconnect", _) => Ok(Command::AdminCommand(
            AdminCommand::Reconnect(database()),
            "RECONNECT",
        )),
        ("kill", _) => Ok(Command::AdminCommand(
            AdminCommand::Kill(database()),
            "KILL",
        )),
        ("wait_close", _) => Ok(Command::AdminCommand(
            AdminCommand::WaitClose(database()),
            "WAIT_CLOSE",
        )),
        ("disable" | "enable", None) => Err(refusal("a database is required")),
        ("disable", Some(db)) => Ok(Command::AdminCommand(
            AdminCommand::Disable(db.to_owned()),
            "DISABLE",
        )),
        ("enable", Some(db)) => Ok(Command::AdminCommand(
            AdminCommand::Enable(db.to_owned()),
            "ENABLE",
        )),
        ("kill_client", id) => kill_client(id.unwrap_or_default()),
        (_, noise) if noise.is_none_or(is_noise) => Ok(Command::Transaction(transaction()?.1)),
        _ => return None,
    })
}

/// What may stand behind BEGIN, COMMIT and ROLLBACK, and says nothing.
fn is_noise(word: &str) -> bool {
    let mut noise = ["transaction", "work"].into_iter();
    noise.any(|noise| noise.eq_ignore_ascii_case(word))
}

fn show(what: &str) -> Option<Command> {
    let what = what.to_ascii_lowercase();
    if what == "help" {
        return Some(Command::Help);
    }
    let parameter = PARAMETERS.iter().find(|parameter| parameter.name == what);
    parameter
        .map(Command::Parameter)
        .or_else(|| Show::named(&what).map(Command::Show))
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

fn kill_client(id: &str) -> Result<Command, ErrorResponse> {
    match id.parse() {
        Ok(id) => Ok(Command::KillClient(id)),
        Err(_) => Err(refusal("invalid client pointer supplied")),
    }
}

/// `SET key = value` or `SET key TO value`, from behind the first word. `None`: it is not that.
fn set(mut cursor: Cursor<'_>) -> Option<Command> {
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
    let plays = |parameter: &Parameter| parameter.name.eq_ignore_ascii_case(&key);
    Some(match PARAMETERS.iter().any(plays) {
        true => Command::SetParameter,
        false => Command::Set { key, value },
    })
}

/// A text that is nothing but a comment, as drivers send to see whether anybody answers, is empty.
fn without_comment(text: &str) -> &str {
    let text = text.trim();
    match text.starts_with("--") && !text.contains('\n') {
        true => "",
        false => text,
    }
}

/// What has not been read of a text.
struct Cursor<'a>(&'a str);

impl Cursor<'_> {
    fn skip_spaces(&mut self) {
        self.0 = self.0.trim_start();
    }

    /// Nothing is left but a semicolon.
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

    /// What is in quotes of either kind, or whatever comes before a space or semicolon.
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

    /// A quote within is written twice.
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
