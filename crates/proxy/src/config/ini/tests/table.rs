//! The tables of `docs/from-pgbouncer.md`, made from the keys that there are.

use crate::config::ini::known::{
    ADDRESS, Fate, KNOWN, Known, OF_DATABASES, OF_PEERS, OF_USERS, Parameter,
};
use crate::testing::kept;

/// What becomes of a key.
fn shown(fate: Fate) -> String {
    match fate {
        Fate::Key(key) => format!("`{key}`"),
        Fate::PartOf(key) => format!("part of `{key}`"),
        Fate::Ignored(why) => format!("ignored with a warning: {why}"),
        Fate::Refused { unless: &[], why } => format!("**error**: {why}"),
        Fate::Refused { unless, why } => {
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
    format!("| `{}` | {default} | {} |\n", known.name, shown(known.fate))
}

fn rows(section: &str, known: &[Parameter]) -> String {
    let row = |parameter: &Parameter| {
        let becomes = shown(parameter.fate);
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
    let databases = rows("[databases]", OF_DATABASES);
    let users = rows("[users]", OF_USERS);
    let peers = rows("[peers]", OF_PEERS);
    format!("| section | key | here |\n|---|---|---|\n{address}{databases}{users}{peers}")
}

/// `text` with `table` between the marks called `name`.
fn put(text: &str, name: &str, table: &str) -> String {
    let (begin, end) = (
        format!("<!-- {name} -->\n"),
        format!("<!-- end of {name} -->"),
    );
    let (before, rest) = text.split_once(&begin).unwrap();
    let (_, behind) = rest.split_once(&end).unwrap();
    format!("{before}{begin}{table}{end}{behind}")
}

#[test]
fn the_documentation_says_what_becomes_of_every_key() {
    kept("docs/from-pgbouncer.md", |text| {
        let text = put(text, "settings", &settings());
        put(&text, "sections", &sections())
    });
}
