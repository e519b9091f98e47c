//! `SHOW CONFIG`: every key of `[paceline]` with its active value.

use crate::console::table::ColumnType::Text;
use crate::console::table::{ConsoleColumn, ConsoleTable};
use paceline_config::{Key, Settings, keys};
use paceline_proxy::proxy::Proxy;

pub(super) static CONFIG: ConsoleTable<ConfigRecord> =
    ConsoleTable::new("config", &[COLUMNS], records);

const COLUMNS: &[ConsoleColumn<ConfigRecord>] = &[
    ("key", Text, |r| r.key.name.into()),
    ("value", Text, |r| r.value.clone().into()),
    ("default", Text, |r| r.default.clone().into()),
    ("changeable", Text, |r| {
        if r.key.needs_restart { "no" } else { "yes" }.into()
    }),
];

pub(super) struct ConfigRecord {
    key: &'static Key,
    value: String,
    default: String,
}

fn records(proxy: &Proxy) -> Vec<ConfigRecord> {
    let config = proxy.config();
    let defaults = Settings::default();
    let record = |key: &'static Key| ConfigRecord {
        key,
        value: key.plain(&config.paceline),
        default: key.plain(&defaults),
    };
    keys().map(record).collect()
}
