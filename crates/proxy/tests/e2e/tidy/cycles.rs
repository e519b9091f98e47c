//! The modules of a crate import each other in one direction only.

use super::graph::{Graph, Modules};
use super::upward::UPWARD;
use std::path::{Path, PathBuf};

/// What is wrong with the imports of a crate, given the imports that are known to close a cycle.
fn complaints(graph: &mut Graph, upward: &[(&str, &str)]) -> Vec<String> {
    let mut complaints = Vec::new();
    for (from, to) in upward {
        if !graph.imports(from, to) {
            complaints.push(format!(
                "{from} no longer imports from {to}: remove the pair from UPWARD"
            ));
        } else if !graph.leads(to, from) {
            complaints.push(format!(
                "{from} and {to} are in no cycle any more: remove the pair from UPWARD"
            ));
        }
    }
    for (from, to) in upward {
        graph.remove(from, to);
    }
    let cycles = graph.cycles();
    complaints.extend(cycles.into_iter().map(|import| format!("cycle: {import}")));
    complaints
}

/// The root files of all crates, by their paths in the folder of the crates.
fn roots(crates: &Path) -> Vec<PathBuf> {
    let mut roots = Vec::new();
    for entry in std::fs::read_dir(crates).unwrap() {
        let name = entry.unwrap().file_name();
        let files = ["lib.rs", "main.rs"].map(|file| Path::new(&name).join("src").join(file));
        roots.extend(files.into_iter().filter(|file| crates.join(file).exists()));
    }
    roots.sort();
    roots
}

#[test]
fn modules_of_a_crate_have_no_import_cycle() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let roots = roots(crates);
    assert!(roots.len() > 5, "the crates are somewhere else");
    let mut found = Vec::new();
    let mut listed = 0;
    for root in &roots {
        let source = format!("{}/", root.parent().unwrap().display());
        let is_of_crate = |(from, _): &&(&str, &str)| from.starts_with(&source);
        let upward: Vec<_> = UPWARD.iter().filter(is_of_crate).copied().collect();
        listed += upward.len();
        found.extend(complaints(
            &mut Modules::load(crates, root).graph(),
            &upward,
        ));
    }
    assert_eq!(listed, UPWARD.len(), "UPWARD names a crate that is gone");
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_pair_is_listed_only_while_it_closes_a_cycle() {
    let graph = || {
        let mut graph = Graph::default();
        graph.add("a", "b", "B");
        graph.add("b", "a", "A");
        graph.add("b", "c", "C");
        graph
    };
    assert_eq!(complaints(&mut graph(), &[("b", "a")]), [""; 0]);
    assert_eq!(complaints(&mut graph(), &[]).len(), 2);
    let gone = complaints(&mut graph(), &[("b", "a"), ("c", "a")]);
    assert!(matches!(&gone[..], [only] if only.starts_with("c no longer imports")));
    let needless = complaints(&mut graph(), &[("b", "a"), ("b", "c")]);
    assert!(matches!(&needless[..], [only] if only.contains("in no cycle any more")));
}
