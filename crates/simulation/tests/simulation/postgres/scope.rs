//! Names while a statement is being resolved.

use super::schema::Schema;
use super::tree::{Cte, Expr, OutColumn, Place};
use super::value::Type;

/// A text cannot be executed: it uses something that the simulation does not have.
pub(crate) type NotSimulated = String;

/// A FROM item.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) alias: String,
    pub(crate) columns: Vec<OutColumn>,
    pub(crate) offset: usize,
    pub(crate) table: Option<usize>,
}

impl Entry {
    /// The place of a table.
    pub(crate) fn place(&self) -> Option<Place> {
        Some(Place {
            table: self.table?,
            offset: self.offset,
            columns: self.columns.len() - 2,
        })
    }
}

/// The FROM items of one query.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    pub(crate) entries: Vec<Entry>,
    pub(crate) width: usize,
}

impl Scope {
    pub(crate) fn add(
        &mut self,
        alias: &str,
        columns: Vec<OutColumn>,
        table: Option<usize>,
    ) -> usize {
        let width = columns.len();
        self.entries.push(Entry {
            alias: alias.to_owned(),
            columns,
            offset: self.width,
            table,
        });
        self.width += width;
        width
    }

    pub(crate) fn entry(&self, alias: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.alias == alias)
    }

    fn find(&self, alias: Option<&str>, name: &str) -> Option<(usize, Type)> {
        let named = |entry: &&Entry| alias.is_none_or(|alias| entry.alias == alias);
        self.entries.iter().filter(named).find_map(|entry| {
            let place = entry
                .columns
                .iter()
                .position(|column| column.name == name)?;
            Some((entry.offset + place, entry.columns.get(place)?.of))
        })
    }
}

/// The state of resolving one statement.
pub(crate) struct Resolver<'a> {
    pub(crate) schema: &'a Schema,
    /// The innermost one is last.
    pub(crate) scopes: Vec<Scope>,
    /// Names of common table expressions, their numbers and columns.
    pub(crate) names: Vec<(String, usize, Vec<OutColumn>)>,
    pub(crate) ctes: Vec<Option<Cte>>,
    pub(crate) parameters: Vec<Type>,
}

impl Resolver<'_> {
    pub(crate) fn scope(&mut self) -> Result<&mut Scope, NotSimulated> {
        self.scopes
            .last_mut()
            .ok_or_else(|| "no FROM clause".to_owned())
    }

    pub(crate) fn column(
        &self,
        alias: Option<&str>,
        name: &str,
    ) -> Result<(Expr, Type), NotSimulated> {
        let inner = self.scopes.iter().rev().enumerate();
        let mut found = inner.filter_map(|(level, scope)| {
            let (offset, of) = scope.find(alias, name)?;
            Some((Expr::Column(level, offset), of))
        });
        found
            .next()
            .ok_or_else(|| format!("column {alias:?}.{name}"))
    }

    /// The type of a parameter; the first use that knows one decides.
    pub(crate) fn parameter(&mut self, number: usize, expected: Type) -> Type {
        if self.parameters.len() < number {
            self.parameters.resize(number, Type::Unknown);
        }
        match self.parameters.get_mut(number.wrapping_sub(1)) {
            Some(known) => {
                if *known == Type::Unknown {
                    *known = expected;
                }
                *known
            }
            None => Type::Unknown,
        }
    }
}
