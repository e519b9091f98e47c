//! The commands that Paceline answers: `SHOW hotspot…`, `SHOW VARIABLES LIKE 'hotspot%'`, `SHOW GLOBAL STATUS LIKE
//! 'Group_update%'` (PolarDB's spelling), `SHOW GROUPS`, `SHOW paceline.position`, and `SET paceline.after`.

use bytes::BytesMut;
use paceline_wire::backend::{self, TextColumn};
use paceline_wire::frame;

/// The setting that shows the position of a client.
pub const POSITION: &str = "paceline.position";

/// The setting that makes a client follow another one.
const AFTER: &str = "paceline.after";

/// A command that Paceline answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocalShow {
    /// `SHOW name`.
    Parameter(String),
    /// `SHOW VARIABLES LIKE pattern`.
    Variables(String),
    /// `SHOW STATUS LIKE pattern`.
    Status(String),
    /// `SHOW GROUPS`.
    Groups,
    /// `SET paceline.after = position`.
    Follow(String),
}

/// The source of the answers. Names and values are sorted by name.
pub trait ShowSource {
    /// The settings in force.
    fn variables(&self) -> Vec<(String, String)>;
    /// The counters.
    fn status(&self) -> Vec<(String, String)>;
    /// The strategies that the requests of each template used.
    fn groups(&self) -> ShowTable;
    /// Makes the client follow another client, which was at this position. False: PostgreSQL answers the command.
    fn follow(&self, _position: &str) -> bool {
        false
    }
}

/// An answer: names of the columns, and rows. `None` is NULL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShowTable {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// In each row a value per column.
    pub rows: Vec<Vec<Option<String>>>,
    /// The command tag.
    pub command: &'static str,
}

impl LocalShow {
    /// Recognises a command. `None` if PostgreSQL must answer the text.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim_start();
        // This runs for every text, so most texts must end here.
        let first = text.get(..4)?;
        if first.eq_ignore_ascii_case("set ") {
            return follow(text).map(Self::Follow);
        }
        if !first.eq_ignore_ascii_case("show") {
            return None;
        }
        let text = text.trim_end_matches(|c: char| c == ';' || c.is_whitespace());
        let mut words = text.split_whitespace().skip(1);
        let mut word = words.next()?.to_ascii_lowercase();
        if matches!(word.as_str(), "global" | "session") {
            word = words.next()?.to_ascii_lowercase();
        }
        let rest: Vec<&str> = words.collect();
        let pattern = match rest.as_slice() {
            [] => "%".to_owned(),
            [like, pattern] if like.eq_ignore_ascii_case("like") => {
                pattern.strip_prefix('\'')?.strip_suffix('\'')?.to_owned()
            }
            _ => return None,
        };
        match (word.as_str(), rest.is_empty()) {
            ("variables", _) => Some(Self::Variables(pattern)),
            ("status", _) => Some(Self::Status(pattern)),
            ("groups", true) => Some(Self::Groups),
            (name, true) if name.starts_with("hotspot") || name == POSITION => {
                Some(Self::Parameter(word))
            }
            _ => None,
        }
    }

    /// The answer. `None` if there is no such setting: PostgreSQL then reports the error.
    pub fn answer(&self, show_source: &dyn ShowSource) -> Option<ShowTable> {
        let pairs = |all: Vec<(String, String)>, pattern: &str| ShowTable {
            columns: vec!["Variable_name".to_owned(), "Value".to_owned()],
            rows: all
                .into_iter()
                .filter(|(name, _)| like(&name.to_ascii_lowercase(), &pattern.to_ascii_lowercase()))
                .map(|(name, value)| vec![Some(name), Some(value)])
                .collect(),
            command: "SHOW",
        };
        match self {
            Self::Variables(pattern) => Some(pairs(show_source.variables(), pattern)),
            Self::Status(pattern) => Some(pairs(show_source.status(), pattern)),
            Self::Groups => Some(show_source.groups()),
            Self::Parameter(wanted) => {
                let found = show_source
                    .variables()
                    .into_iter()
                    .find(|(name, _)| name == wanted);
                found.map(|(name, value)| ShowTable {
                    columns: vec![name],
                    rows: vec![vec![Some(value)]],
                    command: "SHOW",
                })
            }
            Self::Follow(position) => show_source.follow(position).then(|| ShowTable {
                columns: Vec::new(),
                rows: Vec::new(),
                command: "SET",
            }),
        }
    }
}

impl ShowTable {
    /// Appends the `RowDescription`, or `NoData` for a command without columns.
    pub fn write_columns(&self, out: &mut BytesMut) {
        if self.columns.is_empty() {
            return frame::write_empty(out, backend::tag::NO_DATA);
        }
        let columns: Vec<_> = self.columns.iter().map(|name| TextColumn(name)).collect();
        backend::write_text_columns(out, &columns);
    }

    /// Appends the rows and the `CommandComplete`.
    pub fn write_rows(&self, out: &mut BytesMut) {
        for row in &self.rows {
            backend::write_row(out, row.iter().map(|v| v.as_ref().map(String::as_bytes)));
        }
        backend::write_command_complete(out, self.command);
    }

