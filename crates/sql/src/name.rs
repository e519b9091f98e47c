//! Names of tables, functions, operators and types, as a text spells them.

/// A possibly schema-qualified name, folded to lower case where PostgreSQL folds it. Never resolved: without a schema,
/// the server's `search_path` decides what it means.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Name {
    /// The qualifying schema, if the text gives one.
    pub schema: Option<String>,
    /// The name itself.
    pub name: String,
}

impl Name {
    /// From the parts of a dotted name, catalog and schema first. `None` if there are no parts.
    pub(crate) fn from_parts(mut parts: Vec<String>) -> Option<Name> {
        let name = parts.pop()?;
        Some(Name {
            schema: parts.pop(),
            name,
        })
    }

    /// Whether it can only mean, or most likely means, what the system catalog calls by this name.
    pub(crate) fn may_be_system(&self) -> bool {
        self.schema
            .as_deref()
            .is_none_or(|schema| schema == "pg_catalog")
    }
}

/// Appends a name unless it is there already.
pub(crate) fn push_distinct<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if !list.contains(&item) {
        list.push(item);
    }
}
