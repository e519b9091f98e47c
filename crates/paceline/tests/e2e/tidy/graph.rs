//! The imports between the files of a crate: a re-export is followed to the file that defines the name.

use super::imports::{Import, Items, Segments};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Maximum number of re-exports from an import to the definition.
const REEXPORTS_MAX: usize = 16;

/// The names that a file imports from other files.
#[derive(Debug, Default)]
pub(super) struct Graph(BTreeMap<String, BTreeMap<String, BTreeSet<String>>>);

impl Graph {
    pub(super) fn add(&mut self, from: &str, to: &str, name: &str) {
        if from != to {
            let to = self
                .0
                .entry(from.to_owned())
                .or_default()
                .entry(to.to_owned());
            to.or_default().insert(name.to_owned());
        }
    }

    /// Whether one file imports from the other.
    fn imports(&self, from: &str, to: &str) -> bool {
        let targets = self.0.get(from);
        targets.is_some_and(|targets| targets.contains_key(to))
    }

    /// The files that imports lead to, one after the other.
    fn reachable<'a>(&'a self, from: &'a str) -> BTreeSet<&'a str> {
        let mut reached = BTreeSet::new();
        let mut open = vec![from];
        while let Some(file) = open.pop() {
            let targets = self.0.get(file).into_iter().flatten();
            let new = targets.map(|(to, _)| to.as_str());
            open.extend(new.filter(|file| reached.insert(*file)));
        }
        reached
    }

    /// Whether imports lead from one file to the other.
    fn leads(&self, from: &str, to: &str) -> bool {
        self.reachable(from).contains(to)
    }

    /// Describes each import that is part of a cycle.
    pub(super) fn cycles(&self) -> Vec<String> {
        let mut cycles = Vec::new();
        for (from, targets) in &self.0 {
            for (to, names) in targets.iter().filter(|(to, _)| self.leads(to, from)) {
                let names: Vec<_> = names.iter().map(String::as_str).collect();
                cycles.push(format!("{from} imports {} of {to}", names.join(", ")));
            }
        }
        cycles
    }
}

/// The modules of a crate by their paths; the root's is empty.
#[derive(Default)]
pub(super) struct Modules(BTreeMap<Segments, Module>);

struct Module {
    file: String,
    items: Items,
}

/// The target of a path.
struct Target {
    module: Segments,
    /// `None` if the path names the module itself.
    name: Option<String>,
}

impl Modules {
    /// Reads a crate from its root file on. Files are named by their paths in `folder`.
    pub(super) fn load(folder: &Path, root: &Path) -> Self {
        let read = |file: &Path| std::fs::read_to_string(folder.join(file)).ok();
        Self::read(&read, root)
    }

    fn read(read: &dyn Fn(&Path) -> Option<String>, root: &Path) -> Self {
        let mut modules = Self::default();
        let text = read(root).unwrap_or_else(|| panic!("there is no {}", root.display()));
        let folder = root.parent().unwrap_or(Path::new(""));
        modules.add(read, Vec::new(), root, folder, Items::read(&text));
        modules
    }

    /// Adds a module and those that it declares, whose files are in `folder`.
    fn add(
        &mut self,
        read: &dyn Fn(&Path) -> Option<String>,
        path: Segments,
        file: &Path,
        folder: &Path,
        mut items: Items,
    ) {
        for (name, inner) in std::mem::take(&mut items.inline) {
            self.add(read, child(&path, &name), file, &folder.join(&name), inner);
        }
        for name in &items.modules {
            let inner = folder.join(name);
            let files = [folder.join(format!("{name}.rs")), inner.join("mod.rs")];
            let found = files.iter().find_map(|file| Some((file, read(file)?)));
            let (file, text) =
                found.unwrap_or_else(|| panic!("module {name} in {} has no file", file.display()));
            self.add(read, child(&path, name), file, &inner, Items::read(&text));
        }
        let file = file.display().to_string();
        self.0.insert(path, Module { file, items });
    }

    /// Returns which file imports from which.
    pub(super) fn graph(&self) -> Graph {
        let mut graph = Graph::default();
        for (path, module) in &self.0 {
            let items = &module.items;
            let imported = items.imports.iter().filter(|import| counts(import, items));
            let by_import = imported.filter_map(|import| {
                let target = self.resolve(path, &import.path, 0)?;
                // Uses of items of a module that is imported as such are among the paths.
                let glob = (import.name == "*").then(|| "*".to_owned());
                Some((target.module, target.name.or(glob)?))
            });
            let by_path = items.paths.iter().filter_map(|named| {
                let target = self.resolve(path, named, 0)?;
                Some((target.module, target.name?))
            });
            for (target, name) in by_import.chain(by_path) {
                graph.add(&module.file, &self.0[&target].file, &name);
            }
        }
        graph
    }

