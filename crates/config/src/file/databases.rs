//! The tables `[databases.NAME]`, `[databases.NAME.users.USER]` and `[users.USER]`.

use super::reader::{Entry, Reader, toml_key};
use super::{passwords, shard_servers, subscribers};
use crate::config::{ANY_DATABASE, Database, DatabaseLogin, PGBOUNCER};
use crate::error::ConfigProblem;
use crate::grouping::{GroupingDecisions, GroupingTarget};
use crate::hosts::HostList;
use crate::overrides::{self, PoolOverrides};
use crate::secret;
use crate::settings::Table;
use crate::upstream::Upstream;
use crate::value::{self, ValueError, Written};
use std::collections::BTreeMap;
use toml::Spanned;
use toml::de::DeValue;

/// The keys of `[databases.NAME]` that are read here, not by [`PoolOverrides`].
const DATABASE_KEYS: [&str; 16] = [
    "primary",
    "password_file",
    "password_command",
    "client_encoding",
    "datestyle",
    "timezone",
    "application_name",
    "auth_user",
    "auth_query",
    "auth_dbname",
    "connect_query",
    "allow_grouping",
    "deny_grouping",
    "users",
    "subscribers",
    "shard_servers",
];

/// The startup parameters of server connections among them, in the order of the documentation.
const STARTUP_KEYS: [&str; 4] = [
    "client_encoding",
    "datestyle",
    "timezone",
    "application_name",
];

/// The keys that a table of a database or user may have.
pub(crate) fn keys_of(table: Table) -> Vec<&'static str> {
    let others: &[&str] = match table {
        Table::Database => &DATABASE_KEYS,
        Table::UserOfDatabase | Table::User => &[],
    };
    let overrides = overrides::names_in(table);
    overrides.chain(others.iter().copied()).collect()
}

/// Reads all tables of `[databases]`.
pub(super) fn read(
    reader: &mut Reader,
    content: &Spanned<DeValue<'_>>,
) -> BTreeMap<String, Database> {
    let mut databases = BTreeMap::new();
    for (name, content) in reader.entries("databases", content) {
        if name.get_ref() == PGBOUNCER {
            reader.note(name.span().start, ConfigProblem::ConsolesName);
        } else if let Some(database) = database(reader, name.get_ref(), content) {
            databases.insert(name.get_ref().to_string(), database);
        }
    }
    databases
}

/// Reads the tables of users in the table called `path`.
pub(super) fn read_users(
    reader: &mut Reader,
    path: &str,
    table: Table,
    content: &Spanned<DeValue<'_>>,
) -> BTreeMap<String, PoolOverrides> {
    let mut users = BTreeMap::new();
    for (user, content) in reader.entries(path, content) {
        let path = format!("{path}.{}", toml_key(user.get_ref()));
        let mut overrides = PoolOverrides::default();
        for entry in reader.entries(&path, content) {
            read_override(reader, &path, table, entry, &mut overrides);
        }
        users.insert(user.get_ref().to_string(), overrides);
    }
    users
}

