//! The keys `password_file` and `password_command`.

use super::reader::Reader;
use crate::error::ConfigProblem;
use crate::password::{PasswordCommand, PasswordSource};
use crate::{secret, value};
use toml::Spanned;
use toml::de::DeValue;

/// The source that one of the two keys names; `None` if it is `""` for none, or wrong, which is noted.
pub(super) fn source(
    reader: &mut Reader,
    key: &str,
    written: &Spanned<DeValue<'_>>,
) -> Option<PasswordSource> {
    match key {
        "password_file" => in_file(reader, written),
        _ => by_command(reader, written),
    }
}

fn in_file(reader: &mut Reader, written: &Spanned<DeValue<'_>>) -> Option<PasswordSource> {
    let file = reader.value("password_file", written, value::file)??;
    let exposed = secret::exposed(&file);
    let at = written.span().start;
    reader.remarks.extend(exposed.map(|remark| (at, remark)));
    let source = PasswordSource::checked_file(file);
    reader.check(written, source.map_err(ConfigProblem::PasswordFile))
}

fn by_command(reader: &mut Reader, written: &Spanned<DeValue<'_>>) -> Option<PasswordSource> {
    let words = reader.value("password_command", written, value::words)?;
    let command = PasswordCommand::checked(&words).map(PasswordSource::Command);
    reader.check(written, command.map_err(ConfigProblem::PasswordCommand))
}