    /// Finds the module that defines what a path in the module `from` names; `None` if that is in another crate, or local.
    fn resolve(&self, from: &[String], path: &[String], reexports: usize) -> Option<Target> {
        let (first, mut rest) = path.split_first()?;
        let mut at = from.to_vec();
        match first.as_str() {
            "crate" => at.clear(),
            "self" => {}
            "super" => {
                at.pop();
                while let Some(("super", behind)) = split(rest) {
                    at.pop();
                    rest = behind;
                }
            }
            name if self.0.contains_key(&child(&at, name)) => rest = path,
            name => return self.follow(from, name, rest, reexports),
        }
        while let Some((name, behind)) = split(rest) {
            let inner = child(&at, name);
            if !self.0.contains_key(&inner) {
                let name = name.to_owned();
                let defined = self.follow(&at, &name, behind, reexports);
                return defined.or(Some(Target {
                    module: at,
                    name: Some(name),
                }));
            }
            (at, rest) = (inner, behind);
        }
        Some(Target {
            module: at,
            name: None,
        })
    }

    /// Follows a name that a module has imported itself.
    fn follow(
        &self,
        module: &[String],
        name: &str,
        behind: &[String],
        reexports: usize,
    ) -> Option<Target> {
        let mut imports = self.0.get(module)?.items.imports.iter();
        let import = imports.find(|import| import.name == name)?;
        if reexports == REEXPORTS_MAX {
            return None;
        }
        let path = [import.path.as_slice(), behind].concat();
        self.resolve(module, &path, reexports + 1)
    }
}

/// A re-export alone is no import: the file that uses the name imports it.
fn counts(import: &Import, items: &Items) -> bool {
    !import.is_public || items.names.contains(&import.name)
}

fn child(path: &[String], name: &str) -> Segments {
    [path, &[name.to_owned()]].concat()
}

fn split(path: &[String]) -> Option<(&str, &[String])> {
    let (first, rest) = path.split_first()?;
    Some((first.as_str(), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The graph of a crate with these files.
    fn graph(files: &[(&str, &str)]) -> Graph {
        let read = |file: &Path| {
            let found = files.iter().find(|(name, _)| Path::new(name) == file);
            found.map(|(_, text)| (*text).to_owned())
        };
        Modules::read(&read, Path::new("lib.rs")).graph()
    }

    #[test]
    fn siblings_that_import_each_other_are_a_cycle() {
        let graph = graph(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use crate::b::B; pub struct A(B);"),
            ("b.rs", "use super::a::A; pub struct B(A);"),
        ]);
        assert_eq!(
            graph.cycles(),
            ["a.rs imports B of b.rs", "b.rs imports A of a.rs"]
        );
    }

    #[test]
    fn parent_and_child_count() {
        let graph = graph(&[
            ("lib.rs", "mod a;"),
            ("a.rs", "mod b; fn f() { b::g() } pub struct A;"),
            ("a/b.rs", "use super::A; pub fn g() -> A { A }"),
        ]);
        assert_eq!(graph.cycles().len(), 2);
    }

    #[test]
    fn a_reexport_is_followed_to_the_definition() {
        let files = [
            ("lib.rs", "mod a; mod c;"),
            ("a.rs", "mod b; pub use b::B as D;"),
            ("a/b.rs", "use crate::c::C; pub struct B(C);"),
            ("c.rs", "use crate::a; pub struct C(Option<a::D>);"),
        ];
        let graph = graph(&files);
        assert!(graph.imports("c.rs", "a/b.rs") && !graph.imports("c.rs", "a.rs"));
        assert!(!graph.imports("a.rs", "a/b.rs"));
        assert_eq!(
            graph.cycles(),
            ["a/b.rs imports C of c.rs", "c.rs imports B of a/b.rs"]
        );
    }

    #[test]
    fn a_module_that_uses_what_it_reexports_imports_it() {
        let graph = graph(&[
            ("lib.rs", "mod a;"),
            ("a.rs", "mod b; pub use b::B; pub struct A(B);"),
            ("a/b.rs", "pub struct B; pub fn f(a: super::A) {}"),
        ]);
        assert_eq!(graph.cycles().len(), 2);
    }

    #[test]
    fn other_crates_tests_and_one_way_imports_are_no_cycle() {
        let graph = graph(&[
            ("lib.rs", "mod a; mod b; use std::fmt; use tokio::b::A;"),
            (
                "a.rs",
                "use crate::b::{self, *}; pub struct A(b::B); mod c { use super::A; }",
            ),
            (
                "b.rs",
                "pub struct B; #[cfg(test)] mod tests { use crate::a::A; }",
            ),
        ]);
        assert!(graph.imports("a.rs", "b.rs"));
        assert_eq!(graph.cycles(), [""; 0]);
    }

    #[test]
    fn a_removed_import_ends_a_cycle() {
        let mut graph = graph(&[
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "use crate::c::C;"),
            ("c.rs", "use crate::a::A;"),
        ]);
        assert_eq!(graph.cycles().len(), 3);
        graph.0.get_mut("c.rs").unwrap().remove("a.rs");
        assert_eq!(graph.cycles(), [""; 0]);
        assert!(graph.leads("a.rs", "c.rs") && !graph.leads("c.rs", "a.rs"));
    }
}
