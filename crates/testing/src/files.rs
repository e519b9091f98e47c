//! Files of the repository that are made from the code.

use std::path::Path;

/// Compares the file at `path` (relative to the root of the repository) with what `make` makes of its text. With
/// `PACELINE_KEEP=1` in the environment, writes the file instead.
///
/// # Panics
/// If the file differs, or cannot be written.
#[track_caller]
pub fn kept(path: &str, make: impl FnOnce(&str) -> String) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let file = root.join(path);
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    let made = make(&text);
    if text == made {
        return;
    }
    if std::env::var_os("PACELINE_KEEP").is_some() {
        match std::fs::write(&file, made) {
            Ok(()) => return,
            Err(error) => panic!("{path} cannot be written: {error}"),
        }
    }
    let (line, expected) = first_difference(&text, &made);
    panic!("{path}:{line} should be: {expected}\nrun the tests with PACELINE_KEEP=1 to write it");
}

fn first_difference(text: &str, made: &str) -> (usize, String) {
    let mut lines = text.lines();
    for (number, expected) in (1..).zip(made.lines()) {
        if lines.next() != Some(expected) {
            return (number, expected.to_owned());
        }
    }
    (made.lines().count() + 1, "nothing more".to_owned())
}
