//! The settings of a startup packet.

use crate::login_refusal::LoginRefusal;
use paceline_config::State;
use paceline_sql::{quote_ident, quote_literal};
use paceline_wire::ErrorResponse;
use paceline_wire::startup::Startup;
use std::collections::BTreeMap;

/// The settings of a startup packet, as the SQL that sets them.
pub(super) fn settings_of(
    startup: &Startup,
    state: &State,
) -> Result<BTreeMap<String, String>, LoginRefusal> {
    const NOT_SETTINGS: [&str; 4] = ["user", "database", "replication", "options"];
    let mut sets = BTreeMap::new();
    let mut set = |name: &str, value: &str| {
        if state.ignores(name) {
            return;
        }
        let sql = match name.split_once('.') {
            Some((class, name)) => format!("{}.{}", quote_ident(class), quote_ident(name)),
            None => quote_ident(name),
        };
        let sql = match name {
            "search_path" | "datestyle" | "temp_tablespaces" => format!(
                "SELECT pg_catalog.set_config({}, {}, false)",
                quote_literal(name),
                quote_literal(value)
            ),
            _ => format!("SET {sql} TO {}", quote_literal(value)),
        };
        sets.insert(name.to_owned(), sql);
    };
    let words = startup.get("options").unwrap_or_default();
    for option in options(words) {
        match option {
            Ok((name, value)) if !state.ignores_option(&name) => {
                set(&name.to_ascii_lowercase(), &value);
            }
            Err(word) if !state.ignores("options") => return Err(not_understood(&word)),
            Ok(_) | Err(_) => {}
        }
    }
    for (name, value) in &startup.parameters {
        if !NOT_SETTINGS.contains(&name.as_str()) && !name.starts_with("_pq_.") {
            set(&name.to_ascii_lowercase(), value);
        }
    }
    Ok(sets)
}

/// Reads `-c name=value` and `--name=value`, with backslashes before spaces (PostgreSQL documentation, `postgres`). Returns any
/// other word as an error.
fn options(text: &str) -> Vec<Result<(String, String), String>> {
    let mut words = split_words(text).into_iter();
    let mut found = Vec::new();
    while let Some(word) = words.next() {
        let assignment = match word.as_str() {
            "-c" => words.next(),
            other => other
                .strip_prefix("--")
                .or_else(|| other.strip_prefix("-c"))
                .map(str::to_owned),
        };
        let pair = assignment.as_deref().and_then(|a| a.split_once('='));
        found.push(match pair {
            Some((name, value)) => Ok((name.replace('-', "_"), value.to_owned())),
            None => Err(word),
        });
    }
    found
}

fn not_understood(word: &str) -> LoginRefusal {
    let message = format!("unsupported word in startup options: {word}");
    ErrorResponse::fatal("0A000", message)
        .with_hint("Only -c name=value and --name=value are understood.")
        .into()
}

fn split_words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut chars) = (Vec::new(), String::new(), text.chars());
    while let Some(c) = chars.next() {
        match c {
            '\\' => word.extend(chars.next()),
            c if c.is_whitespace() => {
                words.extend((!word.is_empty()).then(|| std::mem::take(&mut word)));
            }
            c => word.push(c),
        }
    }
    words.extend((!word.is_empty()).then_some(word));
    words
}
