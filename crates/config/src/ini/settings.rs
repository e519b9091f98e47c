//! The section `[pgbouncer]`: every key that it may have becomes a key of `[paceline]`, a remark, or an error. What it does not
//! say is as in PgBouncer, not as in Paceline.

use super::diagnostics::Diagnostics;
use super::known::{KNOWN, Known};
use super::mapping::Mapping;
use super::source_line::SourceLine;
use super::toml_writer::TomlWriter;
use crate::error::ConfigProblem;
use crate::settings::{Key, Settings, keys};
use crate::value::Written;
use std::collections::BTreeMap;

/// What a section says: key, value, place. Of several the last counts, as in PgBouncer.
pub(super) type Section = BTreeMap<String, (String, SourceLine)>;

/// The comment behind a value that the file does not say.
const DEFAULT: &str = "PgBouncer's default";

/// `[pgbouncer]`.
pub(super) struct Main {
    said: Section,
    /// Its header.
    place: SourceLine,
}

impl Main {
    pub(super) fn new(said: Section, place: SourceLine) -> Main {
        Main { said, place }
    }

    /// The value of the key `name`, or its default, and the line that it comes from.
    pub(super) fn value(&self, name: &str) -> (&str, &SourceLine) {
        match self.said.get(name) {
            Some((value, place)) => (value, place),
            None => {
                let known = KNOWN.iter().find(|known| known.name == name);
                (known.map_or("", |known| known.default), &self.place)
            }
        }
    }

    /// Writes `[paceline]`.
    pub(super) fn convert(&self, writer: &mut TomlWriter, diagnostics: &mut Diagnostics) {
        for (key, (_, place)) in &self.said {
            if !KNOWN.iter().any(|known| known.name == key) {
                diagnostics.unknown_key(
                    place,
                    key,
                    "pgbouncer",
                    KNOWN.iter().map(|known| known.name),
                );
            }
        }
        writer.table(&["paceline"], &self.place);
        self.listen(writer, diagnostics);
        for known in KNOWN {
            match known.mapping {
                Mapping::Key(name) => self.setting(name, known, writer, diagnostics),
                _ => self.without(known, writer, diagnostics),
            }
        }
        self.warn_of_sessions(diagnostics);
    }

    /// A key that exists here.
    fn setting(
        &self,
        name: &str,
        known: &Known,
        writer: &mut TomlWriter,
        diagnostics: &mut Diagnostics,
    ) {
        let Some(key) = here(name) else {
            return;
        };
        let (value, place) = self.value(known.name);
        let said = self.said.contains_key(known.name);
        let Some(plain) = diagnostics.plain(place, known.name, value, known.sort) else {
            return;
        };
        match in_toml(key, &plain) {
            Ok(shown) if said => writer.key(key.name, &shown, "", place),
            Ok(shown) if shown != key.show(&Settings::default()) => {
                writer.key(key.name, &shown, DEFAULT, place);
            }
            Ok(_) => {}
            // PgBouncer's "off" for something that is always on.
            Err(_) if known.name == "max_prepared_statements" && plain == "0" => {
                let text =
                    "max_prepared_statements = 0 is ignored: prepared statements always work";
                diagnostics.remark(place, text);
                writer.comment(text, place);
            }
            Err(wrong) => diagnostics.wrong(place, wrong),
        }
    }

    /// A key that does not exist here.
    fn without(&self, known: &Known, writer: &mut TomlWriter, diagnostics: &mut Diagnostics) {
        let (value, place) = self.value(known.name);
        let said = self.said.contains_key(known.name);
        // A default of PgBouncer that Paceline cannot follow is as much a problem as a value in the file.
        let matters = matches!(known.mapping, Mapping::Refused { .. });
        if !said && !matters {
            return;
        }
        let Some(plain) = diagnostics.plain(place, known.name, value, known.sort) else {
            return;
        };
        let comment = diagnostics.without(place, known.name, &plain, known.mapping);
        if let Some(comment) = comment.filter(|_| said) {
            writer.comment(&comment, place);
        }
    }

    /// `listen_addr` and `listen_port` together are `listen`.
    fn listen(&self, writer: &mut TomlWriter, diagnostics: &mut Diagnostics) {
        let (port, _) = self.value("listen_port");
        let (addresses, place) = self.value("listen_addr");
        let mut addresses = addresses.split(',').map(str::trim);
        let host = match (addresses.next().unwrap_or_default(), addresses.next()) {
            (_, Some(_)) => {
                return diagnostics.refuse(
                    place,
                    "listen_addr",
                    "Paceline listens on one address; write one of them, or * for all that the machine has",
                );
            }
            ("", None) => return self.listen_on_the_socket_only(port, writer, diagnostics),
            ("*", None) => "[::]".to_owned(),
            (host, None) if host.contains(':') => format!("[{host}]"),
            (host, None) => host.to_owned(),
        };
        let Some(listen) = here("listen") else {
            return;
        };
        match in_toml(listen, &format!("{host}:{port}")) {
            Ok(shown) => writer.key("listen", &shown, "", place),
            Err(wrong) => diagnostics.wrong(place, wrong),
        }
    }

    /// Without `listen_addr` PgBouncer listens on the Unix socket only. Paceline always has a TCP address; loopback is the least.
    fn listen_on_the_socket_only(
        &self,
        port: &str,
        writer: &mut TomlWriter,
        diagnostics: &mut Diagnostics,
    ) {
        let (mode, place) = self.value("unix_socket_mode");
        if self.said.contains_key("unix_socket_mode") && mode != "0777" {
            let why = "it keeps users of this machine out, but without listen_addr they find Paceline on 127.0.0.1; write listen_addr = 127.0.0.1 if that is acceptable";
            return diagnostics.refuse(place, "unix_socket_mode", why);
        }
        let place = &self.place;
        let text = "listen_addr is not said: Paceline listens on 127.0.0.1 beside the Unix socket";
        diagnostics.remark(place, text);
        writer.key(
            "listen",
            &format!("\"127.0.0.1:{port}\""),
            "beside the Unix socket",
            place,
        );
    }

    /// A user of PgBouncer's default mode may wonder why nothing travels together.
    fn warn_of_sessions(&self, diagnostics: &mut Diagnostics) {
        let (mode, place) = self.value("pool_mode");
        if here("pool_mode").is_some() && mode.eq_ignore_ascii_case("session") {
            let said = if self.said.contains_key("pool_mode") {
                "pool_mode = session"
            } else {
                "pool_mode is not said, and PgBouncer's default is session"
            };
            let text =
                format!("{said}: nothing travels together; write pool_mode = transaction for that");
            diagnostics.remark_of_sessions(place, text);
        }
    }
}

/// Paceline's key of this name.
fn here(name: &str) -> Option<&'static Key> {
    keys().find(|key| key.name == name)
}

/// `text` as the TOML value of `key`, checked.
fn in_toml(key: &Key, text: &str) -> Result<String, ConfigProblem> {
    let mut settings = Settings::default();
    key.apply(&mut settings, Written::Argument(text))?;
    Ok(key.show(&settings))
}
