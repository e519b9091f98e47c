//! What a key is: its name, what it means, which values it takes, and the field that holds them.

use super::protocols::{self, Protocols};
use super::{Settings, keys};
use crate::config::duration::{self, BareUnit};
use crate::config::error::Wrong;
use crate::config::suggest;
use crate::config::value::{self, ValueError, Written};
use serde_json::{Map, Value, json};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// The longest time-out: long enough for anything, short enough that no clock arithmetic can overflow.
pub(in crate::config) const TIMEOUT_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// One key of the `[paceline]` table.
#[derive(Debug)]
pub(crate) struct Key {
    /// Its name, in the file and for `--set`.
    pub(crate) name: &'static str,
    /// What it does, in one sentence without its full stop.
    pub(crate) meaning: &'static str,
    pub(super) kind: Kind,
}

/// What a key's value is and which field of [`Settings`] holds it.
#[derive(Debug)]
pub(super) enum Kind {
    Listen(fn(&mut Settings) -> &mut SocketAddr),
    Address(fn(&mut Settings) -> &mut Option<SocketAddr>),
    Folder(fn(&mut Settings) -> &mut Option<PathBuf>),
    File(fn(&mut Settings) -> &mut Option<PathBuf>),
    Text(fn(&mut Settings) -> &mut String),
    /// Separated by commas.
    Names(fn(&mut Settings) -> &mut Vec<String>),
    Choice {
        among: &'static [&'static str],
        show: fn(&Settings) -> &'static str,
        /// Takes one of `among`.
        choose: fn(&mut Settings, &str),
    },
    Switch(fn(&mut Settings) -> &mut bool),
    Protocols(fn(&mut Settings) -> &mut Protocols),
    /// Permissions of a file.
    Mode(fn(&mut Settings) -> &mut u32),
    Count {
        unit: &'static str,
        limits: RangeInclusive<usize>,
        field: fn(&mut Settings) -> &mut usize,
    },
    Time {
        bare: BareUnit,
        most: Duration,
        field: fn(&mut Settings) -> &mut Duration,
    },
}

/// A time-out in seconds; zero is none.
pub(super) const fn timeout(field: fn(&mut Settings) -> &mut Duration) -> Kind {
    Kind::Time {
        bare: BareUnit::Seconds,
        most: TIMEOUT_MAX,
        field,
    }
}

