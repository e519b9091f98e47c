//! The tables of `docs/from-pgbouncer.md`, made from the keys that there are.

use crate::ini::known::{ADDRESS, KNOWN, Known, Mapping, OF_DATABASES, OF_PEERS, OF_USERS};
use crate::tests::documents::{MARKDOWN, put};
use paceline_testing::kept;

/// The text of the table for a key.
fn shown(mapping: Mapping) -> String {
    match mapping {
        Mapping::Key(key) => format!("`{key}`"),
        Mapping::PartOf(key) => format!("part of `{key}`"),
        Mapping::Ignored(why) => format!("ignored with a warning: {why}"),
        Mapping::Refused { unless: &[], why } => format!("**error**: {why}"),
        Mapping::Refused { unless, why } => {
            let shown = |value: &&str| match *value {
                "" => "empty".to_owned(),
                value => format!("`{value}`"),
            };
            let unless: Vec<String> = unless.iter().map(shown).collect();
            format!("**error** unless {}: {why}", unless.join(", "))
        }
    }
}

fn row(known: &Known) -> String {
    let default = match known.default {
        "" => "–".to_owned(),
        default => format!("`{default}`"),
    };
    format!(
        "| `{}` | {default} | {} |\n",
        known.name,
        shown(known.mapping)
    )
}

fn rows(section: &str, known: &[Known]) -> String {
    let row = |parameter: &Known| {
        let becomes = shown(parameter.mapping);
        format!("| `{section}` | `{}` | {becomes} |\n", parameter.name)
    };
    known.iter().map(row).collect()
}

fn settings() -> String {
    let rows: String = KNOWN.iter().map(row).collect();
    format!("| `[pgbouncer]` | default there | here |\n|---|---|---|\n{rows}")
}

fn sections() -> String {
    let of_address =
        |key: &str| format!("| `[databases]` | `{key}` | part of the URL `primary` |\n");
    let address: String = ADDRESS.into_iter().map(of_address).collect();
    let databases = rows("[databases]", &OF_DATABASES);
    let users = rows("[users]", &OF_USERS);
    let peers = rows("[peers]", &OF_PEERS);
    format!("| section | key | here |\n|---|---|---|\n{address}{databases}{users}{peers}")
}

#[test]
fn the_documentation_says_what_becomes_of_every_key() {
    kept("docs/from-pgbouncer.md", |text| {
        let text = put(text, MARKDOWN, "settings", &settings());
        put(&text, MARKDOWN, "sections", &sections())
    });
}
