//! Statements that show the value of a setting.

use crate::tree::Record;

/// The setting that limits the time for which a session may be idle.
pub const IDLE_SESSION_TIMEOUT: &str = "idle_session_timeout";

/// Whether a statement may show this setting: by its name, as one of all settings, or by a name that the text does
/// not contain.
pub(crate) fn shows(tree: &Record, setting: &str) -> bool {
    tree.any(&|node| node_shows(node, setting))
}

fn node_shows(node: &Record, setting: &str) -> bool {
    match node.kind {
        "VariableShowStmt" => {
            let name = node.text("name");
            name.eq_ignore_ascii_case(setting) || name == "all"
        }
        "RangeVar" => node.text("relname") == "pg_settings",
        "FuncCall" => {
            let name = node.names("funcname").pop().unwrap_or_default();
            let constant = || node.list("args").next().is_some_and(|a| a.kind == "AConst");
            match name.as_str() {
                "pg_show_all_settings" => true,
                "current_setting" => !constant(),
                _ => false,
            }
        }
        "AConst" => node.record("val").is_some_and(|value| {
            let text = value.text("sval");
            text.eq_ignore_ascii_case(setting)
        }),
        // The text of the prepared statement is not visible.
        "ExecuteStmt" => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::statement::parse;

    #[test]
    fn a_statement_may_show_a_setting_by_name_or_as_one_of_all() {
        for (sql, shows) in [
            ("SHOW idle_session_timeout", true),
            ("SHOW ALL", true),
            ("SELECT current_setting('Idle_session_timeout', true)", true),
            ("SELECT current_setting($1)", true),
            ("SELECT * FROM pg_catalog.pg_settings", true),
            ("EXECUTE p", true),
            ("SHOW statement_timeout", false),
            ("SELECT current_setting('statement_timeout')", false),
            ("SELECT * FROM t", false),
        ] {
            assert_eq!(parse(sql).unwrap().shows_idle_timeout, shows, "{sql}");
        }
    }
}