impl Key {
    /// The key called `name`, or what to say when there is none.
    pub(in crate::config) fn named(name: &str) -> Result<&'static Key, Wrong> {
        keys()
            .find(|key| key.name == name)
            .ok_or_else(|| Wrong::UnknownKey {
                key: name.to_owned(),
                table: "paceline".to_owned(),
                nearest: suggest::nearest(name, keys().map(|key| key.name)).map(str::to_owned),
            })
    }

    /// Checks `written` and stores it in `settings`; on an error nothing is changed.
    pub(in crate::config) fn apply(
        &self,
        settings: &mut Settings,
        written: Written<'_>,
    ) -> Result<(), Wrong> {
        self.kind
            .apply(settings, written)
            .map_err(|error| Wrong::Value {
                key: self.name.to_owned(),
                error,
            })
    }

    /// The unit of a bare number, `–` where there is none.
    pub(crate) fn unit(&self) -> &'static str {
        match &self.kind {
            Kind::Listen(_) | Kind::Address(_) => "address:port",
            Kind::Folder(_) | Kind::File(_) => "path",
            Kind::Switch(_) | Kind::Text(_) | Kind::Choice { .. } | Kind::Protocols(_) => "–",
            Kind::Names(_) => "names",
            Kind::Mode(_) => "octal",
            Kind::Count { unit, .. } => unit,
            Kind::Time { bare, .. } => bare.name(),
        }
    }

    /// The values that are accepted.
    pub(crate) fn limits(&self) -> String {
        match &self.kind {
            Kind::Listen(_) | Kind::Address(_) => "any".to_owned(),
            Kind::Folder(_) | Kind::File(_) => "absolute".to_owned(),
            Kind::Text(_) | Kind::Names(_) => "any".to_owned(),
            Kind::Choice { among, .. } => among.join(", "),
            Kind::Protocols(_) => protocols::MEANING.to_owned(),
            Kind::Switch(_) => "true, false".to_owned(),
            Kind::Mode(_) => "0000 to 0777".to_owned(),
            Kind::Count { limits, .. } => format!("{} to {}", limits.start(), limits.end()),
            Kind::Time { bare, most, .. } => format!("0 to {}", duration::show(*most, *bare)),
        }
    }

    /// The values that are accepted, as a JSON schema.
    pub(in crate::config) fn schema(&self) -> Map<String, Value> {
        let schema = match &self.kind {
            Kind::Switch(_) => json!({ "type": "boolean" }),
            Kind::Choice { among, .. } => json!({ "enum": among }),
            Kind::Count { limits, .. } => json!({
                "type": "integer", "minimum": limits.start(), "maximum": limits.end(),
            }),
            // A bare number in the key's own unit, or text with a unit.
            Kind::Time { .. } => json!({ "type": ["number", "string"], "minimum": 0 }),
            _ => json!({ "type": "string" }),
        };
        match schema {
            Value::Object(schema) => schema,
            _ => Map::new(),
        }
    }

    /// The value in `settings` as TOML.
    pub(crate) fn show(&self, settings: &Settings) -> String {
        let plain = self.plain(settings);
        match &self.kind {
            Kind::Switch(_) | Kind::Count { .. } => plain,
            _ => toml::Value::from(plain).to_string(),
        }
    }

    /// The value in `settings` as `--set` takes it.
    pub(crate) fn plain(&self, settings: &Settings) -> String {
        let mut settings = settings.clone();
        let settings = &mut settings;
        match &self.kind {
            Kind::Listen(field) => field(settings).to_string(),
            Kind::Address(field) => {
                let address = *field(settings);
                address.map_or_else(String::new, |address| address.to_string())
            }
            Kind::Text(field) => field(settings).clone(),
            Kind::Names(field) => field(settings).join(", "),
            Kind::Choice { show, .. } => show(settings).to_owned(),
            Kind::Folder(field) | Kind::File(field) => {
                let path = field(settings).as_ref();
                path.map_or_else(String::new, |path| path.display().to_string())
            }
            Kind::Protocols(field) => field(settings).to_string(),
            Kind::Switch(field) => field(settings).to_string(),
            Kind::Mode(field) => format!("{:04o}", field(settings)),
            Kind::Count { field, .. } => field(settings).to_string(),
            Kind::Time { bare, field, .. } => duration::show(*field(settings), *bare),
        }
    }
}

impl Kind {
    fn apply(&self, settings: &mut Settings, written: Written<'_>) -> Result<(), ValueError> {
        match self {
            Kind::Listen(field) => *field(settings) = value::listen(written)?,
            Kind::Address(field) => *field(settings) = value::address(written)?,
            Kind::Folder(field) => *field(settings) = value::folder(written)?,
            Kind::File(field) => *field(settings) = value::file(written)?,
            Kind::Text(field) => *field(settings) = value::text(written)?,
            Kind::Names(field) => *field(settings) = value::names(written)?,
            Kind::Choice { among, choose, .. } => choose(settings, value::choice(written, among)?),
            Kind::Protocols(field) => *field(settings) = value::protocols(written)?,
            Kind::Switch(field) => *field(settings) = value::switch(written)?,
            Kind::Mode(field) => *field(settings) = value::mode(written)?,
            Kind::Count { limits, field, .. } => *field(settings) = value::count(written, limits)?,
            Kind::Time { bare, most, field } => {
                *field(settings) = value::time(written, *bare, *most)?
            }
        }
        Ok(())
    }
}
