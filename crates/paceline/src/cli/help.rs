//! The help: `paceline --help`, which fits on a screen, and the topics of `paceline help`.

use super::arguments::Arguments;
use super::error::CliError;
use clap::{Command, CommandFactory};
use paceline_config::{Key, Settings, keys};
use std::fmt::Write as _;

/// The topic that lists the settings.
const SETTINGS_TOPIC: &str = "settings";

/// The last lines of `--help`.
const AFTER_HELP: &str = "\
Examples:
  paceline --upstream postgres://app:secret@10.0.0.5:5432/
  paceline --upstream postgres://10.0.0.5/ --set default_pool_size=50
  paceline --config paceline.toml

Settings: paceline help settings. Options of a command: paceline help COMMAND.";

/// The example of the embedded PostgreSQL.
#[cfg(feature = "embedded")]
const EMBEDDED_EXAMPLE: &str = "
  paceline
      Starts a PostgreSQL of its own and listens on 127.0.0.1:6432.";
#[cfg(not(feature = "embedded"))]
const EMBEDDED_EXAMPLE: &str = "";

/// The examples of `serve`.
const SERVE_EXAMPLES: &str = "
  paceline --upstream postgres://app:secret@10.0.0.5:5432/app
      Every database name leads to that server; Paceline logs in as app.
  paceline --upstream 'postgres:///?host=/run/postgresql' --set default_pool_size=50 --set server_idle_timeout=5min
      The same over a Unix socket, with two settings changed.
  paceline --config paceline.toml
      Several servers, settings per database and user.
  paceline --config pgbouncer.ini
      Instead of PgBouncer; paceline import pgbouncer.ini prints it as a paceline.toml.

Settings: paceline help settings.";

/// The command line with its examples.
pub(super) fn command() -> Command {
    let examples = format!("Examples:{EMBEDDED_EXAMPLE}{SERVE_EXAMPLES}");
    let mut command = Arguments::command()
        .mut_subcommand("serve", |serve| serve.after_long_help(examples))
        .after_help(AFTER_HELP);
    // The long help would describe the options of `serve` by paragraphs.
    let short = command.render_help().to_string();
    command.override_help(short.replace(" (see more with '--help')", ""))
}

/// The text of a topic: `settings`, `settings PART_OF_A_NAME`, or the names of a command and its subcommands. Without a topic: that
/// of `--help`.
///
/// # Errors
/// [`CliError::NoTopic`]
pub(super) fn text(topic: &[String]) -> Result<String, CliError> {
    let no_topic = || CliError::NoTopic(topic.join(" "));
    if topic.first().is_some_and(|first| first == SETTINGS_TOPIC) {
        let part = topic.get(1).map_or("", String::as_str);
        let part = part.to_lowercase().replace('-', "_");
        return match topic.len() {
            1 | 2 => settings(&part).ok_or_else(no_topic),
            _ => Err(no_topic()),
        };
    }
    let mut command = command();
    command.build();
    let mut found = &mut command;
    for name in topic {
        let next = found.find_subcommand_mut(name);
        found = next
            .filter(|command| !command.is_hide_set())
            .ok_or_else(no_topic)?;
    }
    let help = match topic {
        [] => found.render_help(),
        _ => found.render_long_help(),
    };
    Ok(help.to_string())
}

/// The settings whose names contain `part`; `None` if there are none.
fn settings(part: &str) -> Option<String> {
    let mut text =
        "Settings, for --set, for [paceline] in the configuration file, and as PACELINE_… in the environment:\n"
            .to_owned();
    let found: Vec<&Key> = keys().filter(|key| key.name.contains(part)).collect();
    for key in &found {
        // Writing to a String does not fail.
        let _ = writeln!(
            text,
            "  {}={}  ({})\n      {}",
            key.name,
            default_value(key),
            key.values(),
            key.meaning
        );
    }
    (!found.is_empty()).then_some(text)
}

/// The default of a setting, as `--set` takes it.
pub(super) fn default_value(key: &Key) -> String {
    let default = key.show(&Settings::default());
    default.trim_matches('"').to_owned()
}
