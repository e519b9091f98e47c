//! The imports, declarations and names of a source file, read from its tokens. Comments, strings, attributes and items under `#[cfg(test)]`
//! do not count.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::BTreeSet;

/// The segments of a path such as `crate::pool::Pool`.
pub(super) type Segments = Vec<String>;

/// One name that a `use` brings into scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Import {
    pub(super) path: Segments,
    /// The last segment, or the name behind `as`; `*` for a glob.
    pub(super) name: String,
    /// Whether others can import the name from here (`pub use`, `pub(crate) use`, `pub(super) use`).
    pub(super) is_public: bool,
}

/// The contents of a module.
#[derive(Debug, Default)]
pub(super) struct Items {
    pub(super) imports: Vec<Import>,
    /// Modules in files of their own.
    pub(super) modules: Vec<String>,
    /// Modules with braces.
    pub(super) inline: Vec<(String, Items)>,
    /// Paths of two segments or more outside of `use`.
    pub(super) paths: Vec<Segments>,
    /// Identifiers outside of `use`.
    pub(super) names: BTreeSet<String>,
}

impl Items {
    /// Reads the text of a file.
    pub(super) fn read(text: &str) -> Self {
        let mut items = Self::default();
        items.scan(text.parse().unwrap());
        items
    }

    fn scan(&mut self, tokens: TokenStream) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            let rest = &tokens[at + 1..];
            at += 1 + match token {
                TokenTree::Punct(mark) if mark.as_char() == '#' => after_attribute(rest),
                TokenTree::Ident(word) if word == "use" && !is_punct(rest.first(), '<') => {
                    self.read_use(rest, is_public(&tokens[..at]))
                }
                TokenTree::Ident(word) if word == "mod" => self.read_module(rest),
                TokenTree::Ident(word) => self.read_path(word.to_string(), rest),
                TokenTree::Group(group) => {
                    self.scan(group.stream());
                    0
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => 0,
            };
        }
    }

    /// Reads the tree of a `use`; returns the number of its tokens.
    fn read_use(&mut self, rest: &[TokenTree], is_public: bool) -> usize {
        let end = rest.iter().position(|token| is_punct(Some(token), ';'));
        let end = end.unwrap_or(rest.len());
        read_tree(&rest[..end], &Vec::new(), is_public, &mut self.imports);
        end
    }

    fn read_module(&mut self, rest: &[TokenTree]) -> usize {
        match rest {
            [TokenTree::Ident(name), TokenTree::Group(body), ..] => {
                let mut items = Self::default();
                items.scan(body.stream());
                self.inline.push((name.to_string(), items));
                2
            }
            [TokenTree::Ident(name), ..] => {
                self.modules.push(name.to_string());
                1
            }
            _ => 0,
        }
    }

    fn read_path(&mut self, first: String, rest: &[TokenTree]) -> usize {
        let mut path = vec![first.clone()];
        let mut tokens = rest;
        while let [one, two, TokenTree::Ident(segment), behind @ ..] = tokens
            && is_punct(Some(one), ':')
            && is_punct(Some(two), ':')
        {
            path.push(segment.to_string());
            tokens = behind;
        }
        self.names.insert(first);
        if path.len() > 1 {
            self.paths.push(path);
        }
        rest.len() - tokens.len()
    }
}

/// The number of tokens of an attribute behind `#`, and of its item if that is for tests only.
fn after_attribute(rest: &[TokenTree]) -> usize {
    let Some(TokenTree::Group(attribute)) = rest.first() else {
        return 0;
    };
    let attribute: String = attribute.stream().to_string().split_whitespace().collect();
    if attribute != "cfg(test)" {
        return 1;
    }
    let ends = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        other => is_punct(Some(other), ';'),
    };
    rest.iter().position(ends).map_or(rest.len(), |end| end + 1)
}

/// Whether a visibility precedes.
fn is_public(before: &[TokenTree]) -> bool {
    let is_pub = |token: &TokenTree| matches!(token, TokenTree::Ident(word) if word == "pub");
    match before {
        [.., word, TokenTree::Group(_)] => is_pub(word),
        [.., word] => is_pub(word),
        [] => false,
    }
}

fn is_punct(token: Option<&TokenTree>, wanted: char) -> bool {
    matches!(token, Some(TokenTree::Punct(mark)) if mark.as_char() == wanted)
}

fn read_tree(tree: &[TokenTree], prefix: &Segments, is_public: bool, imports: &mut Vec<Import>) {
    let parts = tree.split(|token| is_punct(Some(token), ','));
    for part in parts.filter(|part| !part.is_empty()) {
        let mut path = prefix.clone();
        let mut alias = None;
        let mut tokens = part.iter();
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Ident(word) if word == "as" => alias = tokens.next(),
                TokenTree::Ident(segment) => path.push(segment.to_string()),
                TokenTree::Group(group) => {
                    let inner: Vec<_> = group.stream().into_iter().collect();
                    read_tree(&inner, &path, is_public, imports);
                    path.clear();
                }
                TokenTree::Punct(mark) if mark.as_char() == '*' => path.push("*".to_owned()),
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
        if path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        let Some(last) = path.last() else { continue };
        let name = alias.map_or_else(|| last.clone(), ToString::to_string);
        path.retain(|segment| segment != "*");
        imports.push(Import {
            path,
            name,
            is_public,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each import as `path as name`, with `pub` in front if others can import it.
    fn imports(text: &str) -> Vec<String> {
        let show = |import: &Import| {
            let public = if import.is_public { "pub " } else { "" };
            format!("{public}{} as {}", import.path.join("::"), import.name)
        };
        Items::read(text).imports.iter().map(show).collect()
    }

    #[test]
    fn trees_are_flattened() {
        assert_eq!(imports("use crate::a::B;"), ["crate::a::B as B"]);
        assert_eq!(
            imports("use super::{a::{self, B as C}, d::*, E,};"),
            [
                "super::a as a",
                "super::a::B as C",
                "super::d as *",
                "super::E as E"
            ]
        );
    }

    #[test]
    fn visibility_makes_a_reexport() {
        let text = "pub(crate) use a::A; pub use b::B; use c::C; pub fn f() {} use d::D;";
        assert_eq!(
            imports(text),
            ["pub a::A as A", "pub b::B as B", "c::C as C", "d::D as D"]
        );
    }

    #[test]
    fn items_for_tests_comments_and_strings_do_not_count() {
        let text = r#"
            // use a::A;
            #[cfg(test)]
            use b::{B, C};
            #[cfg(test)]
            #[derive(Debug)]
            struct D { e: crate::e::E }
            #[cfg(test)]
            mod tests { use f::F; }
            #[cfg(test)]
            mod more;
            #[cfg(unix)]
            use g::G;
            const TEXT: &str = "use h::H; crate::i::I";
        "#;
        let items = Items::read(text);
        assert_eq!(imports(text), ["g::G as G"]);
        assert!(items.paths.is_empty() && items.modules.is_empty() && items.inline.is_empty());
    }

    #[test]
    fn modules_and_paths_are_found() {
        let items = Items::read(
            "mod a; pub mod b { use super::C; } fn f(x: a::X) -> impl Y + use<> { log!(crate::d::e()) }",
        );
        assert_eq!(items.modules, ["a"]);
        assert_eq!(items.inline[0].0, "b");
        assert_eq!(items.inline[0].1.imports[0].path, ["super", "C"]);
        assert_eq!(items.paths, [vec!["a", "X"], vec!["crate", "d", "e"]]);
        assert!(items.names.contains("Y") && !items.names.contains("C"));
    }
}