/// Reads `[databases.NAME]`. If the table names no server, notes that and returns `None`.
fn database(reader: &mut Reader, name: &str, content: &Spanned<DeValue<'_>>) -> Option<Database> {
    let table = format!("databases.{}", toml_key(name));
    // An inline table or [databases.x] starts here; a missing key has no better place.
    let start = content.span().start;
    let mut primary = None;
    let mut overrides = PoolOverrides::default();
    let mut password = None;
    let mut startup = Vec::new();
    let mut connect_query = None;
    let mut login = DatabaseLogin::default();
    let mut users = BTreeMap::new();
    let mut subscribers = Vec::new();
    let mut shard_servers = Vec::new();
    let mut grouping = GroupingDecisions::new();
    let before = reader.problems.len();
    for (key, written) in reader.entries(&table, content) {
        match key.get_ref().as_ref() {
            "primary" => primary = self::primary(reader, written),
            key @ ("password_file" | "password_command") => {
                if password.replace((key.to_owned(), written)).is_some() {
                    let twice = ConfigProblem::PasswordFileAndCommand;
                    reader.note(written.span().start, twice);
                }
            }
            key if STARTUP_KEYS.contains(&key) => {
                let value = reader.value(key, written, value::parameter);
                startup.extend(value.map(|value| (key.to_owned(), value)));
            }
            "auth_user" => login.auth_user = reader.value("auth_user", written, value::text),
            "auth_query" => login.auth_query = reader.value("auth_query", written, value::text),
            "auth_dbname" => login.auth_dbname = reader.value("auth_dbname", written, value::text),
            "connect_query" => connect_query = reader.value("connect_query", written, value::text),
            key @ ("allow_grouping" | "deny_grouping") => {
                let targets = reader.value(key, written, targets).unwrap_or_default();
                let allowed = key == "allow_grouping";
                for target in targets {
                    if grouping.insert(target.clone(), allowed) == Some(!allowed) {
                        let target = target.to_string();
                        reader.note(
                            written.span().start,
                            ConfigProblem::AllowedAndDenied(target),
                        );
                    }
                }
            }
            "users" => {
                let path = format!("{table}.users");
                users = read_users(reader, &path, Table::UserOfDatabase, written);
            }
            "subscribers" => {
                let path = format!("{table}.subscribers");
                subscribers = subscribers::read(reader, &path, written);
            }
            "shard_servers" => {
                let path = format!("{table}.shard_servers");
                shard_servers = shard_servers::read(reader, &path, written);
            }
            _ => read_override(
                reader,
                &table,
                Table::Database,
                (key, written),
                &mut overrides,
            ),
        }
    }
    let Some((mut primary, hosts)) = primary else {
        // The reader has noted a wrong primary, or a value that is not a table.
        if reader.problems.len() == before {
            reader.note(start, ConfigProblem::NoPrimary(table));
        }
        return None;
    };
    if let Some((key, written)) = password {
        set_password(reader, &mut primary, &key, written);
    }
    if name == ANY_DATABASE {
        primary.dbname = None;
    }
    Some(Database {
        primary,
        hosts,
        overrides,
        startup,
        connect_query: connect_query.unwrap_or_default(),
        login,
        users,
        subscribers,
        shard_servers,
        grouping,
    })
}

/// Tables with their schemas, and ids of templates.
fn targets(written: Written<'_>) -> Result<Vec<GroupingTarget>, ValueError> {
    let wanted = "a table with its schema, or a template";
    let example = "a list of \"SCHEMA.TABLE\" and \"template ID\"";
    let target = |text: &str| GroupingTarget::parse(text);
    let texts = value::list(written, wanted, example, |text| {
        target(text).map(|target| target.to_string())
    })?;
    Ok(texts.iter().filter_map(|text| target(text)).collect())
}

/// Reads one key of the table called `name` as an override.
fn read_override(
    reader: &mut Reader,
    name: &str,
    table: Table,
    (key, written): Entry<'_, '_>,
    overrides: &mut PoolOverrides,
) {
    let Some(known) = overrides::key_in(table, key.get_ref()) else {
        return reader.unknown_key(key, name, &keys_of(table));
    };
    let set = overrides.set(known, Written::in_toml(written.get_ref()));
    reader.check(written, set);
}

fn primary(reader: &mut Reader, written: &Spanned<DeValue<'_>>) -> Option<(Upstream, HostList)> {
    let Written::Text(url) = Written::in_toml(written.get_ref()) else {
        let example = "primary = \"postgres://HOST:PORT/DATABASE\"";
        return reader.value("primary", written, |_| {
            Err(ValueError::kind("this", "a URL", example))
        });
    };
    let exposed = Upstream::password_file(url).and_then(|file| secret::exposed(&file));
    let remark = exposed.map(|remark| (written.span().start, remark));
    reader.remarks.extend(remark);
    reader.check(written, Upstream::with_hosts(url))
}

/// Gives `primary` the password of a key beside it.
fn set_password(
    reader: &mut Reader,
    primary: &mut Upstream,
    key: &str,
    written: &Spanned<DeValue<'_>>,
) {
    let source = passwords::source(reader, key, written);
    if primary.password.is_some() && source.is_some() {
        let twice = ConfigProblem::TwoPasswords(key.to_owned());
        return reader.note(written.span().start, twice);
    }
    primary.password = source.or(primary.password.take());
}
