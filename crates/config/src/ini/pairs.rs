//! Connection strings of `[databases]`, `[users]` and `[peers]`: `key=value`, separated by spaces.

use super::lines::unquote;

/// Reads the pairs in order; `None` if the text is not a list of pairs. As in PgBouncer, no value is empty and only spaces separate.
pub(super) fn read(text: &str) -> Option<Vec<(String, String)>> {
    let mut pairs = Vec::new();
    let mut rest = text.trim_start_matches(' ');
    while !rest.is_empty() {
        let (key, behind) = key(rest)?;
        let (value, behind) = value(behind)?;
        pairs.push((key.to_owned(), value));
        rest = behind.trim_start_matches(' ');
    }
    Some(pairs)
}

fn key(text: &str) -> Option<(&str, &str)> {
    let (key, value) = text.split_once('=')?;
    let key = key.trim_end_matches(' ');
    let is_key = !key.is_empty() && !key.contains([' ', '\t']);
    is_key.then_some((key, value.trim_start_matches(' ')))
}

fn value(text: &str) -> Option<(String, &str)> {
    let (value, rest) = match text.strip_prefix('\'') {
        Some(quoted) => unquote(quoted, '\'')?,
        None => {
            let (value, rest) = text.split_once(' ').unwrap_or((text, ""));
            // In PgBouncer a tab is part of the value, which its author hardly intended.
            if value.contains('\t') {
                return None;
            }
            (value.to_owned(), rest)
        }
    };
    (!value.is_empty()).then_some((value, rest))
}

#[cfg(test)]
mod tests {
    use super::read;
    use proptest::prelude::*;

    fn shown(text: &str) -> Option<Vec<String>> {
        let pairs = read(text)?;
        let show = |(key, value)| format!("{key}={value}");
        Some(pairs.into_iter().map(show).collect())
    }

    #[test]
    fn values_are_bare_or_quoted() {
        for (text, expected) in [
            ("", &[][..]),
            ("  ", &[]),
            ("host=a port=1", &["host=a", "port=1"]),
            (" host = a  port= 1 ", &["host=a", "port=1"]),
            (
                "password='it''s a b' user=x",
                &["password=it's a b", "user=x"],
            ),
            ("auth_query='SELECT a=b'", &["auth_query=SELECT a=b"]),
            ("password=a=b'c", &["password=a=b'c"]),
            ("password='a'user=b", &["password=a", "user=b"]),
        ] {
            let expected = expected.iter().map(|pair| (*pair).to_owned()).collect();
            assert_eq!(shown(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn malformed_lists_are_refused() {
        for text in [
            "host",
            "host port=1",
            "=a",
            "password=",
            "password=''",
            "password='a",
            "password='a''",
            "host=a\tport=1",
        ] {
            assert_eq!(shown(text), None, "{text}");
        }
    }

    proptest! {
        #![proptest_config(paceline_testing::cases(256))]

        #[test]
        fn what_is_quoted_is_read_back(values in prop::collection::vec("[ -~é']{1,12}", 0..4)) {
            let written: Vec<String> = values.iter().map(|value| format!("k='{}'", value.replace('\'', "''"))).collect();
            let read: Vec<String> = read(&written.join(" ")).unwrap().into_iter().map(|(_, value)| value).collect();
            prop_assert_eq!(read, values);
        }
    }
}
