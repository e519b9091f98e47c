//! Maps from system users or certificate names to database users, in the format of `pg_ident.conf` without regular expressions.

use super::fields::{FieldWord, fields};
use std::collections::HashMap;
use std::sync::Arc;

/// Maps by name.
pub(super) type Maps = HashMap<String, Map>;

/// The outside names that may log in as users.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Map(Arc<Vec<(String, FieldWord)>>);

impl Map {
    /// Whether the system user or certificate `name` may log in as `user`.
    pub(super) fn allows(&self, name: &str, user: &str) -> bool {
        let fits = |(outside, inside): &(String, FieldWord)| {
            outside == name && (inside.keyword() == Some("all") || inside.text == user)
        };
        self.0.iter().any(fits)
    }
}

/// Reads the text of the file. An error has the number of its line.
pub(super) fn read(text: &str) -> Result<Maps, (usize, String)> {
    let mut lists: HashMap<String, Vec<(String, FieldWord)>> = HashMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let fields = fields(line).map_err(|why| (number, why))?;
        if fields.is_empty() {
            continue;
        }
        let words: Vec<FieldWord> = fields.into_iter().flatten().collect();
        let Ok([map, outside, inside]) = <[FieldWord; 3]>::try_from(words) else {
            return Err((number, "write MAP SYSTEM-USER DATABASE-USER".to_owned()));
        };
        for name in [&outside, &inside] {
            let foreign = name
                .keyword()
                .filter(|word| word.starts_with(['/', '+', '@']));
            if let Some(word) = foreign {
                return Err((number, format!("{word} is not supported; write a name")));
            }
        }
        lists
            .entry(map.text)
            .or_default()
            .push((outside.text, inside));
    }
    let maps = lists
        .into_iter()
        .map(|(name, list)| (name, Map(Arc::new(list))));
    Ok(maps.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_allows_other_names() {
        let text = "# map system user\nstaff root postgres\nstaff root app\nstaff \"a b\" all\nx y \"all\"\n";
        let maps = read(text).unwrap();
        let staff = &maps["staff"];
        for (name, user, allowed) in [
            ("root", "postgres", true),
            ("root", "app", true),
            ("root", "other", false),
            ("postgres", "postgres", false),
            ("a b", "anybody", true),
        ] {
            assert_eq!(staff.allows(name, user), allowed, "{name} {user}");
        }
        assert!(!maps["x"].allows("y", "anybody"));
        assert!(maps["x"].allows("y", "all"));
    }

    #[test]
    fn unsupported_lines_are_errors() {
        for line in ["a b", "a b c d", "a /^(.*)$ c", "a b +role", "a \"b c"] {
            assert_eq!(read(&format!("\n{line}")).unwrap_err().0, 2, "{line}");
        }
    }
}
