//! The forms that a value may have: how it is read, shown and described. A new kind of value is one more form here.

use crate::duration::{self, BareUnit};
use crate::protocols::{self, Protocols};
use crate::value::{self, ValueError, Written};
use crate::words::Words;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// The longest timeout: long enough for any use, short enough that no clock arithmetic overflows.
const TIMEOUT_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// What the documentation and the schema say of a value.
pub(crate) trait Described: Send + Sync + 'static {
    /// The unit of a bare number, or the kind of text; `–` if there is none.
    fn unit(&self) -> &'static str {
        "–"
    }

    /// The values that are accepted.
    fn limits(&self) -> String {
        "any".to_owned()
    }

    /// The values that are accepted, as a JSON schema.
    fn schema(&self) -> Value {
        json!({ "type": "string" })
    }

    /// Whether TOML has the value without quotes.
    fn is_bare(&self) -> bool {
        false
    }
}

/// How a value of type `T` is read and shown.
pub(crate) trait Form<T>: Described {
    /// Checks `written`.
    fn read(&self, written: Written<'_>) -> Result<T, ValueError>;

    /// The value as `--set` takes it.
    fn plain(&self, value: &T) -> String;
}

/// `true` or `false`.
pub(crate) struct Switch;

impl Described for Switch {
    fn limits(&self) -> String {
        "true, false".to_owned()
    }

    fn schema(&self) -> Value {
        json!({ "type": "boolean" })
    }

    fn is_bare(&self) -> bool {
        true
    }
}

impl Form<bool> for Switch {
    fn read(&self, written: Written<'_>) -> Result<bool, ValueError> {
        value::switch(written)
    }

    fn plain(&self, value: &bool) -> String {
        value.to_string()
    }
}

/// A whole number.
pub(crate) struct Count {
    unit: &'static str,
    limits: RangeInclusive<usize>,
}

/// A whole number of `unit` within `limits`.
pub(crate) const fn count(unit: &'static str, limits: RangeInclusive<usize>) -> Count {
    Count { unit, limits }
}

impl Described for Count {
    fn unit(&self) -> &'static str {
        self.unit
    }

    fn limits(&self) -> String {
        format!("{} to {}", self.limits.start(), self.limits.end())
    }

    fn schema(&self) -> Value {
        json!({ "type": "integer", "minimum": self.limits.start(), "maximum": self.limits.end() })
    }

    fn is_bare(&self) -> bool {
        true
    }
}

impl Form<usize> for Count {
    fn read(&self, written: Written<'_>) -> Result<usize, ValueError> {
        value::count(written, &self.limits)
    }

    fn plain(&self, value: &usize) -> String {
        value.to_string()
    }
}

/// A duration.
pub(crate) struct Time {
    bare: BareUnit,
    most: Duration,
}

/// A duration of at most `most`; a bare number is in `bare`.
pub(crate) const fn time(bare: BareUnit, most: Duration) -> Time {
    Time { bare, most }
}

/// A duration in seconds, at most a year.
pub(crate) const fn timeout() -> Time {
    time(BareUnit::Seconds, TIMEOUT_MAX)
}

impl Described for Time {
    fn unit(&self) -> &'static str {
        self.bare.name()
    }

    fn limits(&self) -> String {
        format!("0 to {}", duration::show(self.most, self.bare))
    }

    /// A bare number, or text with a unit.
    fn schema(&self) -> Value {
        json!({ "type": ["number", "string"], "minimum": 0 })
    }
}

impl Form<Duration> for Time {
    fn read(&self, written: Written<'_>) -> Result<Duration, ValueError> {
        value::time(written, self.bare, self.most)
    }

    fn plain(&self, value: &Duration) -> String {
        duration::show(*value, self.bare)
    }
}

/// One of several words.
pub(crate) struct Choice(&'static [&'static str]);

