//! Whether a request must change an exact number of rows (`TARGET_AFFECT_ROW`).

use super::ClientSession;
use crate::template::{Templates, Unparsed, beginning_of_long};
use bytes::Bytes;
use paceline_wire::frontend::{BindNames, Parse, tag};
use paceline_wire::reader::Reader;
use paceline_wire::{Frame, Frames};

impl ClientSession {
    /// Whether a statement of the request has the hint `TARGET_AFFECT_ROW` and the request begins no transaction block
    /// before it. (The block of the client fails with the statement.)
    ///
    /// # Errors
    /// A text must be parsed first.
    pub fn is_targeted(&self, bytes: &Bytes, templates: &Templates) -> Result<bool, Unparsed> {
        for frame in Frames::new(bytes) {
            if self.begins_block(frame) {
                return Ok(false);
            }
            let targeted = match frame.tag {
                tag::QUERY => {
                    let text = Reader::new(frame.body()).cstr().unwrap_or_default();
                    is_targeted_text(text, templates)?
                }
                tag::PARSE => {
                    let text = Parse::read(frame.body()).map(|parse| parse.text);
                    is_targeted_text(text.unwrap_or_default(), templates)?
                }
                tag::BIND => BindNames::read(frame.body()).is_ok_and(|names| {
                    let template = self.statements.get(names.statement);
                    template.is_some_and(|t| t.hints().target_affect_row.is_some())
                }),
                _ => false,
            };
            if targeted {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the message parses or binds a statement that begins a transaction block.
    fn begins_block(&self, frame: Frame<'_>) -> bool {
        match frame.tag {
            tag::PARSE => Parse::read(frame.body()).is_ok_and(|parse| {
                let text = parse.text.trim_ascii_start();
                let begins = |word: &[u8]| {
                    text.get(..word.len())
                        .is_some_and(|start| start.eq_ignore_ascii_case(word))
                };
                begins(b"begin") || begins(b"start")
            }),
            tag::BIND => BindNames::read(frame.body()).is_ok_and(|names| {
                let template = self.statements.get(names.statement);
                template.is_some_and(|t| t.statement.as_ref().is_some_and(|s| s.begins))
            }),
            _ => false,
        }
    }
}

/// Whether the text is one statement with the hint `TARGET_AFFECT_ROW`.
fn is_targeted_text(text: &[u8], templates: &Templates) -> Result<bool, Unparsed> {
    let text = std::str::from_utf8(text).unwrap_or_default();
    if let Some(beginning) = beginning_of_long(text) {
        let hints = paceline_sql::leading_hints(beginning);
        return Ok(hints.target_affect_row.is_some());
    }
    // Only texts with this word can have the hint.
    if !text.to_ascii_lowercase().contains("target_affect_row") {
        return Ok(false);
    }
    let template = templates.try_prepared(&templates.try_plain(text)?, &[0, 0])?;
    let statement = template.statement.as_ref();
    let one = statement.is_none_or(|s| s.statements == 1);
    Ok(one && template.hints().target_affect_row.is_some())
}
