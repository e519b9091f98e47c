//! The settings of a pool if several tables override the same keys.

use super::*;
use crate::config::Config;
use crate::pool_settings::PoolSettings;
use crate::settings::key::ALL_TABLES;

fn read(text: &str) -> Config {
    Config::from_toml(text, "paceline.toml").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn settings(config: &Config, database: &str, user: &str) -> PoolSettings {
    config.pool_settings(config.database(database).unwrap().0, user)
}

fn refused(text: &str) -> String {
    match Config::from_toml(text, "paceline.toml") {
        Ok(config) => panic!("was read as {config:?}\n{text}"),
        Err(error) => error.to_string(),
    }
}

/// Two values of a key; the first one is not its default.
fn values(key: &Key) -> [&'static str; 2] {
    let values = match (key.name, key.unit()) {
        ("pool_mode", _) => ["\"session\"", "\"statement\""],
        ("session_state", _) => ["\"track\"", "\"error\""],
        ("listen_mode", _) => ["\"shared\"", "\"session\""],
        ("reads", _) => ["\"session\"", "\"any\""],
        ("replicas_gone", _) => ["\"error\"", "\"primary\""],
        ("shards", _) => ["\"auto\"", "\"off\""],
        ("monitor_user" | "monitor_password" | "zone", _) => ["\"one\"", "\"two\""],
        ("monitor_password_file", _) => ["\"/one\"", "\"/two\""],
        ("zones", _) => ["[\"a\", \"b\"]", "\"b,a\""],
        ("server_compression", _) => ["\"zstd\"", "\"zstd:1\""],
        ("patroni", _) => ["[\"http://one\"]", "\"http://two\""],
        (_, "–") => ["true", "false"],
        (_, "seconds") => ["3", "\"4s\""],
        _ => ["3", "4"],
    };
    let [first, second] = values;
    match key.show(&Settings::default()) == first {
        true => [second, first],
        false => values,
    }
}

/// Every key that a table may override.
fn overridable() -> impl Iterator<Item = &'static Key> {
    keys().filter(|key| !key.tables.is_empty())
}

/// The header of a table there; its user is `web`, its database `app`.
fn table(place: Table) -> &'static str {
    match place {
        Table::Database => "[databases.app]\nprimary = \"postgres://db\"",
        Table::UserOfDatabase => "[databases.app.users.web]",
        Table::User => "[users.web]",
    }
}

/// A file that says `key = value` at each of these places.
fn said(key: &Key, at: &[(Table, &str)]) -> Config {
    let mut text = String::new();
    for place in ALL_TABLES {
        let value = at.iter().find(|(said, _)| said == place);
        text += table(*place);
        text += &value.map_or(String::new(), |(_, value)| {
            format!("\n{} = {value}", key.override_name)
        });
        text += "\n";
    }
    read(&text)
}

#[test]
fn every_key_counts_in_the_tables_that_may_have_it_only() {
    for key in overridable() {
        for place in ALL_TABLES {
            let name = key.override_name;
            let [value, _] = values(key);
            if !key.tables.contains(place) {
                let text = format!(
                    "{}\n{}\n{name} = {value}",
                    table(Table::Database),
                    table(*place)
                );
                let text = text.replacen(
                    table(Table::Database),
                    "",
                    usize::from(*place == Table::Database),
                );
                assert!(refused(&text).contains("unknown key"), "{name} {place:?}");
                continue;
            }
            let config = said(key, &[(*place, value)]);
            let there = settings(&config, "app", "web");
            assert_ne!(
                there,
                settings(&read(table(Table::Database)), "app", "web"),
                "{name} {place:?}"
            );
            let other = settings(&config, "app", "other");
            assert_eq!(
                other == there,
                *place == Table::Database,
                "{name} {place:?}"
            );
        }
    }
}

#[test]
fn the_more_specific_table_takes_precedence() {
    let order = [Table::UserOfDatabase, Table::User, Table::Database];
    for key in overridable() {
        let [value, other] = values(key);
        let places: Vec<Table> = order
            .into_iter()
            .filter(|place| key.tables.contains(place))
            .collect();
        for pair in places.windows(2) {
            let both = said(key, &[(pair[0], value), (pair[1], other)]);
            let first = said(key, &[(pair[0], value)]);
            let [both, first] = [both, first].map(|config| settings(&config, "app", "web"));
            assert_eq!(both, first, "{} {pair:?}", key.name);
        }
    }
}

#[test]
fn both_names_of_a_pools_size_are_known() {
    for name in ["pool_size", "default_pool_size"] {
        let config = read(&format!("{}\n{name} = 7", table(Table::Database)));
        assert_eq!(settings(&config, "app", "web").size, 7, "{name}");
    }
}

#[test]
fn min_pool_size_is_at_most_the_size_of_the_pool() {
    let config = read(
        "[paceline]\ndefault_pool_size = 3\nmin_pool_size = 5\n[databases.app]\nprimary = \"postgres://db\"",
    );
    assert_eq!(settings(&config, "app", "web").min_size, 3);
}

#[test]
fn a_reserve_that_is_never_used_is_none() {
    let text = "[paceline]\nreserve_pool_size = 3\nreserve_pool_timeout = 0\n[databases.app]\nprimary = \"postgres://db\"";
    assert_eq!(settings(&read(text), "app", "web").reserve_size, 0);
}

#[test]
fn connections_are_counted_by_the_user_on_the_server() {
    let config = read(
        "[databases.app]\nprimary = \"postgres://svc@db\"\n\
         [users.svc]\nmax_user_connections = 5\npool_mode = \"session\"\n[users.web]\nmax_user_connections = 6",
    );
    let found = settings(&config, "app", "web");
    assert_eq!(
        (found.user_servers_max, found.pooling.pool_mode),
        (Some(5), PoolMode::Transaction)
    );
}

#[test]
fn wrong_values_are_reported_with_their_line() {
    for (line, expected) in [
        (
            "pool_mode = \"sessions\"",
            "pool_mode: \"sessions\" is none of: session, transaction, statement",
        ),
        (
            "pool_size = 0",
            "pool_size: 0 is outside its limits; write a value from 1 to 10000",
        ),
        (
            "default_pool_size = \"7\"",
            "pool_size: \"7\" is not a whole number",
        ),
        (
            "server_lifetime = \"366d\"",
            "server_lifetime: \"366d\" is outside its limits",
        ),
        (
            "query_timeout = 1",
            "unknown key \"query_timeout\" in [databases.app]",
        ),
    ] {
        let message = refused(&format!(
            "[databases.app]\nprimary = \"postgres://db\"\n{line}"
        ));
        assert!(
            message.starts_with(&format!("paceline.toml:3: {expected}")),
            "{message}"
        );
    }
    assert_eq!(
        refused("[users.web]\npool_sise = 1"),
        "paceline.toml:2: unknown key \"pool_sise\" in [users.web]; did you mean \"pool_size\"?"
    );
}
