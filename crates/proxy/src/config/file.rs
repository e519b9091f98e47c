//! The configuration file: TOML to [`Config`], with every problem that it has and the line of each.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::declared::LISTS;
use super::error::{ConfigError, Problem, Wrong};
use super::remark::Remark;
use super::secret;
use super::settings::Key;
use super::suggest;
use super::terms::{Table, TermKey};
use super::upstream::Upstream;
use super::value::{self, ValueError, Written};
use super::{ANY_DATABASE, Config, Database, DatabaseLogin, Differences, UserOverride};
use crate::console::PGBOUNCER;

pub(super) const TABLES: [&str; 4] = ["paceline", "databases", "users", "peers"];
/// Those of `[databases.NAME]` that are not terms.
const DATABASE_KEYS: [&str; 12] = [
    "primary",
    "password_file",
    "client_encoding",
    "datestyle",
    "timezone",
    "application_name",
    "auth_user",
    "auth_query",
    "auth_dbname",
    "connect_query",
    "hotspot_for_autocommit",
    "users",
];
/// Those of `[databases.NAME.users.USER]` that are not terms.
const USER_KEYS: [&str; 1] = ["hotspot_for_autocommit"];

/// Those of them that server connections are begun with, in the order of the document.
const STARTUP_KEYS: [&str; 4] = [
    "client_encoding",
    "datestyle",
    "timezone",
    "application_name",
];

/// A key or value and where it stands in the text.
type Entry<'a, 'i> = (
    &'a Spanned<std::borrow::Cow<'i, str>>,
    &'a Spanned<DeValue<'i>>,
);

/// The keys that a table of a database or user may have.
pub(super) fn keys_of(table: Table) -> Vec<&'static str> {
    let others: &[&str] = match table {
        Table::Database => &DATABASE_KEYS,
        Table::UserOfDatabase => &USER_KEYS,
        Table::User => &[],
    };
    others
        .iter()
        .copied()
        .chain(TermKey::names(table))
        .collect()
}

/// Reads a whole file. `place` names a line (the first is 1) in messages.
pub(super) fn read(
    text: &str,
    place: &dyn Fn(usize) -> String,
) -> Result<(Config, Vec<Remark>), ConfigError> {
    let document = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let message = error.message().trim().replace('\n', ", ");
        let wrong = Wrong::Syntax { message };
        ConfigError::one(Problem::at(place(line_of(text, at)), wrong))
    })?;
    let mut reader = Reader {
        problems: Vec::new(),
        remarks: Vec::new(),
    };
    let config = reader.config(document.get_ref());
    let place = |at| place(line_of(text, at));
    if reader.problems.is_empty() {
        let remarks = reader.remarks.into_iter();
        let remark = |(at, remark)| Remark::new(place(at), remark);
        return Ok((config, remarks.map(remark).collect()));
    }
    // TOML tables are read by name; people read from top to bottom.
    reader.problems.sort_by_key(|(at, _)| *at);
    let problem = |(at, wrong)| Problem::at(place(at), wrong);
    Err(ConfigError::Invalid(
        reader.problems.into_iter().map(problem).collect(),
    ))
}

/// The number of the line, from 1, that holds the byte at `offset`.
fn line_of(text: &str, offset: usize) -> usize {
    1 + text
        .bytes()
        .take(offset)
        .filter(|byte| *byte == b'\n')
        .count()
}

/// Walks the document and notes what is wrong instead of stopping at it.
pub(super) struct Reader {
    /// Byte offset and problem.
    pub(super) problems: Vec<(usize, Wrong)>,
    /// Byte offset and what is worth knowing.
    remarks: Vec<(usize, String)>,
}

