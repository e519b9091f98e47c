//! The order of `Parse` messages: the answers to those of clients, and the parsing on servers. It decides which statement of a server may
//! serve which client. This is not the catalog analysis of a template.
//!
//! PostgreSQL resolves names and types when it parses a statement. Therefore a server parses each `Parse` of a client. The
//! prepared statement of that server then serves every client whose own `Parse` was answered earlier. If a client moves to
//! another server connection, it executes no statement there that was parsed before its own `Parse`.
//!
//! Times are numbers of [`Templates::new_id`](crate::template::Templates::new_id). They increase.

use foldhash::quality::FixedState;
use paceline_wire::Frame;
use paceline_wire::backend::{self, tag};
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

/// Identifies the names and types of a statement's columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ColumnsId(u64);

impl ColumnsId {
    /// From the name, type and type modifier of each column.
    pub fn of<'a>(columns: impl Iterator<Item = (&'a [u8], u32, i32)>) -> Self {
        let mut hasher = FixedState::default().build_hasher();
        columns.for_each(|column| column.hash(&mut hasher));
        Self(hasher.finish())
    }

    /// From a `RowDescription`, or of no columns from a `NoData`. Clients depend on the names and types of columns, not on their
    /// format.
    pub(crate) fn described(frame: Frame<'_>) -> Self {
        match frame.tag {
            tag::ROW_DESCRIPTION => Self::of(backend::columns(frame.body())),
            _ => Self::of(std::iter::empty()),
        }
    }
}

/// The `Parse` of a client's prepared statement, and what the server has described to the client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientParse {
    /// The time at which the client's own `Parse` was written. 0: the client sent none to a server.
    pub written: u64,
    /// The time at which the client's own `Parse` was answered. A `Parse` that is written later is parsed later.
    pub answered: u64,
    /// The id of the settings in force when a server parsed the statement for the client.
    pub settings: u64,
    /// The parameter types, in the format of `Parse`, if a server has described them to the client.
    pub types: Option<Arc<[u8]>>,
    /// The columns, if a server has described them to the client.
    pub columns: Option<ColumnsId>,
}

impl ClientParse {
    /// For a `Parse` that is being written.
    pub fn begun(now: u64, settings: u64) -> Self {
        Self {
            written: now,
            answered: now,
            settings,
            ..Self::default()
        }
    }

    /// The types with which another server must parse the statement: the client sends values of the types that were
    /// described to it. `None` if those are the declared types.
    pub fn other_types(&self, declared: &[u8]) -> Option<&[u8]> {
        self.types.as_deref().filter(|types| *types != declared)
    }
}

/// A prepared statement of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ServerParse {
    /// The time at which its `Parse` was written.
    pub(crate) written: u64,
    /// The parameter types, if known.
    pub(crate) types: Option<TypesId>,
    /// The columns, if known.
    pub(crate) columns: Option<ColumnsId>,
    /// Only the client that sent this `Parse` may execute the statement.
    pub(crate) private: bool,
    /// The last [`AnalysisTime`] of a group's statement.
    pub(crate) analyzed: AnalysisTime,
}

/// The time at which a server has analyzed a group's statement, if all facts that the statement depends on have been compared
/// since: a `timestamptz` in binary format (microseconds since 2000).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnalysisTime(i64);

impl AnalysisTime {
    /// `-infinity`: it is not known.
    pub const UNKNOWN: Self = Self(i64::MIN);

    /// From a value of a result. `None` if it has another type.
    pub fn read(value: &[u8]) -> Option<Self> {
        Some(Self(i64::from_be_bytes(value.try_into().ok()?)))
    }

    /// The value of a parameter.
    pub fn bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }
}

impl ServerParse {
    /// Whether the client of this `Parse`, which declared these types, may execute the statement.
    pub(crate) fn serves(&self, client_parse: &ClientParse, declared: &[u8]) -> bool {
        if self.written == client_parse.written && client_parse.written != 0 {
            return true;
        }
        let types = client_parse.other_types(declared).map(TypesId::of);
        let agrees = types.is_none_or(|types| self.types == Some(types));
        !self.private && self.written >= client_parse.answered && agrees
    }
}

/// Identifies the parameter types of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TypesId(u64);

impl TypesId {
    /// From types in the format of `Parse`. `ParameterDescription` has the same format.
    pub(crate) fn of(types: &[u8]) -> Self {
        Self(FixedState::default().hash_one(types))
    }

    /// From the types of a `Parse`, if it declares all of them.
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

    fn parsed_at(written: u64) -> ServerParse {
        ServerParse {
            written,
            types: None,
            columns: None,
            private: false,
            analyzed: AnalysisTime::UNKNOWN,
        }
    }

    #[test]
    fn a_statement_parsed_before_the_clients_parse_does_not_serve_it() {
        let mut mine = ClientParse::begun(5, 0);
        mine.answered = 7;
        for (parse, serves) in [(4, false), (5, true), (6, false), (7, true), (9, true)] {
            assert_eq!(parsed_at(parse).serves(&mine, &[0, 0]), serves, "{parse}");
        }
        let private = ServerParse {
            private: true,
            ..parsed_at(9)
        };
        assert!(!private.serves(&mine, &[0, 0]));
    }

    #[test]
    fn types_that_were_described_to_a_client_must_agree() {
        let [int, long] = [23, 20].map(|oid| parameter_types(&[oid]));
        let mut mine = ClientParse::begun(5, 0);
        mine.types = Some(int.clone().into());
        let mut there = parsed_at(8);
        assert!(!there.serves(&mine, &parameter_types(&[0])), "not known");
        there.types = Some(TypesId::of(&long));
        assert!(!there.serves(&mine, &parameter_types(&[0])));
        there.types = Some(TypesId::of(&int));
        assert!(there.serves(&mine, &parameter_types(&[0])));
        there.types = None;
        assert!(there.serves(&mine, &int), "parsed with them");
    }

    #[test]
    fn types_are_known_only_if_all_are_declared() {
        assert!(TypesId::declared(&parameter_types(&[23, 25])).is_some());
        for oids in [&[][..], &[0], &[23, 0]] {
            assert!(TypesId::declared(&parameter_types(oids)).is_none());
        }
    }
}
