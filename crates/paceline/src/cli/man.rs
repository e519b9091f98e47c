//! The man pages, for packages: `paceline.1`, a page for each command, and `paceline.toml.5`, which lists the settings.

use super::help::{command, default_value};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, italic, roman};
use paceline_config::keys;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The page that lists the settings.
const SETTINGS_PAGE: &str = "paceline.toml.5";

/// Writes the pages into a folder that exists, over files of the same names.
///
/// # Errors
/// A file cannot be written.
pub(crate) fn write_pages(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut command = command().disable_help_subcommand(true);
    command.build();
    let mut written = Vec::new();
    write_page(command, folder, &mut written)?;
    let settings = folder.join(SETTINGS_PAGE);
    fs::write(&settings, settings_page().render())?;
    written.push(settings);
    Ok(written)
}

/// Writes the page of a command and of its subcommands.
fn write_page(command: clap::Command, folder: &Path, written: &mut Vec<PathBuf>) -> io::Result<()> {
    for subcommand in command.get_subcommands() {
        if !subcommand.is_hide_set() && subcommand.get_name() != "help" {
            write_page(subcommand.clone(), folder, written)?;
        }
    }
    let man = Man::new(command).manual("Paceline");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    man.render_extra_section(&mut page)?;
    see_also().to_writer(&mut page)?;
    let path = folder.join(man.get_filename());
    fs::write(&path, page)?;
    written.push(path);
    Ok(())
}

fn see_also() -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["SEE ALSO"]);
    roff.text([
        bold("paceline"),
        roman("(1), "),
        bold("paceline.toml"),
        roman("(5)"),
    ]);
    roff
}

fn settings_page() -> Roff {
    let mut roff = Roff::new();
    roff.control("TH", ["paceline.toml", "5", "", "", "Paceline"]);
    roff.control("SH", ["NAME"]);
    roff.text([roman("paceline.toml - the configuration file of Paceline")]);
    roff.control("SH", ["DESCRIPTION"]);
    roff.text([
        roman("The table "),
        bold("[paceline]"),
        roman(" has the settings below. "),
        bold("--set"),
        italic(" KEY=VALUE"),
        roman(" and the environment variables "),
        bold("PACELINE_"),
        italic("KEY"),
        roman(" change them, too. The table "),
        bold("[databases."),
        italic("NAME"),
        bold("]"),
        roman(" names the server of a database as "),
        bold("primary"),
        roman(" = \"postgres://USER:PASSWORD@HOST:PORT/DATABASE\"; the name \"*\" is any other database. "),
        bold("paceline check"),
        italic(" FILE"),
        roman(" checks a file and starts nothing."),
    ]);
    roff.control("SH", ["SETTINGS"]);
    for key in keys() {
        roff.control("TP", []);
        roff.text([bold(key.name), roman(format!(" = {}", default_value(key)))]);
        roff.text([roman(format!("{} ({})", key.meaning, key.values()))]);
    }
    roff.extend([see_also()]);
    roff
}
