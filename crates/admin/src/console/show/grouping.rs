//! `SHOW GROUPING`.

use crate::console::table::ColumnType::Text;
use crate::console::table::{ConsoleColumn, ConsoleTable};
use paceline_pool::pools::DecisionInForce;
use paceline_proxy::proxy::Proxy;

pub(super) static GROUPING: ConsoleTable<DecisionInForce> =
    ConsoleTable::new("grouping", &[COLUMNS], decisions);

const COLUMNS: &[ConsoleColumn<DecisionInForce>] = &[
    ("database", Text, |r| r.database.clone().into()),
    ("target", Text, |r| r.target.to_string().into()),
    ("decision", Text, |r| {
        let word = if r.allowed { "allow" } else { "deny" };
        word.into()
    }),
    ("source", Text, |r| {
        let word = if r.by_operator {
            "console"
        } else {
            "configuration"
        };
        word.into()
    }),
];

fn decisions(proxy: &Proxy) -> Vec<DecisionInForce> {
    proxy.pools.grouping_decisions()
}