/// One of the words of `T`.
pub(crate) const fn choice<T: Words>() -> Choice {
    Choice(T::WORDS)
}

impl Described for Choice {
    fn limits(&self) -> String {
        self.0.join(", ")
    }

    fn schema(&self) -> Value {
        json!({ "enum": self.0 })
    }
}

impl<T: Words> Form<T> for Choice {
    fn read(&self, written: Written<'_>) -> Result<T, ValueError> {
        let word = value::choice(written, self.0)?;
        T::of_word(word).ok_or_else(|| value::no_choice(written, self.0))
    }

    fn plain(&self, value: &T) -> String {
        value.word().to_owned()
    }
}

/// Any text.
pub(crate) struct Text;

impl Described for Text {}

impl Form<String> for Text {
    fn read(&self, written: Written<'_>) -> Result<String, ValueError> {
        value::text(written)
    }

    fn plain(&self, value: &String) -> String {
        value.clone()
    }
}

/// Names, separated by commas.
pub(crate) struct Names;

impl Described for Names {
    fn unit(&self) -> &'static str {
        "names"
    }
}

impl Form<Vec<String>> for Names {
    fn read(&self, written: Written<'_>) -> Result<Vec<String>, ValueError> {
        value::names(written)
    }

    fn plain(&self, value: &Vec<String>) -> String {
        value.join(", ")
    }
}

/// The address to listen on.
pub(crate) struct Listen;

impl Described for Listen {
    fn unit(&self) -> &'static str {
        "address:port"
    }
}

impl Form<SocketAddr> for Listen {
    fn read(&self, written: Written<'_>) -> Result<SocketAddr, ValueError> {
        value::listen(written)
    }

    fn plain(&self, value: &SocketAddr) -> String {
        value.to_string()
    }
}

/// An address to listen on; empty is none.
pub(crate) struct Address;

impl Described for Address {
    fn unit(&self) -> &'static str {
        "address:port"
    }
}

impl Form<Option<SocketAddr>> for Address {
    fn read(&self, written: Written<'_>) -> Result<Option<SocketAddr>, ValueError> {
        value::address(written)
    }

    fn plain(&self, value: &Option<SocketAddr>) -> String {
        value.map_or_else(String::new, |address| address.to_string())
    }
}

/// The absolute path of a file or folder; empty is none.
pub(crate) enum AbsolutePath {
    File,
    Folder,
}

impl Described for AbsolutePath {
    fn unit(&self) -> &'static str {
        "path"
    }

    fn limits(&self) -> String {
        "absolute".to_owned()
    }
}

impl Form<Option<PathBuf>> for AbsolutePath {
    fn read(&self, written: Written<'_>) -> Result<Option<PathBuf>, ValueError> {
        match self {
            Self::File => value::file(written),
            Self::Folder => value::folder(written),
        }
    }

    fn plain(&self, value: &Option<PathBuf>) -> String {
        let path = value.as_ref();
        path.map_or_else(String::new, |path| path.display().to_string())
    }
}

/// The permissions of a file.
pub(crate) struct Permissions;

impl Described for Permissions {
    fn unit(&self) -> &'static str {
        "octal"
    }

    fn limits(&self) -> String {
        "0000 to 0777".to_owned()
    }
}

impl Form<u32> for Permissions {
    fn read(&self, written: Written<'_>) -> Result<u32, ValueError> {
        value::mode(written)
    }

    fn plain(&self, value: &u32) -> String {
        format!("{value:04o}")
    }
}

/// Versions of TLS.
pub(crate) struct TlsVersions;

impl Described for TlsVersions {
    fn limits(&self) -> String {
        protocols::MEANING.to_owned()
    }
}

impl Form<Protocols> for TlsVersions {
    fn read(&self, written: Written<'_>) -> Result<Protocols, ValueError> {
        value::protocols(written)
    }

    fn plain(&self, value: &Protocols) -> String {
        value.to_string()
    }
}
