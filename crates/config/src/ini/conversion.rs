//! The conversion of single keys: a value in PgBouncer's syntax becomes a line of TOML, a comment, a remark or a problem.

use super::diagnostics::Diagnostics;
use super::known::{Known, Mapping};
use super::source_line::SourceLine;
use super::toml_writer::TomlWriter;
use crate::error::IniError;
use crate::settings::form::Syntax;

/// The TOML so far, and the notes about the file.
#[derive(Default)]
pub(super) struct Conversion {
    pub(super) toml: TomlWriter,
    pub(super) diagnostics: Diagnostics,
}

impl Conversion {
    /// Notes a key that Paceline does not have. If the file has it (`said`), a comment replaces it.
    pub(super) fn note_unsupported(
        &mut self,
        place: &SourceLine,
        known: &Known,
        value: &str,
        said: bool,
    ) {
        let name = known.name;
        let Some(plain) = self.plain(place, known, value) else {
            return;
        };
        let comment = match known.mapping {
            Mapping::Key(_) | Mapping::PartOf(_) => return,
            Mapping::Ignored(why) => {
                self.diagnostics
                    .remark(place, format!("{name} is ignored: {why}"));
                format!("{name} has no equal: {why}")
            }
            Mapping::Refused { unless, .. } if unless.contains(&plain.as_str()) => {
                format!("{name} says what holds anyway")
            }
            Mapping::Refused { why, .. } => return self.diagnostics.refuse(place, name, why),
        };
        if said {
            self.toml.comment(&comment, place);
        }
    }

    /// `value` as [`Written::Bare`](crate::value::Written) has it. If PgBouncer would not read it, notes that and returns `None`.
    pub(super) fn plain(
        &mut self,
        place: &SourceLine,
        known: &Known,
        value: &str,
    ) -> Option<String> {
        let plain = match known.syntax {
            Syntax::Number => c_number(value).map(|number| number.to_string()),
            Syntax::Switch => c_number(value).map(|number| u8::from(number != 0).to_string()),
            Syntax::Mode => c_number(value).map(|number| format!("{number:04o}")),
            Syntax::Path => Some(absolute(value)),
            Syntax::Seconds | Syntax::Text => Some(value.to_owned()),
        };
        if plain.is_none() {
            let (key, got) = (known.name.to_owned(), value.to_owned());
            self.diagnostics.wrong(place, IniError::Number { key, got });
        }
        plain
    }
}

/// A whole number as C's `strtol` reads it: decimal, `0x` hexadecimal, `0` octal.
fn c_number(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (digits, radix) = match digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None if digits.len() > 1 && digits.starts_with('0') => (digits, 8),
        None => (digits, 10),
    };
    // A second sign would be read, too.
    let all_digits = digits.chars().all(|digit| digit.is_digit(radix));
    let number = i64::from_str_radix(digits, radix).ok();
    number.filter(|_| all_digits).map(|number| sign * number)
}

/// `path` from the root on: as in PgBouncer it is relative to the folder that the process was started in.
fn absolute(path: &str) -> String {
    match std::path::absolute(path) {
        Ok(absolute) => absolute.display().to_string(),
        // Empty: none.
        Err(_) => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{absolute, c_number};

    #[test]
    fn numbers_are_read_as_c_reads_them() {
        for (text, number) in [
            ("20", Some(20)),
            ("020", Some(16)),
            ("0x14", Some(20)),
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("+3", Some(3)),
            ("--3", None),
            ("+-3", None),
            ("08", None),
            ("3s", None),
            ("", None),
            ("0x", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(c_number(text), number, "{text}");
        }
    }

    #[test]
    fn paths_begin_where_the_process_was_started() {
        let here = std::env::current_dir().unwrap();
        assert_eq!(
            absolute("users.txt"),
            here.join("users.txt").display().to_string()
        );
        assert_eq!(absolute("/etc/users.txt"), "/etc/users.txt");
        assert_eq!(absolute(""), "");
    }
}