    /// A SELECT with the same result, for clients whose messages go to a server.
    pub fn to_select(&self) -> String {
        let names: Vec<_> = self
            .columns
            .iter()
            .map(|n| paceline_sql::quote_ident(n))
            .collect();
        let value = |value: &Option<String>| match value {
            Some(text) => paceline_sql::quote_literal(text),
            None => "NULL".to_owned(),
        };
        let row = |row: &Vec<Option<String>>| {
            let values: Vec<_> = row.iter().map(value).collect();
            format!("({})", values.join(", "))
        };
        // The first row declares that all columns are text.
        let nulls = vec!["NULL::pg_catalog.text"; self.columns.len()];
        let first = format!("({})", nulls.join(", "));
        let rows: Vec<String> = [first]
            .into_iter()
            .chain(self.rows.iter().map(row))
            .collect();
        format!(
            "SELECT * FROM (VALUES {}) AS t({}) OFFSET 1",
            rows.join(", "),
            names.join(", ")
        )
    }
}

/// The position in `SET paceline.after = 'position'`.
fn follow(text: &str) -> Option<String> {
    let text = text.trim_end_matches(|c: char| c == ';' || c.is_whitespace());
    let (head, value) = text.strip_suffix('\'')?.split_once('\'')?;
    let head = head.trim_end().replace('=', " = ");
    let mut words: Vec<&str> = head.split_whitespace().skip(1).collect();
    if words
        .first()
        .is_some_and(|word| word.eq_ignore_ascii_case("session"))
    {
        words.remove(0);
    }
    match words.as_slice() {
        [name, sign]
            if name.eq_ignore_ascii_case(AFTER)
                && (*sign == "=" || sign.eq_ignore_ascii_case("to"))
                && !value.contains('\'') =>
        {
            Some(value.to_owned())
        }
        _ => None,
    }
}

/// LIKE with `%` and `_`, without escapes. Each `%` first matches as few characters as possible. If the rest does not match,
/// only the last `%` must match more.
fn like(text: &str, pattern: &str) -> bool {
    let (text, pattern): (Vec<char>, Vec<char>) =
        (text.chars().collect(), pattern.chars().collect());
    let (mut at, mut place) = (0, 0);
    // After the last `%`: the rest of the pattern, and where the text continues if the `%` matches one more character.
    let mut last = None;
    while let Some(found) = text.get(at) {
        match pattern.get(place) {
            Some('%') => {
                place += 1;
                last = Some((place, at + 1));
            }
            Some(wanted) if *wanted == '_' || wanted == found => {
                place += 1;
                at += 1;
            }
            _ => match last {
                None => return false,
                Some((behind, next)) => {
                    (place, at) = (behind, next);
                    last = Some((behind, next + 1));
                }
            },
        }
    }
    let rest = pattern.get(place..).unwrap_or_default();
    rest.iter().all(|c| *c == '%')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_documented_spellings_are_recognised() {
        let parse = LocalShow::parse;
        assert_eq!(
            parse(" show hotspot ; "),
            Some(LocalShow::Parameter("hotspot".into()))
        );
        let variables = Some(LocalShow::Variables("hotspot%".into()));
        assert_eq!(parse("SHOW VARIABLES LIKE 'hotspot%'"), variables);
        let status = Some(LocalShow::Status("Group_update%".into()));
        assert_eq!(parse("show global status like 'Group_update%';"), status);
        assert_eq!(parse("Show Groups;"), Some(LocalShow::Groups));
        assert_eq!(
            parse("show paceline.position"),
            Some(LocalShow::Parameter(POSITION.into()))
        );
        for text in [
            "SET paceline.after = '1:2:0/3'",
            "set session paceline.after='1:2:0/3';",
            "Set Paceline.After TO '1:2:0/3'",
        ] {
            assert_eq!(
                parse(text),
                Some(LocalShow::Follow("1:2:0/3".into())),
                "{text}"
            );
        }
        for other in [
            "show search_path",
            "show groups like 'a%'",
            "select 'show hotspot'",
            "show",
            "show hotspot, x",
            "set local paceline.after = 'x'",
            "set paceline.after = 'x'; select 'y'",
            "set paceline.before = 'x'",
        ] {
            assert_eq!(parse(other), None, "{other}");
        }
    }

    /// Not a measurement. If each `%` tries every position, the test does not end.
    #[test]
    fn like_does_not_backtrack_exponentially() {
        let text = "a".repeat(1_000);
        assert!(!like(&text, &("%a".repeat(500) + "b")));
        assert!(!like(&text, &"%_".repeat(100_000)));
    }

    #[test]
    fn like_matches_as_sql_does() {
        assert!(like("hotspot_lock_type", "hotspot%"));
        assert!(like("abc", "a_c") && like("abc", "%") && like("", "%"));
        assert!(!like("abc", "ab") && !like("abc", "_") && !like("xhotspot", "hotspot%"));
        assert!(like("aXbXc", "a%X_") && like("aab", "%ab") && like("abab", "%ab"));
        assert!(!like("aXbXc", "a%X") && !like("", "_") && like("ab", "%_%_%"));
    }
}
