//! Types under the names that PostgreSQL reports (`format_type`).

use pg_query::NodeEnum;
use pg_query::protobuf;

/// A type as PostgreSQL described it for a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeName {
    /// The type in SQL syntax.
    pub sql: String,
    /// Whether it is an array type.
    pub array: bool,
    /// Whether it is a built-in type or an enum.
    pub builtin: bool,
    /// Whether its values have collations.
    pub collatable: bool,
}

/// Types whose SQL name differs from their name in the catalog, which the parser uses.
const ALIASES: [(&str, &str); 12] = [
    ("bool", "boolean"),
    ("bpchar", "character"),
    ("float4", "real"),
    ("float8", "double precision"),
    ("int2", "smallint"),
    ("int4", "integer"),
    ("int8", "bigint"),
    ("time", "time without time zone"),
    ("timestamp", "timestamp without time zone"),
    ("timestamptz", "timestamp with time zone"),
    ("timetz", "time with time zone"),
    ("varchar", "character varying"),
];

impl TypeName {
    /// The type of the parameter with this number, from 1.
    pub(crate) fn of(parameters: &[Self], number: u32) -> Option<&Self> {
        parameters.get(usize::try_from(number.checked_sub(1)?).ok()?)
    }

    /// Whether a cast to `target` keeps a value of this type unchanged. May return `false` for a cast that does.
    pub(crate) fn is(&self, target: &protobuf::TypeName) -> bool {
        let last = target.names.last().and_then(|name| name.node.as_ref());
        let Some(NodeEnum::String(name)) = last else {
            return false;
        };
        let alias = ALIASES.iter().find(|(catalog, _)| *catalog == name.sval);
        let sql = alias.map_or(name.sval.as_str(), |(_, sql)| sql);
        let bare = target.typmods.is_empty() && !target.setof;
        let dimensions = if target.array_bounds.is_empty() {
            ""
        } else {
            "[]"
        };
        bare && self.sql == format!("{sql}{dimensions}")
    }
}
