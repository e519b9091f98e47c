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
            key.plain(&config.paceline).into(),
            key.plain(&defaults).into(),
            changeable(key.name).into(),
        ]
    };
    keys().map(row).collect()
}
