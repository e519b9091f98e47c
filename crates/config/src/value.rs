//! Single values: from TOML or from a command-line argument to a checked Rust value.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;
use toml::de::{DeArray, DeValue};

use super::duration::{self, BareUnit};
use super::secret::Secret;

/// A value as it was written.
#[derive(Debug, Clone, Copy)]
pub(super) enum Written<'a> {
    /// Text without the quotes of TOML: `--set`, SET, the environment, `pgbouncer.ini`.
    Bare(&'a str),
    /// A TOML string.
    Text(&'a str),
    /// A TOML number in base ten.
    Number(&'a str),
    /// A TOML boolean.
    Switch(bool),
    /// A TOML list.
    List(&'a DeArray<'a>),
    /// Any other kind of TOML value, by its name.
    Other(&'static str),
}

impl<'a> Written<'a> {
    /// A value of a TOML document.
    pub(super) fn in_toml(value: &'a DeValue<'_>) -> Written<'a> {
        match value {
            DeValue::String(text) => Written::Text(text),
            DeValue::Integer(number) if number.radix() == 10 => Written::Number(number.as_str()),
            DeValue::Integer(_) => Written::Other("a number that is not decimal"),
            DeValue::Float(number) => Written::Number(number.as_str()),
            DeValue::Boolean(on) => Written::Switch(*on),
            DeValue::Datetime(_) => Written::Other("a date"),
            DeValue::Array(list) => Written::List(list),
            DeValue::Table(_) => Written::Other("a table"),
        }
    }

    /// The text of a string or of an argument.
    fn text(self) -> Option<&'a str> {
        match self {
            Written::Bare(text) | Written::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The text, converted by `parse`. If that returns `None`, the error says what is `wanted`, with an `example`.
    pub(super) fn parsed<T>(
        self,
        wanted: &'static str,
        example: &'static str,
        parse: impl Fn(&'a str) -> Option<T>,
    ) -> Result<T, ValueError> {
        let parsed = self.text().and_then(parse);
        parsed.ok_or_else(|| self.is_not(wanted, example))
    }

    fn is_not(self, wanted: &'static str, example: &'static str) -> ValueError {
        ValueError::kind(self.describe(), wanted, example)
    }

    fn describe(self) -> String {
        match self {
            Written::Bare("") => "nothing".to_owned(),
            Written::Bare(text) | Written::Number(text) => text.to_owned(),
            Written::Text(text) => format!("\"{text}\""),
            Written::Switch(on) => on.to_string(),
            Written::List(_) => "a list".to_owned(),
            Written::Other(kind) => kind.to_owned(),
        }
    }
}

/// The reason why a value does not fit its key.
#[derive(Debug, Error, PartialEq)]
pub(super) enum ValueError {
    /// The wrong kind of value.
    #[error("{got} is not {wanted}; write {example}")]
    Kind {
        /// The given value.
        got: String,
        /// The kind of value that the key needs.
        wanted: &'static str,
        /// A value that the key accepts.
        example: &'static str,
    },
    /// The right kind of value, too small or too large.
    #[error("{got} is outside its limits; write a value from {least} to {most}")]
    Limits {
        /// The given value.
        got: String,
        /// The smallest value allowed.
        least: String,
        /// The largest value allowed.
        most: String,
    },
    /// A word that is not among the accepted ones.
    #[error("{got} is none of: {among}")]
    Choice {
        /// The given value.
        got: String,
        /// The accepted words.
        among: String,
    },
    /// A path that depends on the working directory.
    #[error("\"{0}\" is not an absolute path; write one that starts with /, or \"\" for none")]
    RelativePath(String),
}

impl ValueError {
    /// `got` is not what is `wanted`.
    pub(super) fn kind(
        got: impl Into<String>,
        wanted: &'static str,
        example: &'static str,
    ) -> Self {
        let got = got.into();
        Self::Kind {
            got,
            wanted,
            example,
        }
    }

    fn limits(written: Written<'_>, least: impl ToString, most: impl ToString) -> Self {
        Self::Limits {
            got: written.describe(),
            least: least.to_string(),
            most: most.to_string(),
        }
    }
}

/// Reads a switch: `true` or `false`; as an argument also `on`, `off`, `yes`, `no`, `1`, `0`.
pub(super) fn switch(written: Written<'_>) -> Result<bool, ValueError> {
    let wrong = |example| written.is_not("a switch", example);
    match written {
        Written::Switch(on) => Ok(on),
        Written::Bare(text) => match text.to_ascii_lowercase().as_str() {
            "true" | "on" | "yes" | "1" => Ok(true),
            "false" | "off" | "no" | "0" => Ok(false),
            _ => Err(wrong("on or off")),
        },
        _ => Err(wrong("true or false, without quotes")),
    }
}

/// Reads a whole number within `limits`.
pub(super) fn count(
    written: Written<'_>,
    limits: &RangeInclusive<usize>,
) -> Result<usize, ValueError> {
    let example = "digits without quotes or unit, for example 20";
    let wrong = || written.is_not("a whole number", example);
    let (Written::Bare(text) | Written::Number(text)) = written else {
        return Err(wrong());
    };
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(wrong());
    }
    match text.parse() {
        Ok(count) if limits.contains(&count) => Ok(count),
        // Negative, or larger than usize: a whole number, too.
        _ => Err(ValueError::limits(written, limits.start(), limits.end())),
    }
}

/// Reads a number from 0 to 1.
pub(super) fn ratio(written: Written<'_>) -> Result<f64, ValueError> {
    let (Written::Bare(text) | Written::Text(text) | Written::Number(text)) = written else {
        return Err(written.is_not("a number", "one without quotes, for example 0.01"));
    };
    match text.parse::<f64>() {
        Ok(ratio) if (0.0..=1.0).contains(&ratio) => Ok(ratio),
        Ok(ratio) if !ratio.is_nan() => Err(ValueError::limits(written, "0.0", "1.0")),
        _ => Err(written.is_not("a number", "one without quotes, for example 0.01")),
    }
}

/// Reads a duration of at most `most`.
pub(super) fn time(
    written: Written<'_>,
    bare: BareUnit,
    most: Duration,
) -> Result<Duration, ValueError> {
    let example = match bare {
        BareUnit::Seconds => {
            "seconds, for example 15 or 0.5, or \"250ms\", \"10s\", \"2min\", \"1h\""
        }
        BareUnit::Milliseconds => "milliseconds, for example 500, or \"500ms\", \"2s\"",
        BareUnit::Microseconds => "microseconds, for example 100, or \"100us\", \"2ms\"",
    };
    // A bare number is a duration, too.
    let text = match written {
        Written::Number(text) => Written::Text(text),
        other => other,
    };
    let parsed = text.text().and_then(|text| duration::parse(text, bare));
    let duration = parsed.ok_or_else(|| written.is_not("a duration", example))?;
    if duration > most {
        let [least, most] = [Duration::ZERO, most].map(|limit| duration::show(limit, bare));
        return Err(ValueError::limits(written, least, most));
    }
    Ok(duration)
}

/// Reads an absolute folder; empty is none.
pub(super) fn folder(written: Written<'_>) -> Result<Option<PathBuf>, ValueError> {
    let example = "an absolute path in quotes, for example \"/run/paceline\"";
    path(written.parsed("a folder", example, Some)?)
}

/// Reads the absolute path of a file; empty is none.
pub(super) fn file(written: Written<'_>) -> Result<Option<PathBuf>, ValueError> {
    let example = "an absolute path in quotes, for example \"/etc/paceline/userlist.txt\"";
    path(written.parsed("a file", example, Some)?)
}

fn path(text: &str) -> Result<Option<PathBuf>, ValueError> {
    match PathBuf::from(text) {
        _ if text.is_empty() => Ok(None),
        path if path.is_absolute() => Ok(Some(path)),
        _ => Err(ValueError::RelativePath(text.to_owned())),
    }
}

/// Reads any text.
pub(super) fn text(written: Written<'_>) -> Result<String, ValueError> {
    written
        .parsed("text", "it in quotes", Some)
        .map(str::to_owned)
}

/// Reads a password; empty is none. No error repeats it.
pub(super) fn secret(written: Written<'_>) -> Result<Option<Secret>, ValueError> {
    let wrong = || ValueError::kind("this", "a password", "it in quotes, or \"\" for none");
    let text = written.text().ok_or_else(wrong)?;
    let secret = Secret::new(text.to_owned());
    Ok(Some(secret).filter(|secret| !secret.reveal().is_empty()))
}

/// Reads a list of texts, or one text in which commas separate them. Empty is none. If `check` rejects one, the error says what
/// is `wanted`, with an `example`.
pub(super) fn list(
    written: Written<'_>,
    wanted: &'static str,
    example: &'static str,
    check: impl Fn(&str) -> Option<String>,
) -> Result<Vec<String>, ValueError> {
    let texts: Vec<&str> = match written {
        Written::List(list) => {
            let texts = list.iter().map(|value| value.get_ref().as_str());
            let texts: Option<_> = texts.collect();
            texts.ok_or_else(|| written.is_not(wanted, example))?
        }
        _ => {
            let text = written
                .text()
                .ok_or_else(|| written.is_not(wanted, example))?;
            text.split(',')
                .filter(|part| !part.trim().is_empty())
                .collect()
        }
    };
    let check = |text: &&str| {
        check(text.trim())
            .ok_or_else(|| ValueError::kind(format!("\"{}\"", text.trim()), wanted, example))
    };
    texts.iter().map(check).collect()
}

/// Reads a program and its arguments. No error repeats them: an argument may be a secret.
pub(super) fn words(written: Written<'_>) -> Result<Vec<String>, ValueError> {
    let wanted = "a list of a program and its arguments";
    let wrong = || ValueError::kind("this", wanted, "[\"/PROGRAM\", \"ARGUMENT\"]");
    let Written::List(list) = written else {
        return Err(wrong());
    };
    let words = list.iter().map(|value| {
        let word = value.get_ref().as_str().map(str::to_owned);
        word.filter(|word| !word.contains('\0')).ok_or_else(wrong)
    });
    words.collect()
}

/// Reads the value of a setting of PostgreSQL.
pub(super) fn parameter(written: Written<'_>) -> Result<String, ValueError> {
    let (wanted, example) = ("a setting's value", "it in quotes, as PostgreSQL knows it");
    let text = written.parsed(wanted, example, Some)?;
    // A zero byte ends strings in the protocol.
    if text.is_empty() || text.contains('\0') {
        return Err(ValueError::kind("this", wanted, example));
    }
    Ok(text.to_owned())
}

/// Reads one of several words.
pub(super) fn choice(
    written: Written<'_>,
    among: &'static [&'static str],
) -> Result<&'static str, ValueError> {
    let text = written.text().unwrap_or_default();
    let chosen = among.iter().find(|word| word.eq_ignore_ascii_case(text));
    chosen.copied().ok_or_else(|| no_choice(written, among))
}

/// The error for a word that is not among several.
pub(crate) fn no_choice(written: Written<'_>, among: &[&str]) -> ValueError {
    ValueError::Choice {
        got: written.describe(),
        among: among.join(", "),
    }
}
