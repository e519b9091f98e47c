//! When a statement was analysed, and what its client was told of the result. PostgreSQL looks names and types up when it
//! parses a statement, so a client's own `Parse` always reaches a server. What that server has then serves every client whose
//! own `Parse` was answered earlier, and a client that moves to another server connection executes nothing there that was
//! analysed before its own `Parse`.
//!
//! Times are numbers of [`Templates::new_id`](crate::template::Templates::new_id), which grow.

use foldhash::quality::FixedState;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

/// Stands for the names and types of a statement's columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnsId(u64);

impl ColumnsId {
    /// Of columns by name, type and type modifier.
    pub fn of<'a>(columns: impl Iterator<Item = (&'a [u8], u32, i32)>) -> Self {
        let mut hasher = FixedState::default().build_hasher();
        columns.for_each(|column| column.hash(&mut hasher));
        Self(hasher.finish())
    }
}

/// A statement of a client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Analysis {
    /// The client's own `Parse`: taken when it was written. 0: no server has seen it.
    pub parse: u64,
    /// Taken when the client's own `Parse` was answered: what is written to a server afterwards is analysed afterwards.
    pub since: u64,
    /// The settings under which the client's own `Parse` was analysed.
    pub settings: u64,
    /// The types of its parameters, as in `Parse`, if the client was told of them.
    pub types: Option<Arc<[u8]>>,
    /// Its columns, if the client was told of them.
    pub columns: Option<ColumnsId>,
}

impl Analysis {
    /// Of a `Parse` that is being written.
    pub fn begun(parse: u64, settings: u64) -> Self {
        Self {
            parse,
            since: parse,
            settings,
            ..Self::default()
        }
    }

    /// The types with which another server parses the statement for this client: those that it was told of, as it sends its
    /// values in them. `None`: those that it declared.
    pub fn other_types(&self, declared: &[u8]) -> Option<&[u8]> {
        self.types.as_deref().filter(|types| *types != declared)
    }
}

/// A statement that a server has analysed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Analysed {
    /// Taken when its `Parse` was written.
    pub(crate) parse: u64,
    /// Stands for the types of its parameters, if they are known.
    pub(crate) types: Option<TypesId>,
    /// Its columns, if they are known.
    pub(crate) columns: Option<ColumnsId>,
    /// Only the client whose own `Parse` this is may use it.
    pub(crate) private: bool,
}

impl Analysed {
    /// May it be executed for a client with this statement, which it declared with these types?
    pub(crate) fn serves(&self, analysis: &Analysis, declared: &[u8]) -> bool {
        if self.parse == analysis.parse && analysis.parse != 0 {
            return true;
        }
        let types = analysis.other_types(declared).map(TypesId::of);
        let agrees = types.is_none_or(|types| self.types == Some(types));
        !self.private && self.parse >= analysis.since && agrees
    }
}

/// Stands for the types of a statement's parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TypesId(u64);

impl TypesId {
    /// Of types as in `Parse`, which is how `ParameterDescription` has them, too.
    pub(crate) fn of(types: &[u8]) -> Self {
        Self(FixedState::default().hash_one(types))
    }

    /// Of the types with which a statement is parsed, if it declares them all.
    pub(crate) fn declared(types: &[u8]) -> Option<Self> {
        let mut oids = types.get(2..).unwrap_or_default().chunks_exact(4);
        let all = oids.len() > 0 && oids.all(|oid| oid != [0; 4]);
        all.then(|| Self::of(types))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_wire::frontend::parameter_types;

    fn analysed(parse: u64) -> Analysed {
        Analysed {
            parse,
            types: None,
            columns: None,
            private: false,
        }
    }

    #[test]
    fn what_was_analysed_before_a_client_parsed_does_not_serve_it() {
        let mut mine = Analysis::begun(5, 0);
        mine.since = 7;
        for (parse, serves) in [(4, false), (5, true), (6, false), (7, true), (9, true)] {
            assert_eq!(analysed(parse).serves(&mine, &[0, 0]), serves, "{parse}");
        }
        let private = Analysed {
            private: true,
            ..analysed(9)
        };
        assert!(!private.serves(&mine, &[0, 0]));
    }

    #[test]
    fn types_that_a_client_was_told_of_must_agree() {
        let [int, long] = [23, 20].map(|oid| parameter_types(&[oid]));
        let mut mine = Analysis::begun(5, 0);
        mine.types = Some(int.clone().into());
        let mut there = analysed(8);
        assert!(!there.serves(&mine, &parameter_types(&[0])), "not known");
        there.types = Some(TypesId::of(&long));
        assert!(!there.serves(&mine, &parameter_types(&[0])));
        there.types = Some(TypesId::of(&int));
        assert!(there.serves(&mine, &parameter_types(&[0])));
        there.types = None;
        assert!(there.serves(&mine, &int), "parsed with them");
    }

    #[test]
    fn only_types_that_are_all_declared_are_known() {
        assert!(TypesId::declared(&parameter_types(&[23, 25])).is_some());
        for oids in [&[][..], &[0], &[23, 0]] {
            assert!(TypesId::declared(&parameter_types(oids)).is_none());
        }
    }
}
