//! Facts about tables from the catalog: queries (SQL text) and their results (plain data). The caller executes the
//! queries.
//!
//! The same catalogs yield the [catalog version](CatalogVersion). A group compares it again in its own transaction,
//! because DDL that has committed since the analysis changes it.

mod catalog;
mod catalog_version;
mod checks;
mod collation;
mod definition;
mod grouped;
mod named_tables;
mod names;
mod numbers;
pub mod session;
pub mod sharding;
mod stored_calls;
mod stored_time;
mod subscription;
mod table;
#[cfg(test)]
mod tests;

pub use catalog::{FIRST_USER_DEFINED_OID, regclass_literal};
pub(crate) use catalog::{
    NOT_IN_C, NOT_POSTGRESQLS, TYPES_SQL, calls_sql, class_array, name_array, text_array,
    user_defined_types_sql,
};
pub use catalog_version::{
    Added, CatalogVersion, Compared, Extent, VersionSql, extent_sql,
    table_sql as catalog_version_sql,
};
pub(crate) use catalog_version::{SAME, column_versions, type_versions, versions};
pub use checks::{
    FieldNames, apart_sql, foreign_functions_sql, harmless_sql, no_hidden_calls_sql, no_serial_sql,
    plain_collations_sql, plain_tables_sql, plain_types_sql, same_on_replicas_sql,
};
pub use collation::Collation;
pub use grouped::{fits_groups_sql, no_names_sql};
pub use named_tables::named_tables_sql;
pub use names::Names;
pub use numbers::{no_numbers_read_sql, quiet_tables_sql};
pub use session::{PINNED_FORMS_SQL, TIMEOUTS_SQL};
pub use stored_calls::{Evaluated, no_context_read_sql};
pub(crate) use stored_time::reads_moment_sql;
pub use subscription::{
    DATABASE_SQL, SubscriptionSide, fingerprint_sql, portable_sql, publications_sql, readers_sql,
    slot_sql, subscribed_columns_sql, subscribed_states_sql, subscription_sql, user_defined_sql,
};
pub use table::{Column, TableFacts, checks_sql, columns_sql, keys_sql, table_sql, types_sql};
