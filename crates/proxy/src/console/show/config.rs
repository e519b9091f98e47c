//! `SHOW CONFIG`: every key of `[paceline]`, as it is now.

use super::super::table::Row;
use super::Columns;
use crate::proxy::Proxy;
use paceline_config::{Key, Settings, keys};

pub(super) const COLUMNS: Columns = Columns {
    kinds: "ssss",
    names: &["key", "value", "default", "changeable"],
};

pub(super) fn config(proxy: &Proxy) -> Vec<Row> {
    let config = proxy.config();
    let defaults = Settings::default();
    let row = |key: &'static Key| -> Row {
        let changeable = if key.needs_restart { "no" } else { "yes" };
        vec![
            key.name.into(),
            key.plain(&config.paceline).into(),
            key.plain(&defaults).into(),
            changeable.into(),
        ]
    };
    keys().map(row).collect()
}
