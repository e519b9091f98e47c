//! The forms of a value: how Paceline reads, shows and documents it. A key names its form; a new kind of value is one more function.

use crate::compression::CompressionMethod;
use crate::duration::{self, BareUnit};
use crate::protocols::{self, Protocols};
use crate::secret::Secret;
use crate::value::{self, ValueError, Written};
use crate::words::Words;
use serde_json::{Value, json};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The longest timeout: long enough for any use, short enough that no clock arithmetic overflows.
const TIMEOUT_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// The path at which collectors take spans (OpenTelemetry Protocol Specification, "OTLP/HTTP Request").
const TRACES_PATH: &str = "/v1/traces";

/// Stands for a password in the log, in answers of the console and in documents.
pub(crate) const HIDDEN: &str = "***";

/// The syntax of a value in a `pgbouncer.ini`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Syntax {
    /// An integer as C reads it: `020` is sixteen.
    Number,
    /// An integer; zero is off.
    Switch,
    /// Seconds, with or without a fraction.
    Seconds,
    /// The permissions of a file, an integer.
    Mode,
    /// A file or folder, relative to the working directory.
    Path,
    /// Anything else.
    Text,
}

/// What the documents and other readers must know of a form.
pub(crate) struct Description {
    /// The unit of a bare number, or the kind of text; `–` if there is none.
    pub(crate) unit: &'static str,
    /// The accepted values.
    pub(crate) limits: String,
    /// The accepted values as a JSON schema.
    pub(crate) schema: Value,
    /// The syntax of PgBouncer's key of the same name.
    pub(crate) in_pgbouncer: Syntax,
    /// Whether the value is a password, which the console and the log do not show.
    pub(crate) secret: bool,
}

type Read<T> = dyn Fn(Written<'_>) -> Result<T, ValueError> + Send + Sync;
type Plain<T> = dyn Fn(&T) -> String + Send + Sync;

/// How a value of type `T` is written.
pub(crate) struct Form<T> {
    pub(crate) description: Description,
    /// Checks a value.
    pub(crate) read: Box<Read<T>>,
    /// The value as `--set` accepts it.
    pub(crate) plain: Box<Plain<T>>,
}

impl<T> Form<T> {
    /// A form that TOML writes as a string.
    fn text(
        unit: &'static str,
        limits: &str,
        read: impl Fn(Written<'_>) -> Result<T, ValueError> + Send + Sync + 'static,
        plain: impl Fn(&T) -> String + Send + Sync + 'static,
    ) -> Self {
        Self {
            description: Description {
                unit,
                limits: limits.to_owned(),
                schema: json!({ "type": "string" }),
                in_pgbouncer: Syntax::Text,
                secret: false,
            },
            read: Box::new(read),
            plain: Box::new(plain),
        }
    }

    /// A form whose text `parse` reads. Errors say what is `wanted`, and an example.
    fn parsed(
        unit: &'static str,
        limits: &str,
        [wanted, example]: [&'static str; 2],
        parse: fn(&str) -> Option<T>,
        plain: fn(&T) -> String,
    ) -> Self
    where
        T: 'static,
    {
        let read = move |written: Written<'_>| written.parsed(wanted, example, parse);
        Self::text(unit, limits, read, plain)
    }

    fn schema(mut self, schema: Value) -> Self {
        self.description.schema = schema;
        self
    }

    fn secret(mut self) -> Self {
        self.description.secret = true;
        self
    }

    fn in_pgbouncer(mut self, syntax: Syntax) -> Self {
        self.description.in_pgbouncer = syntax;
        self
    }
}

/// `true` or `false`.
pub(crate) fn switch() -> Form<bool> {
    Form::text("–", "true, false", value::switch, bool::to_string)
        .schema(json!({ "type": "boolean" }))
        .in_pgbouncer(Syntax::Switch)
}

/// A whole number of `unit` within `limits`.
pub(crate) fn count(unit: &'static str, limits: RangeInclusive<usize>) -> Form<usize> {
    let (least, most) = (*limits.start(), *limits.end());
    let read = move |written: Written<'_>| value::count(written, &limits);
    Form::text(unit, &format!("{least} to {most}"), read, usize::to_string)
        .schema(json!({ "type": "integer", "minimum": least, "maximum": most }))
        .in_pgbouncer(Syntax::Number)
}

/// A whole number of `unit` within `limits`, or `auto` (`None`).
pub(crate) fn automatic(unit: &'static str, limits: RangeInclusive<usize>) -> Form<Option<usize>> {
    const AUTO: &str = "auto";
    let (least, most) = (*limits.start(), *limits.end());
    let read = move |written: Written<'_>| match written {
        Written::Bare(AUTO) | Written::Text(AUTO) => Ok(None),
        Written::Text(_) => Err(value::no_choice(written, &[AUTO])),
        number => value::count(number, &limits).map(Some),
    };
    let plain = |value: &Option<usize>| value.map_or_else(|| AUTO.to_owned(), |n| n.to_string());
    let number = json!({ "type": "integer", "minimum": least, "maximum": most });
    let accepted = format!("{AUTO}, {least} to {most}");
    Form::text(unit, &accepted, read, plain)
        .schema(json!({ "anyOf": [{ "enum": [AUTO] }, number] }))
        .in_pgbouncer(Syntax::Number)
}

/// A duration of at most `most`; a bare number is in `bare`.
pub(crate) fn time(bare: BareUnit, most: Duration) -> Form<Duration> {
    let limits = format!("0 to {}", duration::show(most, bare));
    let read = move |written: Written<'_>| value::time(written, bare, most);
    let plain = move |value: &Duration| duration::show(*value, bare);
    Form::text(bare.name(), &limits, read, plain)
        .schema(json!({ "type": ["number", "string"], "minimum": 0 }))
        .in_pgbouncer(Syntax::Seconds)
}

/// A duration in seconds, at most a year.
pub(crate) fn timeout() -> Form<Duration> {
    time(BareUnit::Seconds, TIMEOUT_MAX)
}

/// One of the words of `T`.
pub(crate) fn choice<T: Words>() -> Form<T> {
    let read = |written: Written<'_>| {
        let word = value::choice(written, T::WORDS)?;
        T::of_word(word).ok_or_else(|| value::no_choice(written, T::WORDS))
    };
    one_of(T::WORDS, read, |value: &T| value.word().to_owned())
}

/// One of `words`, all of which mean `value`.
pub(crate) fn synonyms<T>(words: &'static [&'static str], value: T) -> Form<T>
where
    T: Copy + Send + Sync + 'static,
{
    let read = move |written: Written<'_>| value::choice(written, words).map(|_| value);
    let plain = move |_: &T| words.first().copied().unwrap_or_default().to_owned();
    one_of(words, read, plain)
}

