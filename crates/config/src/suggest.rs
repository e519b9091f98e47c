//! The nearest name to one that was mistyped.

/// Similarity (0 to 1, Damerau–Levenshtein over length) below which a suggestion would rather confuse.
const SIMILARITY_MIN: f64 = 0.6;

/// Similarity of names of which one contains the other, such as PgBouncer's `pool_size` and `listen_addr` and our `default_pool_size` and
/// `listen`: worth a suggestion, unless another name is nearer.
const SIMILARITY_CONTAINED: f64 = 0.65;
/// Names shorter than this are contained in others by accident.
const CONTAINED_LENGTH_MIN: usize = 4;

/// The name that was most likely meant by `written`, if any is near. Case and `-` for `_` do not count as mistakes.
pub(super) fn nearest<'a>(
    written: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let written = written.to_lowercase().replace('-', "_");
    names
        .into_iter()
        .map(|name| (similarity(&written, name), name))
        .filter(|(similarity, _)| *similarity >= SIMILARITY_MIN)
        .max_by(|left, right| left.0.total_cmp(&right.0))
        .map(|(_, name)| name)
}

fn similarity(written: &str, name: &str) -> f64 {
    let letters = strsim::normalized_damerau_levenshtein(written, name);
    let long_enough = written.len().min(name.len()) >= CONTAINED_LENGTH_MIN;
    if long_enough && (written.contains(name) || name.contains(written)) {
        letters.max(SIMILARITY_CONTAINED)
    } else {
        letters
    }
}

#[cfg(test)]
mod tests {
    use super::nearest;

    const NAMES: [&str; 3] = ["default_pool_size", "max_client_conn", "hotspot"];

    #[test]
    fn a_slip_finds_the_name() {
        assert_eq!(
            nearest("defualt_pool_size", NAMES),
            Some("default_pool_size")
        );
        assert_eq!(nearest("max-client-conn", NAMES), Some("max_client_conn"));
        assert_eq!(nearest("HOTSPOT", NAMES), Some("hotspot"));
    }

    #[test]
    fn a_part_of_a_name_finds_it() {
        assert_eq!(nearest("pool_size", NAMES), Some("default_pool_size"));
        assert_eq!(nearest("hotspot_enabled", NAMES), Some("hotspot"));
        assert_eq!(nearest("x", NAMES), None);
    }

    #[test]
    fn a_different_word_finds_nothing() {
        assert_eq!(nearest("colour", NAMES), None);
        assert_eq!(nearest("", NAMES), None);
    }
}
