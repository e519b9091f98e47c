//! Tidiness of the sources, as an ordinary test: a module says what it is, a file holds one concept, nothing is left for
//! later. [`cycles`] checks that imports have one direction, [`links`] that the links of the documents lead somewhere.

mod cycles;
mod graph;
mod imports;
mod links;
mod watchdog;

use std::path::{Path, PathBuf};

const LINES_MAX: usize = 600;

/// Written in two parts, so that this file may hold them.
const UNWANTED: [&str; 6] = [
    concat!("to", "do!("),
    concat!("unimple", "mented!("),
    concat!("db", "g!("),
    concat!("FIX", "ME"),
    concat!("TO", "DO"),
    concat!("#[ig", "nore"),
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn complaints(file: &Path, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut complain = |what: String| complaints.push(format!("{}: {what}", file.display()));
    if !text.starts_with("//!") {
        complain("does not begin with //!".to_owned());
    }
    let lines = text.lines().count();
    if lines > LINES_MAX {
        complain(format!("has {lines} lines, more than {LINES_MAX}"));
    }
    for (number, line) in (1..).zip(text.lines()) {
        for word in UNWANTED.iter().filter(|word| line.contains(*word)) {
            complain(format!("{word} in line {number}"));
        }
    }
    complaints
}

#[test]
fn every_source_is_tidy() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    sources(crates, &mut files);
    assert!(files.len() > 30, "the sources are somewhere else");
    let complaints: Vec<String> = files
        .iter()
        .flat_map(|file| complaints(file, &std::fs::read_to_string(file).unwrap()))
        .collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn untidiness_is_found() {
    let found = |text: &str| complaints(Path::new("file.rs"), text).len();
    assert_eq!(found("//! Fine.\n"), 0);
    assert_eq!(found("fn main() {}\n"), 1);
    assert_eq!(found(&format!("//! Long.\n{}", "\n".repeat(LINES_MAX))), 1);
    assert_eq!(found(&format!("//! Later.\n// {}\n", UNWANTED[4])), 1);
}
