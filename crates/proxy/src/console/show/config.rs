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
