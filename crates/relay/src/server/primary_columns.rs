//! The tables of a logical subscriber as the primary has them: descriptions of rows name tables by OIDs, which differ.

use bytes::BytesMut;
use paceline_sql::facts::FIRST_USER_DEFINED_OID;
use paceline_wire::Frame;
use paceline_wire::backend;
use rustc_hash::FxHashMap;

#[cfg(test)]
mod tests;

/// The place of a column: OID of the table, and number of the column in it.
type ColumnPlace = (u32, i16);

/// For each column of a subscriber, its place on the primary.
#[derive(Debug, Default)]
pub struct PrimaryColumns {
    places: FxHashMap<ColumnPlace, ColumnPlace>,
}

impl PrimaryColumns {
    /// From pairs of the place on the subscriber and the place on the primary.
    pub fn new(pairs: impl IntoIterator<Item = ((u32, i16), (u32, i16))>) -> Self {
        Self {
            places: pairs.into_iter().collect(),
        }
    }

    /// Appends the subscriber's `RowDescription` as the primary would send it. Returns false if a column is none of those that are
    /// known, or has a type that users have defined: then what was appended is not to be used.
    #[must_use]
    pub fn write_description(&self, frame: Frame<'_>, out: &mut BytesMut) -> bool {
        let Ok(mut fields) = backend::read_fields(frame.body()) else {
            return false;
        };
        let Ok(formats) = backend::read_formats(frame.body()) else {
            return false;
        };
        for field in &mut fields {
            // Only PostgreSQL's own types have the same OID on both servers.
            if field.type_oid >= FIRST_USER_DEFINED_OID {
                return false;
            }
            if (field.table, field.column) != (0, 0) {
                let Some(place) = self.place(field.table, field.column) else {
                    return false;
                };
                (field.table, field.column) = place;
            }
        }
        backend::write_fields(out, &fields, &formats);
        true
    }

    /// The place of a column on the primary.
    pub fn place(&self, table: u32, column: i16) -> Option<(u32, i16)> {
        self.places.get(&(table, column)).copied()
    }
}
