//! Collations of columns.

use crate::quote::quote_ident;

/// The collation of a column.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Collation {
    /// Values of the column's type have no collation.
    #[default]
    None,
    /// One of PostgreSQL's own, by its name in `pg_catalog`.
    BuiltIn(String),
    /// One that users have defined. Its name may refer to another collation later, so that no statement names it.
    UserDefined,
}

impl Collation {
    /// A clause behind a value that stands for the column. It is empty for [`UserDefined`](Self::UserDefined).
    pub(crate) fn clause(&self) -> String {
        match self {
            Self::None | Self::UserDefined => String::new(),
            Self::BuiltIn(name) => format!(" COLLATE pg_catalog.{}", quote_ident(name)),
        }
    }
}
