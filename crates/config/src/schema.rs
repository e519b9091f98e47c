//! The JSON schema of `paceline.toml`, for editors: made from the keys, kept as `deploy/paceline.schema.json`. It knows kinds and
//! limits of values. `paceline check` reports what only the whole file can violate.

use crate::file::{
    FUNCTION_KEYS, LISTS, PEER_KEYS, REQUIRED_KEYS, SHARD_SERVER_KEYS, SHARD_SERVER_REQUIRED,
    SUBSCRIBER_KEYS, TABLES, TAKE_KEYS, keys_of,
};
use crate::overrides;
use crate::settings::{Key, Settings, Table, keys};
use serde_json::{Map, Value, json};

/// The dialect that it is written in.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// The schema of a `paceline.toml`.
pub fn schema() -> Value {
    let mut tables = Map::new();
    for table in TABLES {
        tables.insert(table.to_owned(), of_table(table));
    }
    for list in LISTS {
        let keys: &[&str] = match list {
            "take" => &TAKE_KEYS,
            _ => &FUNCTION_KEYS,
        };
        tables.insert(list.to_owned(), functions(keys));
    }
    json!({
        "$schema": DIALECT,
        "title": "paceline.toml",
        "description": "The configuration of Paceline: docs/configuration.md",
        "type": "object",
        "properties": tables,
        "additionalProperties": false,
    })
}

fn of_table(name: &str) -> Value {
    match name {
        "paceline" => object(keys().map(|key| (key.name, setting(key))), &[]),
        "databases" => {
            let keys = keys_of(Table::Database).into_iter();
            let properties = keys.map(|key| (key, of_database(key)));
            named(object(properties, &["primary"]))
        }
        "peers" => {
            let properties = PEER_KEYS.into_iter().map(|key| (key, of_peer(key)));
            named(object(properties, &["host"]))
        }
        _ => named(of_user(Table::User)),
    }
}

fn of_peer(key: &str) -> Value {
    match key {
        "host" => {
            text("Where the peer listens alone: a name, an address, or the folder of a Unix socket")
        }
        "port" => json!({ "type": "integer", "minimum": 1, "maximum": 65535, "default": 6432 }),
        key => overriding(Table::Database, key),
    }
}

fn of_database(key: &str) -> Value {
    match key {
        "primary" => text("The server: postgres://USER:PASSWORD@HOST:PORT/DATABASE"),
        "password_file" => text("The file that holds the password, and nothing else"),
        "password_command" => command(),
        "client_encoding" | "datestyle" | "timezone" | "application_name" => {
            text("A setting that server connections are begun with; a client's own replaces it")
        }
        "connect_query" => text("A query that each server connection runs before it serves"),
        "users" => named(of_user(Table::UserOfDatabase)),
        "subscribers" => {
            let properties = SUBSCRIBER_KEYS.map(|key| (key, of_subscriber(key)));
            json!({ "type": "array", "items": object(properties, &REQUIRED_KEYS) })
        }
        "allow_grouping" => json!({
            "type": "array",
            "items": text("A table: schema.table, or the id of a statement: template 0123abcd"),
            "description": "Statements that may join groups without a hint",
        }),
        "deny_grouping" => json!({
            "type": "array",
            "items": text("A table: schema.table, or the id of a statement: template 0123abcd"),
            "description": "Statements that join no groups",
        }),
        "shard_servers" => {
            let properties = SHARD_SERVER_KEYS.map(|key| (key, of_shard_server(key)));
            json!({ "type": "array", "items": object(properties, &SHARD_SERVER_REQUIRED) })
        }
        key => overriding(Table::Database, key),
    }
}

fn of_shard_server(key: &str) -> Value {
    match key {
        "server" => text("The name of the foreign server on the coordinator"),
        "host" => one_or_more(text(
            "Where it listens, if Paceline reaches it elsewhere than the coordinator: its host, or its primary and replicas in any order",
        )),
        "port" => one_or_more(json!({ "type": "integer", "minimum": 1, "maximum": 65535 })),
        "dbname" => text("The database there"),
        "user" => text("The user of all roles that have a user mapping"),
        "password" => text("The password of this user"),
        "password_command" => command(),
        _ => text("The file that holds the password, and nothing else"),
    }
}

fn command() -> Value {
    json!({
        "type": "array",
        "items": { "type": "string" },
        "minItems": 1,
        "description": "The program that writes the password, and nothing else, to its standard output, and its arguments",
    })
}

fn of_subscriber(key: &str) -> Value {
    match key {
        "host" => {
            text("Where the server listens: a name, an address, or the folder of a Unix socket")
        }
        "port" => json!({ "type": "integer", "minimum": 1, "maximum": 65535, "default": 5432 }),
        "dbname" => text("The database there, if it has another name"),
        "zone" => text("The zone of the server"),
        "slot" => text("The replication slot of its subscription on the primary"),
        _ => json!({
            "type": "array",
            "items": text("A table: schema.table"),
            "description": "The tables that it may answer reads of",
        }),
    }
}

fn of_user(table: Table) -> Value {
    let keys = keys_of(table).into_iter();
    object(keys.map(|key| (key, overriding(table, key))), &[])
}

/// A key that replaces one of `[paceline]` in this table.
fn overriding(table: Table, name: &str) -> Value {
    let same_name = || keys().find(|key| key.name == name);
    match overrides::key_in(table, name).or_else(same_name) {
        // The default is that of [paceline].
        Some(key) => described(key).into(),
        None => json!({ "type": ["string", "number", "boolean"] }),
    }
}

fn setting(key: &Key) -> Value {
    let mut schema = described(key);
    let default = in_json(&key.show(&Settings::default()));
    schema.extend(default.map(|default| ("default".to_owned(), default)));
    schema.into()
}

fn described(key: &Key) -> Map<String, Value> {
    let mut schema = key.schema().as_object().cloned().unwrap_or_default();
    schema.insert("description".to_owned(), key.meaning.into());
    schema
}

/// The value of a TOML text.
fn in_json(toml: &str) -> Option<Value> {
    let document: toml::Table = format!("value = {toml}").parse().ok()?;
    serde_json::to_value(document.get("value")?).ok()
}

fn functions(known: &[&str]) -> Value {
    let properties = known.iter().map(|key| (*key, of_function(key)));
    let item = object(properties, &["function"]);
    json!({ "type": "array", "items": item })
}

fn of_function(key: &str) -> Value {
    match key {
        "limit_argument" => json!({ "type": "integer", "minimum": 1, "maximum": 100 }),
        _ => text("The function: name or schema.name"),
    }
}

fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

fn one_or_more(item: Value) -> Value {
    json!({ "anyOf": [item, { "type": "array", "items": item, "minItems": 1 }] })
}

/// Tables of names of one's own.
fn named(table: Value) -> Value {
    json!({ "type": "object", "additionalProperties": table })
}

fn object<'a>(properties: impl IntoIterator<Item = (&'a str, Value)>, required: &[&str]) -> Value {
    let own = |(name, schema): (&str, Value)| (name.to_owned(), schema);
    let properties: Map<String, Value> = properties.into_iter().map(own).collect();
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

#[cfg(test)]
mod tests;
