//! The documents that are made from the keys: tables of `docs/configuration.md`, and the example `deploy/paceline.toml`.

use crate::overrides::keys_in;
use crate::settings::key::ALL_TABLES;
use crate::settings::{Key, Section, Settings, keys, sections};
use paceline_testing::kept;

/// `text` with `content` between the marks called `name`; `comment` is what begins and ends a comment there.
pub(crate) fn put(text: &str, comment: [&str; 2], name: &str, content: &str) -> String {
    let [open, close] = comment;
    let begin = format!("{open} {name}{close}\n");
    let end = format!("{open} end of {name}{close}");
    let (before, rest) = text.split_once(&begin).expect(&begin);
    let (_, behind) = rest.split_once(&end).expect(&end);
    format!("{before}{begin}{content}{end}{behind}")
}

/// A comment of Markdown.
pub(crate) const MARKDOWN: [&str; 2] = ["<!--", " -->"];
const TOML: [&str; 2] = ["#", ""];

/// Most characters in a line of a comment.
const COMMENT_WIDTH: usize = 130;

/// `text` so that Markdown shows what would be a tag of HTML.
fn in_markdown(text: &str) -> String {
    text.replace('<', "\\<")
}

fn table(section: &Section) -> String {
    let defaults = Settings::default();
    let row = |key: &Key| {
        let (name, unit, limits) = (key.name, key.unit(), key.limits());
        let (default, meaning) = (key.show(&defaults), in_markdown(key.meaning));
        format!("| `{name}` | {unit} | `{default}` | {limits} | {meaning} |\n")
    };
    let rows: String = section.keys.iter().map(row).collect();
    format!("| key | unit | default | limits | meaning |\n|---|---|---|---|---|\n{rows}")
}

fn overrides() -> String {
    let row = |key: &Key| {
        let [database, there, everywhere] =
            [0, 1, 2].map(|table| match key.tables.contains(&ALL_TABLES[table]) {
                true => "yes",
                false => "–",
            });
        let alias = key.override_alias.map_or(String::new(), |alias| {
            format!("; `{alias}` is another name for it")
        });
        let (name, meaning) = (key.override_name, in_markdown(key.meaning));
        format!("| `{name}` | {database} | {there} | {everywhere} | {meaning}{alias} |\n")
    };
    let rows: String = keys()
        .filter(|key| !key.tables.is_empty())
        .map(row)
        .collect();
    format!(
        "| key | `[databases.NAME]` | `[databases.NAME.users.USER]` | `[users.USER]` | meaning |\n|---|---|---|---|---|\n{rows}"
    )
}

/// The part of the example that shows the defaults.
fn example() -> String {
    let defaults = Settings::default();
    let of_key = |key: &Key| {
        let comment = format!("{}{}", key.meaning, values(key));
        let (name, default) = (key.name, key.show(&defaults));
        format!("\n{}{name} = {default}\n", commented(&comment))
    };
    let of_section = |section: &Section| {
        let keys: String = section.keys.iter().map(of_key).collect();
        format!("\n### {}\n{keys}", section.heading)
    };
    let sections: String = sections().map(of_section).collect();
    format!("\n[paceline]\n{sections}\n")
}

/// The unit and the limits of a key in brackets, unless its default shows them.
fn values(key: &Key) -> String {
    match (key.unit(), key.limits()) {
        ("–", "any" | "true, false") => String::new(),
        (unit, "any" | "absolute") => format!(" ({unit})"),
        _ => format!(" ({})", key.values()),
    }
}

/// `text` as lines of a comment.
fn commented(text: &str) -> String {
    let mut lines = String::new();
    let mut line = "#".to_owned();
    for word in text.split(' ') {
        if line.chars().count() + word.chars().count() >= COMMENT_WIDTH {
            lines += &format!("{line}\n");
            line = "#".to_owned();
        }
        line += &format!(" {word}");
    }
    format!("{lines}{line}\n")
}

#[test]
fn the_documentation_has_every_key() {
    kept("docs/configuration.md", |text| {
        let mut text = put(text, MARKDOWN, "overrides", &overrides());
        for section in sections() {
            text = put(&text, MARKDOWN, section.heading, &table(section));
        }
        text
    });
}

#[test]
fn the_example_has_every_key_with_its_default() {
    kept("deploy/paceline.toml", |text| {
        put(text, TOML, "keys and defaults", &example())
    });
    let example = include_str!("../../../../deploy/paceline.toml");
    let config = crate::Config::from_toml(example, "paceline.toml").unwrap();
    assert_eq!(config.paceline, Settings::default());
    assert!(!config.databases.is_empty());
}

#[test]
fn every_override_names_its_key() {
    for key in ALL_TABLES.iter().flat_map(|table| keys_in(*table)) {
        let names = [Some(key.override_name), key.override_alias];
        assert!(names.contains(&Some(key.name)), "{key:?}");
    }
}
