//! `SHOW CONFIG`: every key of `[paceline]`, as it is now.

use super::super::table::Row;
use super::Columns;
use crate::config::{Settings, keys};
use crate::control::AT_START;
use crate::proxy::Proxy;

pub(super) const COLUMNS: Columns = Columns {
    kinds: "ssss",
    names: &["key", "value", "default", "changeable"],
};

pub(super) fn config(proxy: &Proxy) -> Vec<Row> {
    let config = proxy.config();
    let defaults = Settings::default();
    let unquoted = |text: String| text.trim_matches('"').to_owned();
    let changeable = |name: &str| {
        if AT_START.contains(&name) {
            "no"
        } else {
            "yes"
        }
    };
    let row = |key: &'static crate::config::Key| -> Row {
        vec![
            key.name.into(),
            unquoted(key.show(&config.paceline)).into(),
            unquoted(key.show(&defaults)).into(),
            changeable(key.name).into(),
        ]
    };
    keys().map(row).collect()
}

/// The value of a key, by PgBouncer's name for it.
fn value(proxy: &Proxy, name: &str) -> Option<String> {
    let key = keys().find(|key| key.name == name)?;
    let shown = key.show(&proxy.config().paceline);
    Some(shown.trim_matches('"').to_owned())
}

/// How connections are shared.
pub(super) fn pool_mode(proxy: &Proxy) -> String {
    value(proxy, "pool_mode").unwrap_or_else(|| "transaction".to_owned())
}
