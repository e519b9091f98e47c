//! The key of an upsert.

use crate::distribution::DistributionRefusal;
use crate::facts::{Column, TableFacts};
use crate::fold::{KeyClass, KeyColumn, column::key_column};
use crate::merge::insert::Insert;
use crate::type_name::TypeName;
use crate::value::KeyValue;

/// The columns that identify a row, and their values.
pub(super) struct Key<'a>(pub(super) Vec<(&'a Column, KeyValue)>);

impl<'a> Key<'a> {
    /// The target of ON CONFLICT or, without one, the shortest key with values. The values are those of the first
    /// row.
    pub(super) fn of(insert: &Insert, table: &'a TableFacts) -> Result<Self, DistributionRefusal> {
        let valued = insert.valued(table)?;
        let value_of = |name: &String| {
            let (_, expr) = valued.iter().find(|(column, _)| column == name)?;
            Some((table.column(name)?, expr.as_value()?))
        };
        let named = |names: &Vec<String>| names.iter().map(value_of).collect::<Option<Vec<_>>>();
        let target = insert
            .conflict
            .as_ref()
            .and_then(|conflict| conflict.target.as_ref());
        let is_target = |names: &&Vec<String>| {
            target.is_none_or(|target| {
                target.iter().all(|name| names.contains(name))
                    && names.iter().all(|name| target.contains(name))
            })
        };
        let keys = table.keys.iter().filter(is_target).filter_map(named);
        keys.min_by_key(Vec::len)
            .map(Self)
            .ok_or(DistributionRefusal::Conflict)
    }

    /// The key columns, with the way in which their values are compared.
    pub(super) fn columns(
        &self,
        parameters: &[TypeName],
    ) -> Result<Vec<KeyColumn>, DistributionRefusal> {
        let compared = |(column, value): &(&Column, KeyValue)| {
            let key = key_column(column, value, parameters)?;
            // PostgreSQL rounds or pads the value, so that the returned key would differ.
            let unchanged = key.class != KeyClass::Opaque || column.type_modifier == -1;
            unchanged
                .then_some(key)
                .ok_or(DistributionRefusal::Conflict)
        };
        self.0.iter().map(compared).collect()
    }
}
