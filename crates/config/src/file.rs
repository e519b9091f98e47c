//! The configuration file: TOML to [`Config`], with every problem in it and the line of each.

mod databases;
mod functions;
mod passwords;
mod peers;
mod reader;
mod shard_servers;
mod subscribers;

pub(crate) use databases::keys_of;
pub(crate) use functions::{FUNCTION_KEYS, TAKE_KEYS};
pub(crate) use peers::PEER_KEYS;
pub(crate) use shard_servers::{SHARD_SERVER_KEYS, SHARD_SERVER_REQUIRED};
pub(crate) use subscribers::{REQUIRED_KEYS, SUBSCRIBER_KEYS};

use crate::config::Config;
use crate::error::{ConfigError, ConfigProblem, Problem};
use crate::remark::Remark;
use crate::settings::{self, Table};
use crate::suggest;
use crate::value::Written;
pub(crate) use functions::LISTS;
use reader::{Entry, Reader};
use toml::de::DeTable;

/// The tables, beside the lists of functions.
pub(crate) const TABLES: [&str; 4] = ["paceline", "databases", "users", "peers"];

/// Reads a whole file. In messages, `place` names a line, from 1.
pub(super) fn read(
    text: &str,
    place: &dyn Fn(usize) -> String,
) -> Result<(Config, Vec<Remark>), ConfigError> {
    let document = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let message = error.message().trim().replace('\n', ", ");
        let wrong = ConfigProblem::Syntax(message);
        ConfigError::one(Problem::at(place(line_of(text, at)), wrong))
    })?;
    let mut reader = Reader::default();
    let config = config(&mut reader, document.get_ref());
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
    let before = text.bytes().take(offset);
    1 + before.filter(|byte| *byte == b'\n').count()
}

fn config(reader: &mut Reader, document: &DeTable<'_>) -> Config {
    let mut config = Config::default();
    for (name, content) in document {
        match name.get_ref().as_ref() {
            "paceline" => {
                for entry in reader.entries("paceline", content) {
                    setting(reader, &mut config, entry);
                }
            }
            "peers" => config.peers = peers::read(reader, content),
            "databases" => config.databases = databases::read(reader, content),
            "users" => config.users = databases::read_users(reader, "users", Table::User, content),
            name_of_table => match LISTS.into_iter().find(|list| *list == name_of_table) {
                Some(list) => functions::read(reader, list, content, &mut config.declared),
                None => reader.note(name.span().start, unknown_table(name_of_table)),
            },
        }
    }
    config
}

fn unknown_table(name: &str) -> ConfigProblem {
    let nearest = suggest::nearest(name, TABLES.into_iter().chain(LISTS));
    let nearest = nearest.map(|name| match LISTS.contains(&name) {
        true => format!("[{name}]"),
        false => name.to_owned(),
    });
    let name = name.to_owned();
    ConfigProblem::UnknownTable { name, nearest }
}

fn setting(reader: &mut Reader, config: &mut Config, (key, written): Entry<'_, '_>) {
    match settings::key(key.get_ref()) {
        Err(wrong) => reader.note(key.span().start, wrong),
        Ok(known) => {
            let applied = known.apply(&mut config.paceline, Written::in_toml(written.get_ref()));
            reader.check(written, applied);
        }
    }
}