fn one_of<T>(
    words: &'static [&'static str],
    read: impl Fn(Written<'_>) -> Result<T, ValueError> + Send + Sync + 'static,
    plain: impl Fn(&T) -> String + Send + Sync + 'static,
) -> Form<T> {
    Form::text("–", &words.join(", "), read, plain).schema(json!({ "enum": words }))
}

/// Any text.
pub(crate) fn text() -> Form<String> {
    Form::text("–", "any", value::text, String::clone)
}

/// Names, separated by commas.
pub(crate) fn names() -> Form<Vec<String>> {
    let wanted = ["a list of names", "\"one, other\""];
    let parse = |text: &str| {
        let names = text.split(',').map(str::trim);
        Some(
            names
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect(),
        )
    };
    Form::parsed("names", "any", wanted, parse, |names| names.join(", "))
}

/// A password; empty is none. It is shown as [`HIDDEN`].
pub(crate) fn secret() -> Form<Option<Secret>> {
    let plain = |value: &Option<Secret>| match value {
        Some(_) => HIDDEN.to_owned(),
        None => String::new(),
    };
    Form::text("–", "any", value::secret, plain).secret()
}

/// The URLs of a REST API without TLS, in a list or separated by commas.
pub(crate) fn urls() -> Form<Vec<String>> {
    let [wanted, example] = ["a list of URLs", "[\"http://HOST:8008\"]"];
    let read = move |written: Written<'_>| value::list(written, wanted, example, check_url);
    let item = json!({ "type": "string" });
    let schema = json!({ "type": ["string", "array"], "items": item });
    let plain = |urls: &Vec<String>| urls.join(", ");
    Form::text("URLs", "http://HOST:PORT", read, plain).schema(schema)
}

/// The zones of hosts, in a list or separated by commas.
pub(crate) fn zones() -> Form<Vec<String>> {
    let [wanted, example] = ["a list of zones", "[\"a\", \"b\"]"];
    let name = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let read = move |written: Written<'_>| value::list(written, wanted, example, name);
    let item = json!({ "type": "string" });
    let schema = json!({ "type": ["string", "array"], "items": item });
    let plain = |zones: &Vec<String>| zones.join(", ");
    Form::text("–", "any", read, plain).schema(schema)
}

/// The URL to which spans are sent, without TLS; empty is none.
pub(crate) fn collector() -> Form<String> {
    let wanted = [
        "the URL of a collector",
        "\"http://127.0.0.1:4318/v1/traces\", or \"\" for none",
    ];
    let parse = |text: &str| match text {
        "" => Some(String::new()),
        text => collector_url(text),
    };
    Form::parsed("URL", "http://HOST:PORT/PATH", wanted, parse, String::clone)
}

