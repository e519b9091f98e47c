//! Types by name, as PostgreSQL tells them (`format_type`).

use pg_query::NodeEnum;
use pg_query::protobuf;

/// What PostgreSQL said when it described the template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeName {
    /// The type as SQL.
    pub sql: String,
    /// It is an array type.
    pub array: bool,
    /// PostgreSQL's own or an enum.
    pub builtin: bool,
}

/// Types whose name in SQL is not that of the catalog, which is what the parser has.
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
    /// Does a cast to `target` leave a value of this type as it is? May say no where it does.
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
