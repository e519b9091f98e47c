//! Names of tables, functions, operators and types, as spelled in a text.

use crate::quote::quote_ident;
use pg_query::protobuf::RangeVar;
use std::collections::HashSet;
use std::fmt;

/// A name, schema-qualified or not, folded to lower case as PostgreSQL folds it. It is not resolved: without a
/// schema, the server's `search_path` determines the object.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Name {
    /// The qualifying schema, if the text gives one.
    pub schema: Option<String>,
    /// The name itself.
    pub name: String,
}

impl Name {
    /// Reads `name` or `schema.name` in SQL syntax: folded to lower case unless in double quotes. `None` for other
    /// texts.
    pub fn parse(text: &str) -> Option<Name> {
        let (first, rest) = identifier(text)?;
        let mut parts = vec![first];
        if !rest.is_empty() {
            let (second, rest) = identifier(rest.strip_prefix('.')?)?;
            if !rest.is_empty() {
                return None;
            }
            parts.push(second);
        }
        Name::from_parts(parts)
    }

    /// Builds a name from the parts of a dotted name, catalog and schema first. `None` if there are no parts.
    pub(crate) fn from_parts(mut parts: Vec<String>) -> Option<Name> {
        let name = parts.pop()?;
        Some(Name {
            schema: parts.pop(),
            name,
        })
    }

    pub(crate) fn without_schema(name: impl Into<String>) -> Name {
        Name {
            schema: None,
            name: name.into(),
        }
    }

    /// The name of a table in the parse tree.
    pub(crate) fn of_relation(relation: &RangeVar) -> Name {
        Name {
            schema: Some(relation.schemaname.clone()).filter(|schema| !schema.is_empty()),
            name: relation.relname.clone(),
        }
    }

    /// Whether the name may refer to an object of the system catalog: its schema is `pg_catalog`, or it has none.
    pub(crate) fn may_be_system(&self) -> bool {
        self.schema
            .as_deref()
            .is_none_or(|schema| schema == "pg_catalog")
    }
}

/// Writes the name in SQL syntax, with quotes only if they are necessary.
impl fmt::Display for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |name: &str| match identifier(name) {
            Some((same, "")) if same == name => name.to_owned(),
            _ => quote_ident(name),
        };
        if let Some(schema) = &self.schema {
            write!(out, "{}.", part(schema))?;
        }
        out.write_str(&part(&self.name))
    }
}

/// The identifier at the start of a text, and the text after it.
fn identifier(text: &str) -> Option<(String, &str)> {
    let Some(mut quoted) = text.strip_prefix('"') else {
        let is_part = |c: char| c == '_' || c == '$' || c.is_alphanumeric();
        let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        let starts = name.starts_with(|c: char| c == '_' || c.is_alphabetic());
        return starts.then(|| (name.to_lowercase(), rest));
    };
    let mut name = String::new();
    loop {
        let (part, rest) = quoted.split_once('"')?;
        name.push_str(part);
        match rest.strip_prefix('"') {
            // Two double quotes represent one.
            Some(more) => quoted = more,
            None => return (!name.is_empty()).then_some((name, rest)),
        }
        name.push('"');
    }
}

/// Whether a schema is the session's temporary schema, or that of another session.
pub(crate) fn is_temporary_schema(schema: &str) -> bool {
    let schema = schema.to_ascii_lowercase();
    schema == "pg_temp" || schema.starts_with("pg_temp_")
}

/// Names without duplicates, in order of their first occurrence. The cost per name does not depend on their number.
#[derive(Default)]
pub(crate) struct Names {
    list: Vec<Name>,
    known: HashSet<Name>,
}

impl Names {
    pub(crate) fn push(&mut self, name: Name) {
        if !self.known.contains(&name) {
            self.known.insert(name.clone());
            self.list.push(name);
        }
    }

    pub(crate) fn into_list(self) -> Vec<Name> {
        self.list
    }
}

/// Appends an item unless the list contains it. Only for lists whose length does not depend on the text.
pub(crate) fn push_distinct<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if !list.contains(&item) {
        list.push(item);
    }
}

#[cfg(test)]
mod tests {
    use super::Name;

    #[test]
    fn a_name_is_read_as_sql_spells_it() {
        let read = |text| {
            let name = Name::parse(text)?;
            Some((name.schema.unwrap_or_default(), name.name))
        };
        let pair = |schema: &str, name: &str| Some((schema.to_owned(), name.to_owned()));
        assert_eq!(read("place_order"), pair("", "place_order"));
        assert_eq!(read("PGMQ.Read"), pair("pgmq", "read"));
        assert_eq!(
            read("\"My Shop\".\"say \"\"hi\"\"\""),
            pair("My Shop", "say \"hi\"")
        );
        for spelt in ["f", "s.f", "\"S\".f", "s.\"say \"\"hi\"\"\""] {
            let name = Name::parse(spelt).expect(spelt);
            assert_eq!(name.to_string(), spelt);
        }
        for wrong in [
            "", "a.", ".a", "a.b.c", "f()", "a b", "1a", "\"a", "\"\"", "a-b",
        ] {
            assert_eq!(Name::parse(wrong), None, "{wrong}");
        }
    }
}
