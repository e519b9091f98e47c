//! Settings that may make the result of a group differ from that of its members alone. They may be set by SET, by a
//! function, by ALTER ROLE or by ALTER SYSTEM. A group's statement compares their values with those at the analysis.
//! docs/group-settings.md lists for each setting of PostgreSQL why a group is exact under it, or that no group is
//! formed.

use super::catalog::regclass_literal;
use crate::escapes::keeps_ascii;
use crate::name::Name;

/// Query for one row: `lock_timeout`, `statement_timeout` and `transaction_timeout` in milliseconds. 0 means no
/// limit; so does NULL, which `transaction_timeout` is before PostgreSQL 17.
pub const TIMEOUTS_SQL: &str = "SELECT (1000 * pg_catalog.date_part('epoch', pg_catalog.current_setting('lock_timeout')::pg_catalog.interval))::pg_catalog.int8, \
     (1000 * pg_catalog.date_part('epoch', pg_catalog.current_setting('statement_timeout')::pg_catalog.interval))::pg_catalog.int8, \
     (1000 * pg_catalog.date_part('epoch', pg_catalog.current_setting('transaction_timeout', true)::pg_catalog.interval))::pg_catalog.int8";

/// Query for one row that pins, up to the end of the transaction, the settings on which the form of answers depends. Under
/// them PostgreSQL writes each expression as this crate reads it, and each constant with its exact value.
pub const PINNED_FORMS_SQL: &str = "SELECT pg_catalog.set_config('DateStyle', 'ISO, YMD', true), pg_catalog.set_config('IntervalStyle', 'postgres', true), \
     pg_catalog.set_config('TimeZone', 'UTC', true), pg_catalog.set_config('standard_conforming_strings', 'on', true), \
     pg_catalog.set_config('quote_all_identifiers', 'off', true), pg_catalog.set_config('bytea_output', 'hex', true), \
     pg_catalog.set_config('extra_float_digits', '1', true)";

/// Settings that determine the value of a constant in a group's statement, which was parsed before; whether values
/// can be sent in arrays; and other effects on a member but not on a group, or the reverse.
pub const COMPARED: [&str; 14] = [
    "array_nulls",
    "client_encoding",
    "client_min_messages",
    "DateStyle",
    "exit_on_error",
    "extra_float_digits",
    "IntervalStyle",
    "lc_monetary",
    "TimeZone",
    "timezone_abbreviations",
    "transaction_isolation",
    // Since PostgreSQL 17.
    "transaction_timeout",
    "transform_null_equals",
    "xmloption",
];

/// The schemas of the search path without the temporary one: a client with temporary objects is never in a group.
const PATH: &str = "pg_catalog.array_remove(pg_catalog.current_schemas(true), \
     pg_catalog.pg_my_temp_schema()::pg_catalog.regnamespace::pg_catalog.text::pg_catalog.name)";

fn current(name: &str) -> String {
    format!("pg_catalog.current_setting('{name}', true)")
}

/// The compared values as SQL expressions.
pub(super) fn compared_sql() -> String {
    let settings = COMPARED.iter().map(|name| current(name));
    let all: Vec<String> = [PATH.to_owned()].into_iter().chain(settings).collect();
    all.join(", ")
}

/// Query for one row: the first schema of the search path, then the value of each setting in [`COMPARED`].
pub fn session_sql() -> String {
    let settings = COMPARED.iter().map(|name| current(name));
    let first = format!("({PATH})[1]");
    let all: Vec<String> = [first].into_iter().chain(settings).collect();
    format!("SELECT {}", all.join(", "))
}

/// Query for the OID of the table that a name means in the session. No row if `pg_catalog` is not searched first.
pub fn table_by_path_sql(name: &Name) -> String {
    let table = regclass_literal(name);
    format!(
        "SELECT pg_catalog.to_regclass({table})::pg_catalog.oid WHERE ({PATH})[1] OPERATOR(pg_catalog.=) 'pg_catalog'::pg_catalog.name"
    )
}

