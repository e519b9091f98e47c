//! Commands of operators from the page. They are those of the admin console.

use crate::admin::Admin;
use crate::commands::AdminCommand;
use paceline_config::GroupingTarget;
use serde::Deserialize;
use std::sync::Arc;

/// A command, as the page sends it. Without a database, it applies to all.
#[derive(Debug, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Action {
    Pause { database: Option<String> },
    Resume { database: Option<String> },
    Reconnect { database: Option<String> },
    Kill { database: Option<String> },
    Reload,
    KillClient { id: u32 },
    AllowGrouping { database: String, target: String },
    DenyGrouping { database: String, target: String },
    ResetGrouping { database: String, target: String },
}

impl Action {
    /// Executes the command and returns when it is complete. If the caller drops the future of a pause, the pause is undone.
    ///
    /// # Errors
    /// The message for the operator.
    pub(super) async fn execute(self, admin: &Arc<Admin>) -> Result<(), String> {
        let command = match self {
            Self::Pause { database } => AdminCommand::Pause(database),
            Self::Resume { database } => AdminCommand::Resume(database),
            Self::Reconnect { database } => AdminCommand::Reconnect(database),
            Self::Kill { database } => AdminCommand::Kill(database),
            Self::Reload => AdminCommand::Reload,
            Self::AllowGrouping { database, target } => grouping(database, &target, Some(true))?,
            Self::DenyGrouping { database, target } => grouping(database, &target, Some(false))?,
            Self::ResetGrouping { database, target } => grouping(database, &target, None)?,
            Self::KillClient { id } => {
                return match admin.proxy.cancel_keys.kill(id) {
                    true => Ok(()),
                    false => Err("client not found".to_owned()),
                };
            }
        };
        let executed = admin.execute(command).await;
        executed.map_err(|error| error.message)
    }
}

fn grouping(database: String, target: &str, allowed: Option<bool>) -> Result<AdminCommand, String> {
    let parsed = GroupingTarget::parse(target);
    Ok(AdminCommand::Grouping {
        database,
        target: parsed.ok_or_else(|| format!("\"{target}\" is neither a table nor a template"))?,
        allowed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_commands_of_the_page_are_read() {
        let read = |text: &str| serde_json::from_str::<Action>(text);
        assert!(matches!(
            read(r#"{"command": "pause", "database": "shop"}"#),
            Ok(Action::Pause { database: Some(name) }) if name == "shop"
        ));
        assert!(matches!(
            read(r#"{"command": "kill", "database": null}"#),
            Ok(Action::Kill { database: None })
        ));
        assert!(matches!(
            read(r#"{"command": "reload"}"#),
            Ok(Action::Reload)
        ));
        for wrong in [
            r#"{"command": "shutdown"}"#,
            r#"{"command": "pause", "databases": "shop"}"#,
            r#"{"command": "kill_client"}"#,
            "{}",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
