//! `pgbouncer.ini`, read without changes. The reader turns it into the text of a `paceline.toml` and reads that like any other, so
//! that the same code checks the values of both kinds of file.
//!
//! Defaults are PgBouncer's. If Paceline has no such key, the reader accepts it with a remark, or reports an error if an operator may
//! rely on it for safety. The mapping of each key: [`known`], `docs/from-pgbouncer.md`.

mod conversion;
mod diagnostics;
mod known;
mod lines;
mod pairs;
mod sections;
mod server;
mod settings;
mod source_line;
#[cfg(test)]
mod tests;
mod toml_writer;

pub use known::{Mapping, pgbouncer_mapping};
pub(crate) use toml_writer::Passwords;

use crate::config::Config;
use crate::error::{ConfigError, IniError};
use crate::file;
use crate::remark::Remark;
use conversion::Conversion;
use diagnostics::Diagnostics;
use lines::{Content, Line};
use settings::{Main, Section};
use source_line::SourceLine;
use std::collections::BTreeMap;
use std::path::Path;
use toml_writer::TomlWriter;

/// The section of the settings.
const MAIN: &str = "pgbouncer";

/// A `pgbouncer.ini` as lines of TOML.
pub(super) struct Ini {
    writer: TomlWriter,
    file: String,
    /// Remarks for the operator.
    pub(super) remarks: Vec<Remark>,
}

/// Whether the file at `path` with this `text` is a `pgbouncer.ini`: by its name, or, if that is neither `.ini` nor `.toml`, by a
/// section or directive that only such a file has.
pub(super) fn is_ini(path: &Path, text: &str) -> bool {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("ini") => true,
        Some("toml") => false,
        _ => text.lines().map(str::trim_start).any(|line| {
            line.starts_with("[pgbouncer]") || line.starts_with(';') || line.starts_with("%include")
        }),
    }
}

/// Reads the text of a `pgbouncer.ini`. Messages call it `file`.
///
/// # Errors
/// [`ConfigError::Invalid`] with every problem, each with its line.
pub(super) fn read(text: &str, file: &str) -> Result<Ini, ConfigError> {
    let mut conversion = Conversion::default();
    let lines = lines::read(text, file, &mut conversion.diagnostics);
    let sections = Sections::sort(lines, file, &mut conversion.diagnostics);
    sections.main.convert(&mut conversion);
    sections::databases(&sections.databases, &sections.main, &mut conversion);
    sections::users(&sections.users, &mut conversion);
    sections::peers(&sections.peers, &sections.main, &mut conversion);
    Ok(Ini {
        writer: conversion.toml,
        file: file.to_owned(),
        remarks: conversion.diagnostics.into_remarks()?,
    })
}

impl Ini {
    /// The configuration, and remarks for the operator.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] if values do not fit their keys, each with its line.
    pub(super) fn config(&self) -> Result<(Config, Vec<Remark>), ConfigError> {
        let written = self.writer.write(Passwords::Open);
        let place = |line| written.place(line).unwrap_or_else(|| self.file.clone());
        let (config, remarks) = file::read(&written.text, &place)?;
        Ok((config, [self.remarks.clone(), remarks].concat()))
    }

    /// The text of a `paceline.toml` that means the same.
    pub(super) fn toml(&self, passwords: Passwords<'_>) -> String {
        self.writer.write(passwords).text
    }

    /// The databases whose server has a password, and the password.
    pub(super) fn passwords(&self) -> impl Iterator<Item = (&str, &str)> {
        let servers = self.writer.servers_with_password();
        servers.filter_map(|server| Some((server.database.as_str(), server.password.as_deref()?)))
    }
}

/// The lines by section.
struct Sections {
    main: Main,
    databases: Section,
    users: Section,
    peers: Section,
}

impl Sections {
    fn sort(lines: Vec<Line>, file: &str, diagnostics: &mut Diagnostics) -> Sections {
        let mut sections: BTreeMap<String, Section> = BTreeMap::new();
        let (mut current, mut header) = (None, None);
        for Line { place, content } in lines {
            match content {
                Content::Section(name) => {
                    if name == MAIN {
                        header.get_or_insert_with(|| place.clone());
                    }
                    check_header(&name, &sections, &place, diagnostics);
                    current = Some(name);
                }
                Content::Assignment { key, value } => match &current {
                    Some(name) => {
                        let section = sections.entry(name.clone()).or_default();
                        section.insert(key, (value, place));
                    }
                    None => diagnostics.wrong(&place, IniError::NoSection(key)),
                },
            }
        }
        let header = header.unwrap_or_else(|| {
            let place = SourceLine::start(file);
            diagnostics.wrong(&place, IniError::NoMainSection);
            place
        });
        if sections.get("databases").is_none_or(Section::is_empty) {
            diagnostics.wrong(&header, IniError::NoDatabase);
        }
        // The error about an unknown section covers the lines below it.
        let mut section = |name| sections.remove(name).unwrap_or_default();
        Sections {
            main: Main::new(section(MAIN), header),
            databases: section("databases"),
            users: section("users"),
            peers: section("peers"),
        }
    }
}

fn check_header(
    name: &str,
    before: &BTreeMap<String, Section>,
    place: &SourceLine,
    diagnostics: &mut Diagnostics,
) {
    match name {
        MAIN if before.contains_key(MAIN) => diagnostics.wrong(place, IniError::SecondSection),
        MAIN | "databases" | "users" | "peers" => {}
        _ => {
            let name = name.to_owned();
            diagnostics.wrong(place, IniError::UnknownSection(name));
        }
    }
}
