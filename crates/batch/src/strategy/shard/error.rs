//! Errors of a shard in the coordinator's terms: the names of its table and of its schema, and the position in the client's text.
//!
//! Names of indexes and of their constraints that begin with the name of the table, as those do that PostgreSQL chooses, begin with the
//! name of the partition instead. The CHECK constraints of the shard's table have the names of the coordinator's. Within the text of the
//! message only names in quotes are replaced, and only if the error says by its fields that it is about the table: a value that looks
//! like a name does not change.

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

/// The SQLSTATE of an error about a column that is NOT NULL.
const NOT_NULL: &str = "23502";

/// The SQLSTATEs of errors that end a wait: of a deadlock, of `lock_timeout`, and of `statement_timeout` or a cancel request.
const OF_WAITS: [&str; 3] = ["40P01", "55P03", "57014"];

/// The blanks between the quotes of French and a name.
const BLANKS: [char; 3] = [' ', '\u{a0}', '\u{202f}'];

/// Appends the `ErrorResponse` with this body as the coordinator would send it.
pub(super) fn write_error(body: &[u8], part: &ShardPart, out: &mut BytesMut) {
    let (own, partition) = (&part.table.own, &part.table.partition);
    let is_about_table =
        error_field(body, b't') == Some(&own.table) && error_field(body, b's') == Some(&own.schema);
    let is_of_wait = error_field(body, b'C').is_some_and(|code| OF_WAITS.contains(&code));
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
                b'M' if is_about_table => Some(renamed_message(text, body, part)),
                b'W' if is_of_wait => Some(renamed_context(text, &own.table, &partition.table)),
                _ => None,
            });
            out.put_u8(code);
            out.put_slice(changed.as_ref().map_or(value, String::as_bytes));
            out.put_u8(0);
        }
        out.put_u8(0);
    });
}

/// The message of an error about the table. It names the table, or one of its indexes, once; a column or a constraint may have the same
/// name.
fn renamed_message(message: &str, error: &[u8], part: &ShardPart) -> String {
    let (own, partition) = (&part.table.own.table, &part.table.partition.table);
    let of_table = || quoted_places(message, own);
    let index = error_field(error, b'n').unwrap_or_default();
    match error_field(error, b'C') {
        Some(UNIQUE | EXCLUSION) => {
            let place = quoted_places(message, index).next();
            with_name_at(message, place, index, &renamed(index, own, partition))
        }
        Some(NOT_NULL) if !names_table_first(message) => {
            with_name_at(message, of_table().last(), own, partition)
        }
        // The name of a CHECK constraint follows that of the table.
        _ => with_name_at(message, of_table().next(), own, partition),
    }
}

/// Whether a NOT NULL error names the table before its column: so it is in Chinese and Japanese.
fn names_table_first(message: &str) -> bool {
    let first = message.chars().next();
    first.is_some_and(|first| ('\u{3040}'..='\u{9fff}').contains(&first))
}

/// The places at which a text contains this name in quotes.
fn quoted_places(text: &str, name: &str) -> impl Iterator<Item = usize> {
    let places = text.match_indices(name);
    let places = places.filter(move |(place, _)| {
        let (before, rest) = text.split_at(*place);
        is_opened(before) && is_closed(rest.strip_prefix(name).unwrap_or_default())
    });
    places.map(|(place, _)| place)
}

/// Whether a text ends with an opening quote. PostgreSQL's translations have `"name"`, `»name«`, `«name»` and `« name »`.
fn is_opened(text: &str) -> bool {
    text.ends_with(['"', '»', '«']) || text.trim_end_matches(BLANKS).ends_with('«')
}

/// Whether a text begins with a closing quote.
fn is_closed(text: &str) -> bool {
    text.starts_with(['"', '«', '»']) || text.trim_start_matches(BLANKS).starts_with('»')
}

/// The text with another name at this place.
fn with_name_at(text: &str, place: Option<usize>, old: &str, new: &str) -> String {
    let mut text = text.to_owned();
    if let Some(place) = place {
        text.replace_range(place..place + old.len(), new);
    }
    text
}

/// The context of an error that ended a wait. If the wait was for a row, the first line names its tuple and, in quotes, the table or one of
/// its indexes (`XactLockTableWait` in PostgreSQL's `lmgr.c`); the error has no fields for them. Other lines may have values, each
/// after the number of its parameter.
fn renamed_context(context: &str, own: &str, partition: &str) -> String {
    let first = context.lines().next().unwrap_or_default();
    let mut places = first.match_indices(own).map(|(place, _)| place);
    let place = places.find(|place| {
        let (before, rest) = first.split_at(*place);
        let rest = rest.strip_prefix(own).unwrap_or_default();
        is_opened(before) && (is_closed(rest) || rest.starts_with('_')) && !before.contains('$')
    });
    with_name_at(context, place.filter(|_| has_tuple(first)), own, partition)
}

/// Whether a text contains the place of a tuple: two numbers with a comma between them.
fn has_tuple(text: &str) -> bool {
    let mut pairs = text.split(',').zip(text.split(',').skip(1));
    let is_digit = |char: char| char.is_ascii_digit();
    pairs.any(|(block, item)| block.ends_with(is_digit) && item.trim_start().starts_with(is_digit))
}

/// The name of an index of the partition, for that of the shard's table.
fn renamed<'a>(index: &'a str, own: &str, partition: &str) -> Cow<'a, str> {
    match index.strip_prefix(own) {
        Some(rest) if rest.starts_with('_') => Cow::Owned(format!("{partition}{rest}")),
        _ => Cow::Borrowed(index),
    }
}
