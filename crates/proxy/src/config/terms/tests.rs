//! What holds for a pool when much is said.

use super::*;

fn read(text: &str) -> Config {
    Config::from_toml(text, "paceline.toml").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn terms(config: &Config, database: &str, user: &str) -> Terms {
    config.terms(config.database(database).unwrap().0, user)
}

fn refused(text: &str) -> String {
    match Config::from_toml(text, "paceline.toml") {
        Ok(config) => panic!("was read as {config:?}\n{text}"),
        Err(error) => error.to_string(),
    }
}

/// A value for a key, and another one.
fn values(key: &TermKey) -> [&'static str; 2] {
    match key.kind {
        Kind::Mode => ["\"session\"", "\"statement\""],
        Kind::State => ["\"track\"", "\"error\""],
        Kind::Listen => ["\"shared\"", "\"session\""],
        Kind::Count(..) => ["3", "4"],
        Kind::Time(_) => ["3", "\"4s\""],
    }
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
fn said(key: &TermKey, at: &[(Table, &str)]) -> Config {
    let mut text = String::new();
    for place in EVERYWHERE {
        let value = at.iter().find(|(said, _)| said == place);
        text += table(*place);
        text += &value.map_or(String::new(), |(_, value)| {
            format!("\n{} = {value}", key.name)
        });
        text += "\n";
    }
    read(&text)
}

#[test]
fn every_key_counts_wherever_it_may_stand_and_nowhere_else() {
    for key in TERM_KEYS {
        for place in EVERYWHERE {
            let name = key.name;
            let [value, _] = values(key);
            if !key.places.contains(place) {
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
            let there = terms(&config, "app", "web");
            assert_ne!(
                there,
                terms(&read(table(Table::Database)), "app", "web"),
                "{name} {place:?}"
            );
            let other = terms(&config, "app", "other");
            assert_eq!(
                other == there,
                *place == Table::Database,
                "{name} {place:?}"
            );
        }
    }
}

#[test]
fn what_is_said_of_fewer_counts_first() {
    let order = [Table::UserOfDatabase, Table::User, Table::Database];
    for key in TERM_KEYS {
        let [value, other] = values(key);
        let places: Vec<Table> = order
            .into_iter()
            .filter(|place| key.places.contains(place))
            .collect();
        for pair in places.windows(2) {
            let both = said(key, &[(pair[0], value), (pair[1], other)]);
            let first = said(key, &[(pair[0], value)]);
            let [both, first] = [both, first].map(|config| terms(&config, "app", "web"));
            assert_eq!(both, first, "{} {pair:?}", key.name);
        }
    }
}

#[test]
fn both_names_of_a_pools_size_are_known() {
    for name in ["pool_size", "default_pool_size"] {
        let config = read(&format!("{}\n{name} = 7", table(Table::Database)));
        assert_eq!(terms(&config, "app", "web").size, 7, "{name}");
    }
}

#[test]
fn what_is_kept_is_no_more_than_there_may_be() {
    let config = read(
        "[paceline]\ndefault_pool_size = 3\nmin_pool_size = 5\n[databases.app]\nprimary = \"postgres://db\"",
    );
    assert_eq!(terms(&config, "app", "web").min_size, 3);
}

#[test]
fn a_reserve_that_is_never_used_is_none() {
    let text = "[paceline]\nreserve_pool_size = 3\nreserve_pool_timeout = 0\n[databases.app]\nprimary = \"postgres://db\"";
    assert_eq!(terms(&read(text), "app", "web").reserve_size, 0);
}

#[test]
fn connections_are_counted_by_the_user_on_the_server() {
    let config = read(
        "[databases.app]\nprimary = \"postgres://svc@db\"\n\
         [users.svc]\nmax_user_connections = 5\npool_mode = \"session\"\n[users.web]\nmax_user_connections = 6",
    );
    let terms = terms(&config, "app", "web");
    assert_eq!(
        (terms.user_servers_max, terms.mode),
        (Some(5), PoolMode::Transaction)
    );
}

#[test]
fn wrong_values_are_told_with_their_line() {
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

#[test]
fn the_documentation_says_where_each_key_may_stand() {
    let documentation = include_str!("../../../../../docs/configuration.md");
    for key in TERM_KEYS {
        let mark = |place| match key.places.contains(&place) {
            true => "yes",
            false => "–",
        };
        let [database, there, everywhere] =
            [Table::Database, Table::UserOfDatabase, Table::User].map(mark);
        let row = format!("| `{}` | {database} | {there} | {everywhere} |", key.name);
        assert!(
            documentation.contains(&row),
            "docs/configuration.md lacks a line that begins with\n{row}"
        );
    }
}
