//! `SHOW CONFIG`: every key of `[paceline]`, as it is now.

use crate::console::table::{Columns, Row};
use paceline_config::{Key, Settings, keys};
use paceline_proxy::proxy::Proxy;

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