impl Reader {
    fn config(&mut self, document: &DeTable<'_>) -> Config {
        let mut config = Config::default();
        for (name, content) in document {
            match name.get_ref().as_ref() {
                "paceline" => {
                    for entry in self.entries("paceline", content) {
                        self.setting(&mut config, entry);
                    }
                }
                "peers" => config.peers = self.peers(content),
                "take" => self.declared("take", content, &mut config.declared),
                "group" => self.declared("group", content, &mut config.declared),
                "databases" => {
                    for (name, content) in self.entries("databases", content) {
                        if name.get_ref() == PGBOUNCER {
                            self.note(name.span().start, Wrong::ConsolesName);
                        } else if let Some(database) = self.database(name.get_ref(), content) {
                            config
                                .databases
                                .insert(name.get_ref().to_string(), database);
                        }
                    }
                }
                "users" => {
                    for (name, content) in self.entries("users", content) {
                        let table = format!("users.{}", toml_key(name.get_ref()));
                        let mut differs = Differences::default();
                        for entry in self.entries(&table, content) {
                            self.term(&table, Table::User, &[], entry, &mut differs);
                        }
                        config.users.insert(name.get_ref().to_string(), differs);
                    }
                }
                unknown => {
                    let known = TABLES.into_iter().chain(LISTS);
                    let nearest = suggest::nearest(unknown, known);
                    let nearest = nearest.map(|name| match LISTS.contains(&name) {
                        true => format!("[{name}]"),
                        false => name.to_owned(),
                    });
                    self.note(
                        name.span().start,
                        Wrong::UnknownTable {
                            name: unknown.to_owned(),
                            nearest,
                        },
                    );
                }
            }
        }
        config
    }

    fn setting(&mut self, config: &mut Config, (key, written): Entry<'_, '_>) {
        match Key::named(key.get_ref()) {
            Err(wrong) => self.note(key.span().start, wrong),
            Ok(known) => {
                if let Err(wrong) =
                    known.apply(&mut config.paceline, Written::in_toml(written.get_ref()))
                {
                    self.note(written.span().start, wrong);
                }
            }
        }
    }

    fn database(&mut self, name: &str, content: &Spanned<DeValue<'_>>) -> Option<Database> {
        let table = format!("databases.{}", toml_key(name));
        // An inline table or [databases.x] starts here; a missing key has no better place.
        let start = content.span().start;
        let mut primary = None;
        let mut differs = Differences::default();
        let mut password_file = None;
        let mut startup = Vec::new();
        let mut connect_query = None;
        let mut hotspot_for_autocommit = None;
        let mut login = DatabaseLogin::default();
        let mut users = BTreeMap::new();
        let before = self.problems.len();
        for (key, written) in self.entries(&table, content) {
            match key.get_ref().as_ref() {
                "primary" => primary = self.primary(written),
                "password_file" => password_file = Some(written),
                key if STARTUP_KEYS.contains(&key) => {
                    let value = self.value(key, written, value::parameter);
                    startup.extend(value.map(|value| (key.to_owned(), value)));
                }
                "hotspot_for_autocommit" => {
                    hotspot_for_autocommit =
                        self.value("hotspot_for_autocommit", written, value::switch);
                }
                "auth_user" => login.auth_user = self.value("auth_user", written, value::text),
                "auth_query" => login.auth_query = self.value("auth_query", written, value::text),
                "auth_dbname" => {
                    login.auth_dbname = self.value("auth_dbname", written, value::text);
                }
                "connect_query" => {
                    connect_query = self.value("connect_query", written, value::text);
                }
                "users" => {
                    let table = format!("{table}.users");
                    for (user, content) in self.entries(&table, written) {
                        let of_user =
                            self.user(&format!("{table}.{}", toml_key(user.get_ref())), content);
                        users.insert(user.get_ref().to_string(), of_user);
                    }
                }
                _ => self.term(
                    &table,
                    Table::Database,
                    &DATABASE_KEYS,
                    (key, written),
                    &mut differs,
                ),
            }
        }
        let Some(mut primary) = primary else {
            // A primary that is there but wrong, or a table that is no table, has been noted already.
            if self.problems.len() == before {
                self.note(start, Wrong::NoPrimary { table });
            }
            return None;
        };
        if let Some(written) = password_file {
            self.password(&mut primary, written);
        }
        if name == ANY_DATABASE {
            primary.dbname = None;
        }
        Some(Database {
            primary,
            differs,
            startup,
            connect_query: connect_query.unwrap_or_default(),
            hotspot_for_autocommit,
            login,
            users,
        })
    }

    fn user(&mut self, table: &str, content: &Spanned<DeValue<'_>>) -> UserOverride {
        let mut of_user = UserOverride::default();
        for (key, written) in self.entries(table, content) {
            match key.get_ref().as_ref() {
                "hotspot_for_autocommit" => {
                    of_user.hotspot_for_autocommit =
                        self.value("hotspot_for_autocommit", written, value::switch);
                }
                _ => self.term(
                    table,
                    Table::UserOfDatabase,
                    &USER_KEYS,
                    (key, written),
                    &mut of_user.differs,
                ),
            }
        }
        of_user
    }