/// Reason why no statement is analyzed or grouped if the search path does not begin with `pg_catalog`: user-defined
/// operators would affect the results of the catalog queries.
pub const OTHER_PATH: &str = "search_path: pg_catalog is not searched first";

/// Whether the session searches `pg_catalog` first; `row` is the result of [`session_sql`].
pub fn searches_pg_catalog_first(row: &[Option<String>]) -> bool {
    row.first().and_then(Option::as_deref) == Some("pg_catalog")
}

/// Reason why no group is formed in the session; `row` is the result of [`session_sql`].
pub fn unsupported(row: &[Option<String>]) -> Option<String> {
    let [_, values @ ..] = row else {
        return Some("settings that are not known".to_owned());
    };
    if !searches_pg_catalog_first(row) {
        return Some(OTHER_PATH.to_owned());
    }
    let values = COMPARED.iter().zip(values);
    let mut refused = values.filter(|(name, value)| !is_supported(name, value.as_deref()));
    refused.next().map(|(name, value)| {
        let value = value.as_deref().unwrap_or_default();
        format!("setting: {name} is {value}")
    })
}

fn is_supported(name: &str, value: Option<&str>) -> bool {
    match (name, value) {
        // This setting does not exist in each version.
        ("transaction_timeout", None) => true,
        (_, None) => false,
        ("array_nulls", Some(value)) => value == "on",
        ("client_encoding", Some(value)) => keeps_ascii(value),
        ("client_min_messages", Some(value)) => ["notice", "warning", "error"].contains(&value),
        ("exit_on_error", Some(value)) => value == "off",
        ("transaction_isolation", Some(value)) => {
            ["read committed", "read uncommitted"].contains(&value)
        }
        ("transaction_timeout", Some(value)) => value == "0",
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::{COMPARED, session_sql, unsupported};

    fn row(change: &[(&str, Option<&str>)]) -> Vec<Option<String>> {
        let usual = |name: &str| match name {
            "array_nulls" => Some("on"),
            "client_encoding" => Some("UTF8"),
            "client_min_messages" => Some("notice"),
            "exit_on_error" => Some("off"),
            "transaction_isolation" => Some("read committed"),
            "transaction_timeout" => None,
            _ => Some("anything"),
        };
        let value = |name: &&str| {
            let changed = change.iter().find(|(known, _)| known == name);
            let value = changed.map_or(usual(name), |(_, value)| *value);
            value.map(str::to_owned)
        };
        let first = [&"schema"].into_iter().map(|name| {
            let changed = change.iter().find(|(known, _)| known == name);
            Some(
                changed
                    .map_or("pg_catalog", |(_, value)| value.unwrap_or_default())
                    .to_owned(),
            )
        });
        first.chain(COMPARED.iter().map(value)).collect()
    }

    #[test]
    fn settings_that_would_change_results_are_refused() {
        assert_eq!(unsupported(&row(&[])), None);
        for supported in [
            ("client_encoding", Some("LATIN1")),
            ("transaction_timeout", Some("0")),
            ("client_min_messages", Some("error")),
            ("transaction_isolation", Some("read uncommitted")),
        ] {
            assert_eq!(unsupported(&row(&[supported])), None, "{supported:?}");
        }
        for (name, value) in [
            ("array_nulls", "off"),
            ("client_encoding", "SJIS"),
            ("client_min_messages", "log"),
            ("exit_on_error", "on"),
            ("transaction_isolation", "repeatable read"),
            ("transaction_timeout", "5s"),
        ] {
            let refused = unsupported(&row(&[(name, Some(value))]));
            assert_eq!(refused, Some(format!("setting: {name} is {value}")));
        }
        let other_path = unsupported(&row(&[("schema", Some("mine"))]));
        assert!(other_path.is_some_and(|reason| reason.contains("search_path")));
        assert!(unsupported(&[]).is_some());
        assert!(unsupported(&row(&[("array_nulls", None)])).is_some());
    }

    #[test]
    fn the_query_contains_each_setting() {
        let sql = session_sql();
        assert!(COMPARED.iter().all(|name| sql.contains(name)), "{sql}");
        assert!(crate::parse(&sql).is_ok());
    }
}
