//! Links of the documents: every relative link leads to a file, and every anchor to a heading of it, as GitHub names
//! headings. Links to other sites are not checked.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// The lines outside fenced code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fence && !fenced
    })
}

/// The text without the parts between backticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

/// The targets of `[text](target)`.
fn targets(text: &str) -> Vec<String> {
    let of_line = |line: &str| {
        let line = without_code(line);
        let behind = line.split("](").skip(1);
        let targets = behind.filter_map(|rest| rest.split_once(')'));
        targets.map(|(target, _)| target.to_owned()).collect()
    };
    prose(text)
        .flat_map(|line: &str| -> Vec<String> { of_line(line) })
        .collect()
}

/// The anchor of a heading, without the number that GitHub appends to the second of two equal ones.
fn anchor(heading: &str) -> String {
    let kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_');
    let kept = heading.trim().chars().filter(kept);
    kept.flat_map(char::to_lowercase)
        .map(|letter| if letter == ' ' { '-' } else { letter })
        .collect()
}

fn anchors(text: &str) -> BTreeSet<String> {
    let mut seen = BTreeMap::new();
    let headings = prose(text).filter(|line| line.starts_with('#'));
    let mut number = |heading: &str| {
        let anchor = anchor(heading.trim_start_matches('#'));
        let before = seen.entry(anchor.clone()).or_insert(0);
        *before += 1;
        match *before {
            1 => anchor,
            count => format!("{anchor}-{}", count - 1),
        }
    };
    headings.map(|heading: &str| number(heading)).collect()
}

/// `folder/link` without `..` and `.`.
fn joined(folder: &Path, link: &str) -> PathBuf {
    let mut path = PathBuf::new();
    for part in folder.join(link).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::CurDir => {}
            other => path.push(other),
        }
    }
    path
}

/// The links of a document that lead nowhere.
fn broken(file: &Path, text: &str) -> Vec<String> {
    let leads_somewhere = |target: &String| {
        let (link, anchor) = target.split_once('#').unwrap_or((target, ""));
        let there = match link {
            "" => file.to_owned(),
            link => joined(file.parent().unwrap(), link),
        };
        let is_document = there.extension().is_some_and(|extension| extension == "md");
        match is_document {
            true => std::fs::read_to_string(&there)
                .is_ok_and(|there| anchor.is_empty() || anchors(&there).contains(anchor)),
            false => anchor.is_empty() && there.exists(),
        }
    };
    let of_this_site = targets(text)
        .into_iter()
        .filter(|target| !target.contains("://"));
    let broken = of_this_site.filter(|target| !leads_somewhere(target));
    broken
        .map(|target| format!("{}: {target}", file.display()))
        .collect()
}

fn documents(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

/// Otherwise the site does not have the page.
#[test]
fn every_document_is_in_the_table_of_contents() {
    let docs = joined(Path::new(env!("CARGO_MANIFEST_DIR")), "../../docs");
    let contents = docs.join("SUMMARY.md");
    let listed = targets(&std::fs::read_to_string(&contents).unwrap());
    let listed: BTreeSet<PathBuf> = listed.iter().map(|link| joined(&docs, link)).collect();
    let mut files = Vec::new();
    for folder in ["", "scenarios"] {
        documents(&docs.join(folder), &mut files);
    }
    files.retain(|file| *file != contents && !listed.contains(file));
    assert!(files.is_empty(), "not in docs/SUMMARY.md: {files:?}");
}

#[test]
fn every_link_leads_somewhere() {
    let root = joined(Path::new(env!("CARGO_MANIFEST_DIR")), "../..");
    let mut files = Vec::new();
    for folder in ["", "docs", "docs/scenarios"] {
        documents(&root.join(folder), &mut files);
    }
    assert!(files.len() > 15, "the documents are somewhere else");
    let broken: Vec<String> = files
        .iter()
        .flat_map(|file| broken(file, &std::fs::read_to_string(file).unwrap()))
        .collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn broken_links_are_found() {
    let text = "# A `b.C`: d, e\n# Twice\n# Twice\n[`x`](#a-bc-d-e) [y](#twice-1)\n```\n[z](no.md)\n```\n`[z](no.md)`";
    assert_eq!(targets(text), ["#a-bc-d-e", "#twice-1"]);
    assert!(
        targets(text)
            .iter()
            .all(|target| anchors(text).contains(&target[1..]))
    );
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("here.md");
    assert_eq!(
        broken(
            &here,
            "[a](no.md) [b](Cargo.toml#no) [c](Cargo.toml) [d](src)"
        )
        .len(),
        2
    );
    assert_eq!(
        broken(&here, "[e](../../README.md#no) [f](https://no.example)").len(),
        1
    );
}
