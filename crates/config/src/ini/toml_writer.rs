//! The TOML for a `pgbouncer.ini`, and the source line of each of its lines. The reader of `paceline.toml` checks it, and
//! `paceline import` prints it.

use super::server::Server;
use super::source_line::SourceLine;

/// The lines of the file so far.
#[derive(Default)]
pub(super) struct TomlWriter {
    lines: Vec<(Line, Option<SourceLine>)>,
}

enum Line {
    Text(String),
    /// The server of a database; [`Passwords`] determines how its password is written.
    Primary(Server),
}

/// The comment that replaces a password.
const WITHHELD: &str = "# password_file = \"/PATH\"  # the password is not shown: put it into a file that only paceline can read, or let --password-dir do that";

/// The place of passwords in the TOML.
#[derive(Clone, Copy)]
pub(crate) enum Passwords<'a> {
    /// In the URL, for the reader only.
    Open,
    /// In these files, in the order of [`TomlWriter::servers_with_password`].
    Files(&'a [String]),
    /// Not at all: a comment replaces each.
    Withheld,
}

/// TOML, and the source line of each line.
pub(crate) struct Written {
    pub(crate) text: String,
    places: Vec<Option<SourceLine>>,
}

impl Written {
    /// The source of the line with this number, from 1.
    pub(crate) fn place(&self, line: usize) -> Option<String> {
        let place = self.places.get(line.checked_sub(1)?)?.as_ref()?;
        Some(place.to_string())
    }

    fn line(&mut self, text: &str, place: Option<&SourceLine>) {
        self.text.push_str(text);
        self.text.push('\n');
        self.places.push(place.cloned());
    }
}

impl TomlWriter {
    /// Begins a table; `path` is its name in parts.
    pub(super) fn table(&mut self, path: &[&str], place: &SourceLine) {
        let names: Vec<String> = path.iter().map(|name| toml_key(name)).collect();
        self.text(String::new(), None);
        self.text(format!("[{}]", names.join(".")), Some(place));
    }

    /// A key of the last table; `value` is TOML. `comment` follows it, unless it is empty.
    pub(super) fn key(&mut self, key: &str, value: &str, comment: &str, place: &SourceLine) {
        let comment = match comment {
            "" => String::new(),
            comment => format!("  # {comment}"),
        };
        self.text(format!("{key} = {value}{comment}"), Some(place));
    }

    /// The server of the database of the last table.
    pub(super) fn primary(&mut self, server: Server, place: &SourceLine) {
        self.lines
            .push((Line::Primary(server), Some(place.clone())));
    }

    /// A comment. It must not repeat anything from the file except names of keys.
    pub(super) fn comment(&mut self, text: &str, place: &SourceLine) {
        self.text(format!("# {place}: {text}"), Some(place));
    }

    fn text(&mut self, text: String, place: Option<&SourceLine>) {
        self.lines.push((Line::Text(text), place.cloned()));
    }

    /// The servers that have a password, in order.
    pub(super) fn servers_with_password(&self) -> impl Iterator<Item = &Server> {
        self.lines.iter().filter_map(|(line, _)| match line {
            Line::Primary(server) => server.password.is_some().then_some(server),
            Line::Text(_) => None,
        })
    }

    /// The text, and the source line of each line.
    pub(super) fn write(&self, passwords: Passwords<'_>) -> Written {
        let mut written = Written {
            text: String::new(),
            places: Vec::new(),
        };
        let mut files = match passwords {
            Passwords::Files(files) => files.iter(),
            Passwords::Open | Passwords::Withheld => [].iter(),
        };
        for (line, place) in &self.lines {
            let place = place.as_ref();
            let server = match line {
                Line::Text(text) => {
                    written.line(text, place);
                    continue;
                }
                Line::Primary(server) => server,
            };
            let url = match passwords {
                Passwords::Open => server.url_with_password(),
                Passwords::Files(_) | Passwords::Withheld => server.url(),
            };
            written.line(&format!("primary = {}", toml_text(&url)), place);
            match passwords {
                _ if server.password.is_none() => {}
                Passwords::Open => {}
                Passwords::Withheld => written.line(WITHHELD, place),
                Passwords::Files(_) => {
                    let file = files.next().map_or("", String::as_str);
                    written.line(&format!("password_file = {}", toml_text(file)), place);
                }
            }
        }
        written
    }
}

/// `name` as a key of TOML: quoted unless it is a bare one.
fn toml_key(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(bare) {
        name.to_owned()
    } else {
        toml_text(name)
    }
}

/// `text` as a basic string of TOML.
pub(super) fn toml_text(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::toml_text;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(paceline_testing::cases(256))]

        #[test]
        fn any_text_is_read_back(text in any::<String>()) {
            let document = format!("{0} = {0}", toml_text(&text));
            let read: toml::Table = document.parse().unwrap();
            prop_assert_eq!(read.get(&text).and_then(|value| value.as_str()), Some(text.as_str()));
        }
    }
}
