//! Errors of a shard in the coordinator's terms: the names of its table and of its schema, and the position in the client's text.
//!
//! Names of indexes and of their constraints that begin with the name of the table, as those do that PostgreSQL chooses, begin with the
//! name of the partition instead. The CHECK constraints of the shard's table have the names of the coordinator's. Within the text of the message only names in double quotes are replaced, and only if the error says by
//! its fields that it is about the table: a value that looks like a name does not change.

use super::table::ShardPart;
use bytes::{BufMut, BytesMut};
use paceline_wire::backend::{error_field, tag};
use paceline_wire::frame;
use paceline_wire::reader::Reader;
use std::borrow::Cow;

#[cfg(test)]
mod tests;

/// The SQLSTATEs of errors about an index: that of a unique or of an exclusion constraint.
const UNIQUE: &str = "23505";
const EXCLUSION: &str = "23P01";

/// Appends the `ErrorResponse` with this body as the coordinator would send it.
pub(super) fn write_error(body: &[u8], part: &ShardPart, out: &mut BytesMut) {
    let (own, partition) = (&part.table.own, &part.table.partition);
    let is_about_table =
        error_field(body, b't') == Some(&own.table) && error_field(body, b's') == Some(&own.schema);
    let of_index = matches!(error_field(body, b'C'), Some(UNIQUE | EXCLUSION));
    frame::write(out, tag::ERROR_RESPONSE, |out| {
        let mut fields = Reader::new(body);
        while let (Ok(code @ 1..), Ok(value)) = (fields.u8(), fields.cstr()) {
            let text = std::str::from_utf8(value).ok();
            let changed = text.and_then(|text| match code {
                b'P' => {
                    let position = text.parse().ok()?;
                    Some(part.replaced.back(position).to_string())
                }
                b's' if is_about_table => Some(partition.schema.clone()),
                b't' if is_about_table => Some(partition.table.clone()),
                b'n' if is_about_table && of_index => {
                    Some(renamed(text, &own.table, &partition.table).into())
                }
                b'M' if is_about_table => {
                    let constraint = error_field(body, b'n').filter(|_| of_index);
                    Some(match constraint {
                        None => text.replace(&quoted(&own.table), &quoted(&partition.table)),
                        Some(constraint) => {
                            let new = renamed(constraint, &own.table, &partition.table);
                            text.replace(&quoted(constraint), &quoted(&new))
                        }
                    })
                }
                b'W' => Some(renamed_context(text, &own.table, &partition.table)),
                _ => None,
            });
            out.put_u8(code);
            out.put_slice(changed.as_ref().map_or(value, String::as_bytes));
            out.put_u8(0);
        }
        out.put_u8(0);
    });
}

/// The context with the name of the partition in the lines that end with the name of the locked table (`XactLockTableWait` in
/// PostgreSQL's `lmgr.c`). The error has no fields for it.
fn renamed_context(context: &str, own: &str, partition: &str) -> String {
    let ending = |name| format!(" in relation {}", quoted(name));
    let line = |line: &str| match line.strip_suffix(&ending(own)) {
        Some(rest) if rest.starts_with("while ") => format!("{rest}{}", ending(partition)),
        _ => line.to_owned(),
    };
    let lines: Vec<String> = context.split('\n').map(line).collect();
    lines.join("\n")
}

fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}

/// The name of an index of the partition, for that of the shard's table.
fn renamed<'a>(index: &'a str, own: &str, partition: &str) -> Cow<'a, str> {
    match index.strip_prefix(own) {
        Some(rest) if rest.starts_with('_') => Cow::Owned(format!("{partition}{rest}")),
        _ => Cow::Borrowed(index),
    }
}
