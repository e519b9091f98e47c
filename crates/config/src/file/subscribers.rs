//! `[[databases.NAME.subscribers]]`: servers to which tables of a database are replicated logically.

use super::peers::{host, port_number};
use super::reader::Reader;
use crate::error::ConfigProblem;
use crate::hosts::ServerHost;
use crate::subscriber::Subscriber;
use crate::upstream::PORT;
use crate::value::{self, ValueError, Written};
use paceline_sql::Name;
use toml::Spanned;
use toml::de::DeValue;

/// The keys of such a table.
pub(crate) const SUBSCRIBER_KEYS: [&str; 6] = ["host", "port", "dbname", "zone", "slot", "tables"];
/// The keys that each of them needs.
pub(crate) const REQUIRED_KEYS: [&str; 3] = ["host", "slot", "tables"];

/// The subscribers in the list called `path`.
pub(super) fn read(
    reader: &mut Reader,
    path: &str,
    content: &Spanned<DeValue<'_>>,
) -> Vec<Subscriber> {
    let DeValue::Array(items) = content.get_ref() else {
        let path = path.to_owned();
        reader.note(content.span().start, ConfigProblem::NotAList(path));
        return Vec::new();
    };
    let mut found = Vec::<Subscriber>::new();
    for item in items.iter() {
        let Some(subscriber) = subscriber(reader, path, item) else {
            continue;
        };
        match found.iter().any(|other| other.at == subscriber.at) {
            true => reader.note(
                item.span().start,
                ConfigProblem::SubscriberTwice(subscriber.at.to_string()),
            ),
            false => found.push(subscriber),
        }
    }
    found
}

fn subscriber(reader: &mut Reader, path: &str, item: &Spanned<DeValue<'_>>) -> Option<Subscriber> {
    let table = format!("[{path}]");
    let before = reader.problems.len();
    let (mut name, mut port, mut dbname, mut zone) = (None, PORT, None, None);
    let (mut slot, mut tables) = (None, None);
    for (key, written) in reader.entries(&table, item) {
        match key.get_ref().as_ref() {
            "host" => name = reader.value("host", written, host),
            "port" => port = reader.value("port", written, port_number).unwrap_or(PORT),
            "dbname" => dbname = reader.value("dbname", written, value::text),
            "zone" => zone = reader.value("zone", written, value::text),
            "slot" => slot = reader.value("slot", written, self::slot),
            "tables" => tables = reader.value("tables", written, self::tables),
            _ => reader.unknown_key(key, &table, &SUBSCRIBER_KEYS),
        }
    }
    let (Some(host), Some(slot), Some(tables)) = (name, slot, tables) else {
        if reader.problems.len() == before {
            reader.note(item.span().start, ConfigProblem::SubscriberKeys(table));
        }
        return None;
    };
    let said = |text: &String| !text.is_empty();
    Some(Subscriber {
        at: ServerHost { host, port },
        dbname: dbname.filter(said),
        zone: zone.filter(said),
        slot,
        tables,
    })
}

fn slot(written: Written<'_>) -> Result<String, ValueError> {
    let text = value::text(written)?;
    let is_of_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    match !text.is_empty() && text.chars().all(is_of_name) {
        true => Ok(text),
        false => {
            let example = "lower-case letters, digits and underscores";
            let wanted = "the name of a replication slot";
            Err(ValueError::kind(format!("\"{text}\""), wanted, example))
        }
    }
}

/// The names of tables, each with its schema.
fn tables(written: Written<'_>) -> Result<Vec<Name>, ValueError> {
    let (wanted, example) = ("a table with its schema", "a list of \"SCHEMA.TABLE\"");
    let qualified = |text: &str| Name::parse(text).filter(|name| name.schema.is_some());
    let texts = value::list(written, wanted, example, |text| {
        qualified(text).map(|name| name.to_string())
    })?;
    let mut names: Vec<Name> = texts.iter().filter_map(|text| qualified(text)).collect();
    names.sort();
    names.dedup();
    match names.is_empty() {
        true => Err(ValueError::kind("nothing", wanted, example)),
        false => Ok(names),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::hosts::Host;

    const APP: &str = "[databases.app]\nprimary = \"postgres://app@pg1\"\n";

    fn read(text: &str) -> Result<Vec<Subscriber>, String> {
        let config = Config::from_toml(&format!("{APP}{text}"), "p.toml");
        let config = config.map_err(|error| error.to_string())?;
        config
            .check_access("p.toml")
            .map_err(|error| error.to_string())?;
        Ok(config.databases["app"].subscribers.clone())
    }

    #[test]
    fn subscribers_are_read_with_defaults() {
        let found = read(
            "[[databases.app.subscribers]]\nhost = \"sub1\"\nslot = \"s\"\ntables = [\"public.Orders\", \"app.\\\"Items\\\"\"]\n\
             [[databases.app.subscribers]]\nhost = \"::1\"\nport = 7000\ndbname = \"copy\"\nzone = \"b\"\nslot = \"s2\"\ntables = [\"a.b\"]",
        )
        .expect("subscribers");
        let [one, two] = found.as_slice() else {
            panic!("{found:?}");
        };
        assert_eq!((one.at.port, &one.dbname, &one.zone), (5432, &None, &None));
        let names: Vec<String> = one.tables.iter().map(Name::to_string).collect();
        assert_eq!(names, ["app.\"Items\"", "public.orders"]);
        assert_eq!(two.at.host, Host::Tcp("::1".to_owned()));
        let (dbname, zone) = (two.dbname.as_deref(), two.zone.as_deref());
        assert_eq!((two.at.port, dbname, zone), (7000, Some("copy"), Some("b")));
    }

    #[test]
    fn errors_name_what_is_wrong() {
        let list = "[[databases.app.subscribers]]\n";
        let whole = format!("{list}host = \"sub\"\nslot = \"s\"\ntables = [\"a.b\"]\n");
        for (text, message) in [
            (
                format!("{list}host = \"sub\"\nslot = \"s\""),
                "p.toml:3: [databases.app.subscribers] needs host, slot and tables",
            ),
            (
                format!("{list}tables = [\"orders\"]"),
                "tables: \"orders\" is not a table with its schema; write a list of \"SCHEMA.TABLE\"",
            ),
            (
                format!("{list}tables = []"),
                "tables: nothing is not a table with its schema",
            ),
            (
                format!("{list}slot = \"S\""),
                "slot: \"S\" is not the name of a replication slot",
            ),
            (
                format!("{whole}user = \"x\""),
                "unknown key \"user\" in [[databases.app.subscribers]]",
            ),
            (
                format!("{whole}{whole}"),
                "p.toml:7: subscriber sub:5432 is named more than once",
            ),
            (
                whole.replace("sub\"", "pg1\""),
                "subscriber pg1:5432 of database app is a host of its URL, too",
            ),
            (
                whole.replace("app", "\"*\"")
                    + "[databases.\"*\"]\nprimary = \"postgres://app@pg1\"",
                "subscribers need a database with a name",
            ),
            (
                "[databases.app]\nsubscribers = 1".replace("[databases.app]\n", ""),
                "\"databases.app.subscribers\" must be a list of tables",
            ),
        ] {
            let error = read(&text).expect_err(&text);
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
