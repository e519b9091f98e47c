//! The modules of a crate import each other in one direction only, and crates depend on crates below them only.

use super::graph::{Graph, Modules};
use std::path::{Path, PathBuf};

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
    for root in &roots {
        found.extend(Modules::load(crates, root).graph().cycles());
    }
    assert!(found.is_empty(), "cycles:\n{}", found.join("\n"));
}

#[test]
fn an_import_that_closes_a_cycle_is_found() {
    let mut graph = Graph::default();
    graph.add("a", "b", "B");
    graph.add("b", "c", "C");
    assert!(graph.cycles().is_empty());
    graph.add("c", "a", "A");
    assert!(!graph.cycles().is_empty());
}

/// The crates from the bottom up, without those for tests. Cargo keeps dependencies free of cycles; the order says what a crate must
/// not know.
const LAYERS: [&str; 17] = [
    "wire",
    "sql",
    "relay",
    "traces",
    "batch",
    "config",
    "net",
    "cluster",
    "shards",
    "advise",
    "pool",
    "proxy",
    "admin",
    "postgres",
    "bench",
    "paceline",
    "simulation",
];

/// Crates that know neither sockets nor a runtime.
const PURE: [&str; 8] = [
    "wire", "sql", "relay", "traces", "batch", "cluster", "shards", "advise",
];

/// The entries of `[dependencies]` in the manifest of a crate.
fn dependencies(crates: &Path, name: &str) -> Vec<String> {
    let manifest = std::fs::read_to_string(crates.join(name).join("Cargo.toml")).unwrap();
    let (_, rest) = manifest.split_once("[dependencies]").unwrap_or_default();
    let section = rest.split("\n[").next().unwrap_or_default();
    let entry = |line: &str| line.split(['.', ' ', '=']).next().map(str::to_owned);
    let entries = section.lines().filter(|line| !line.starts_with('#'));
    entries
        .filter_map(entry)
        .filter(|name| !name.is_empty())
        .collect()
}

#[test]
fn crates_depend_on_crates_below_them() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let place = |name: &str| LAYERS.iter().position(|layer| *layer == name);
    for name in LAYERS {
        let dependencies = dependencies(crates, name);
        for other in dependencies
            .iter()
            .filter_map(|entry| entry.strip_prefix("paceline-"))
        {
            assert!(place(other) < place(name), "{name} depends on {other}");
        }
        let runtime = dependencies.iter().find(|entry| *entry == "tokio");
        assert!(
            runtime.is_none() || !PURE.contains(&name),
            "{name} knows the runtime"
        );
    }
    let known = std::fs::read_dir(crates).unwrap().count();
    assert_eq!(
        known,
        LAYERS.len() + 1,
        "LAYERS misses a crate (testing is not listed)"
    );
}