/// The URL with its path, which is [`TRACES_PATH`] if the text has none.
fn collector_url(text: &str) -> Option<String> {
    let host = text.strip_prefix("http://")?;
    let (host, path) = match host.split_once('/') {
        Some((host, path)) if !path.is_empty() => (host, format!("/{path}")),
        Some((host, _)) => (host, TRACES_PATH.to_owned()),
        None => (host, TRACES_PATH.to_owned()),
    };
    let is_path = path
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && byte != b'#');
    let base = check_url(&format!("http://{host}")).filter(|_| is_path)?;
    Some(base + &path)
}

/// A part of a whole: from 0 to 1.
pub(crate) fn ratio() -> Form<f64> {
    Form::text("–", "0.0 to 1.0", value::ratio, f64::to_string)
        .schema(json!({ "type": ["number", "string"], "minimum": 0, "maximum": 1 }))
}

/// `http://HOST:PORT` without a path, a user, or a slash at its end.
fn check_url(text: &str) -> Option<String> {
    let address = text.strip_prefix("http://")?;
    let address = address.strip_suffix('/').unwrap_or(address);
    let host = match address.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => {
            port.parse::<u16>().ok().filter(|port| *port > 0)?;
            host
        }
        _ => address,
    };
    let literal = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let good = match literal {
        Some(literal) => literal.parse::<Ipv6Addr>().is_ok(),
        None => !host.is_empty() && !host.contains([' ', '/', '?', '#', '@', ':', '[', ']']),
    };
    good.then(|| format!("http://{address}"))
}

/// The address to listen on: an IP address or `localhost`, a colon, a port. [`crate::Config::check_access`] decides whether Paceline
/// may listen there.
pub(crate) fn listen() -> Form<SocketAddr> {
    let wanted = [ADDRESS, "127.0.0.1:6432 or [::1]:6432"];
    Form::parsed(
        "address:port",
        "any",
        wanted,
        parse_address,
        SocketAddr::to_string,
    )
}

/// An address to listen on; empty is none.
pub(crate) fn address() -> Form<Option<SocketAddr>> {
    let wanted = [ADDRESS, "127.0.0.1:9127, or \"\" for none"];
    let parse = |text: &str| match text {
        "" => Some(None),
        text => parse_address(text).map(Some),
    };
    Form::parsed("address:port", "any", wanted, parse, |value| {
        value.map_or_else(String::new, |address| address.to_string())
    })
}

const ADDRESS: &str = "an address and port";

fn parse_address(text: &str) -> Option<SocketAddr> {
    match text.trim().strip_prefix("localhost:") {
        Some(port) => Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port.parse().ok()?))),
        None => text.trim().parse().ok(),
    }
}

/// The absolute path of a file; empty is none.
pub(crate) fn file() -> Form<Option<PathBuf>> {
    path(value::file)
}

/// The absolute path of a folder; empty is none.
pub(crate) fn folder() -> Form<Option<PathBuf>> {
    path(value::folder)
}

fn path(read: fn(Written<'_>) -> Result<Option<PathBuf>, ValueError>) -> Form<Option<PathBuf>> {
    let plain = |value: &Option<PathBuf>| {
        let path = value.as_deref().map(Path::display);
        path.map_or_else(String::new, |path| path.to_string())
    };
    Form::text("path", "absolute", read, plain).in_pgbouncer(Syntax::Path)
}

/// The permissions of a file, octal as `chmod` takes them.
pub(crate) fn permissions() -> Form<u32> {
    const EVERYBODY: u32 = 0o777;
    let wanted = [
        "permissions of a file",
        "up to four octal digits in quotes, for example \"0770\"",
    ];
    let parse = |text: &str| {
        let mode = u32::from_str_radix(text, 8).ok();
        mode.filter(|mode| *mode <= EVERYBODY)
    };
    let plain = |value: &u32| format!("{value:04o}");
    Form::parsed("octal", "0000 to 0777", wanted, parse, plain).in_pgbouncer(Syntax::Mode)
}

/// Versions of TLS.
pub(crate) fn tls_versions() -> Form<Protocols> {
    let example =
        "secure, all, or some of tlsv1.0, tlsv1.1, tlsv1.2 and tlsv1.3 with commas between them";
    let wanted = ["a list of versions of TLS", example];
    Form::parsed(
        "–",
        protocols::MEANING,
        wanted,
        Protocols::parse,
        Protocols::to_string,
    )
}

/// A method of compression, with or without a level.
pub(crate) fn compression_method() -> Form<CompressionMethod> {
    let wanted = ["a method of compression", "off, zstd or zstd:LEVEL"];
    Form::parsed(
        "–",
        CompressionMethod::MEANING,
        wanted,
        CompressionMethod::parse,
        CompressionMethod::to_string,
    )
}