    /// A key of the terms that a table there may have; `others` are those that it has besides.
    fn term(
        &mut self,
        table: &str,
        place: Table,
        others: &[&'static str],
        (key, written): Entry<'_, '_>,
        differs: &mut Differences,
    ) {
        let Some(term) = TermKey::named(key.get_ref(), place) else {
            let known: Vec<&str> = TermKey::names(place)
                .chain(others.iter().copied())
                .collect();
            return self.unknown_key(key, table, &known);
        };
        if let Err(wrong) = term.apply(differs, Written::in_toml(written.get_ref())) {
            self.note(written.span().start, wrong);
        }
    }

    fn primary(&mut self, written: &Spanned<DeValue<'_>>) -> Option<Upstream> {
        let upstream = match Written::in_toml(written.get_ref()) {
            Written::Text(url) => {
                let at = written.span().start;
                let exposed = Upstream::password_file(url).and_then(|file| secret::exposed(&file));
                self.remarks.extend(exposed.map(|remark| (at, remark)));
                Upstream::from_url(url).map_err(Wrong::from)
            }
            _ => {
                let got = "this".to_owned();
                let (wanted, example) = ("a URL", "primary = \"postgres://HOST:PORT/DATABASE\"");
                Err(Wrong::Value {
                    key: "primary".to_owned(),
                    error: ValueError::Kind {
                        got,
                        wanted,
                        example,
                    },
                })
            }
        };
        upstream
            .map_err(|wrong| self.note(written.span().start, wrong))
            .ok()
    }

    /// Gives `primary` the password that is in a file of its own.
    fn password(&mut self, primary: &mut Upstream, written: &Spanned<DeValue<'_>>) {
        let Some(Some(file)) = self.value("password_file", written, value::file) else {
            return;
        };
        let at = written.span().start;
        if primary.password.is_some() {
            return self.note(at, Wrong::TwoPasswords);
        }
        match secret::read(&file) {
            Ok(password) => primary.password = Some(password),
            Err(error) => self.note(at, error.into()),
        }
        self.remarks
            .extend(secret::exposed(&file).map(|remark| (at, remark)));
    }

    pub(super) fn value<T>(
        &mut self,
        key: &str,
        written: &Spanned<DeValue<'_>>,
        check: fn(Written<'_>) -> Result<T, ValueError>,
    ) -> Option<T> {
        let checked = check(Written::in_toml(written.get_ref()));
        checked
            .map_err(|error| {
                self.note(
                    written.span().start,
                    Wrong::Value {
                        key: key.to_owned(),
                        error,
                    },
                )
            })
            .ok()
    }

    /// What is in the table called `name`; nothing, and a note, when it is not a table.
    pub(super) fn entries<'a, 'i>(
        &mut self,
        name: &str,
        content: &'a Spanned<DeValue<'i>>,
    ) -> Vec<Entry<'a, 'i>> {
        match content.get_ref() {
            DeValue::Table(table) => table.iter().collect(),
            _ => {
                self.note(
                    content.span().start,
                    Wrong::NotATable {
                        name: name.to_owned(),
                    },
                );
                Vec::new()
            }
        }
    }

    pub(super) fn unknown_key(
        &mut self,
        key: &Spanned<std::borrow::Cow<'_, str>>,
        table: &str,
        known: &[&str],
    ) {
        let nearest = suggest::nearest(key.get_ref(), known.iter().copied()).map(str::to_owned);
        let (at, key, table) = (
            key.span().start,
            key.get_ref().to_string(),
            table.to_owned(),
        );
        self.note(
            at,
            Wrong::UnknownKey {
                key,
                table,
                nearest,
            },
        );
    }

    pub(super) fn note(&mut self, at: usize, wrong: Wrong) {
        self.problems.push((at, wrong));
    }
}

/// `name` as it is written in a table header: quoted unless it is a bare key.
fn toml_key(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(bare) {
        name.to_owned()
    } else {
        format!("\"{}\"", name.escape_default())
    }
}
