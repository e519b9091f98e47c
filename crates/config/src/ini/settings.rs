//! The section `[pgbouncer]`: each key becomes a key of `[paceline]`, a remark, or an error. A key that the section does not have
//! gets PgBouncer's default, not Paceline's.

use super::conversion::Conversion;
use super::diagnostics::Diagnostics;
use super::known::{KNOWN, Known, Mapping};
use super::source_line::SourceLine;
use crate::error::ConfigProblem;
use crate::settings::{self, Settings};
use crate::value::Written;
use std::collections::BTreeMap;

/// The keys of a section, their values and lines. If a key occurs more than once, the last value counts, as in PgBouncer.
pub(super) type Section = BTreeMap<String, (String, SourceLine)>;

/// The comment after a value that the file does not set.
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

    /// The value of the key `name`, or its default, and its line.
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
    pub(super) fn convert(&self, conversion: &mut Conversion) {
        for (key, (_, place)) in &self.said {
            if !KNOWN.iter().any(|known| known.name == key) {
                let names = KNOWN.iter().map(|known| known.name);
                conversion
                    .diagnostics
                    .unknown_key(place, key, "pgbouncer", names);
            }
        }
        conversion.toml.table(&["paceline"], &self.place);
        self.listen(conversion);
        for known in KNOWN.iter() {
            let (value, place) = self.value(known.name);
            let said = self.said.contains_key(known.name);
            match known.mapping {
                Mapping::Key(name) => setting(conversion, name, known, value, place, said),
                // A default of PgBouncer that Paceline cannot follow is as much a problem as a value in the file.
                Mapping::Refused { .. } => conversion.note_unsupported(place, known, value, said),
                _ if said => conversion.note_unsupported(place, known, value, said),
                _ => {}
            }
        }
        self.warn_of_sessions(&mut conversion.diagnostics);
    }

    /// `listen_addr` and `listen_port` together are `listen`.
    fn listen(&self, conversion: &mut Conversion) {
        let (port, _) = self.value("listen_port");
        let (addresses, place) = self.value("listen_addr");
        let mut addresses = addresses.split(',').map(str::trim);
        let host = match (addresses.next().unwrap_or_default(), addresses.next()) {
            (_, Some(_)) => {
                let why = "Paceline listens on one address; write one of them, or * for all that the machine has";
                return conversion.diagnostics.refuse(place, "listen_addr", why);
            }
            ("", None) => return self.listen_on_the_socket_only(port, conversion),
            ("*", None) => "[::]".to_owned(),
            (host, None) if host.contains(':') => format!("[{host}]"),
            (host, None) => host.to_owned(),
        };
        match default_and_value("listen", &format!("{host}:{port}")) {
            Ok((_, shown)) => conversion.toml.key("listen", &shown, "", place),
            Err(wrong) => conversion.diagnostics.wrong(place, wrong),
        }
    }

    /// Without `listen_addr` PgBouncer listens on the Unix socket only. Paceline always listens on TCP, too: on loopback.
    fn listen_on_the_socket_only(&self, port: &str, conversion: &mut Conversion) {
        let (mode, place) = self.value("unix_socket_mode");
        if self.said.contains_key("unix_socket_mode") && mode != "0777" {
            let why = "it keeps users of this machine out, but without listen_addr they find Paceline on 127.0.0.1; write listen_addr = 127.0.0.1 if that is acceptable";
            return conversion
                .diagnostics
                .refuse(place, "unix_socket_mode", why);
        }
        let place = &self.place;
        let text = "listen_addr is not said: Paceline listens on 127.0.0.1 beside the Unix socket";
        conversion.diagnostics.remark(place, text);
        let listen = format!("\"127.0.0.1:{port}\"");
        conversion
            .toml
            .key("listen", &listen, "beside the Unix socket", place);
    }

    /// A user of PgBouncer's default mode may wonder why no requests are grouped.
    fn warn_of_sessions(&self, diagnostics: &mut Diagnostics) {
        let (mode, place) = self.value("pool_mode");
        if mode.eq_ignore_ascii_case("session") {
            let said = match self.said.contains_key("pool_mode") {
                true => "pool_mode = session",
                false => "pool_mode is not said, and PgBouncer's default is session",
            };
            let text =
                format!("{said}: nothing travels together; write pool_mode = transaction for that");
            diagnostics.remark_of_sessions(place, text);
        }
    }
}

/// Writes Paceline's key `name` for `known`, unless `value` is the default of both. `said`: the file has the key.
fn setting(
    conversion: &mut Conversion,
    name: &str,
    known: &Known,
    value: &str,
    place: &SourceLine,
    said: bool,
) {
    let Some(plain) = conversion.plain(place, known, value) else {
        return;
    };
    match default_and_value(name, &plain) {
        Ok((_, shown)) if said => conversion.toml.key(name, &shown, "", place),
        Ok((default, shown)) if shown != default => {
            conversion.toml.key(name, &shown, DEFAULT, place)
        }
        Ok(_) => {}
        // PgBouncer's "off" for something that is always on.
        Err(_) if name == "max_prepared_statements" && plain == "0" => {
            let text = "max_prepared_statements = 0 is ignored: prepared statements always work";
            conversion.diagnostics.remark(place, text);
            conversion.toml.comment(text, place);
        }
        Err(wrong) => conversion.diagnostics.wrong(place, wrong),
    }
}

/// The default of Paceline's key `name`, and `text` as its value, both as TOML. Checks the value.
fn default_and_value(name: &str, text: &str) -> Result<(String, String), ConfigProblem> {
    let key = settings::key(name)?;
    let mut settings = Settings::default();
    let default = key.show(&settings);
    key.apply(&mut settings, Written::Bare(text))?;
    Ok((default, key.show(&settings)))
}
