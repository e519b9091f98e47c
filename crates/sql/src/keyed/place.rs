//! The position of the table's name in a text, and the text with another table there.

use super::refusal::KeyedRefusal;
use crate::literals::{Literal, LiteralKind};
use crate::parser::{is_comment, range_of, scan};
use crate::quote::quote_ident;
use pg_query::protobuf::{RangeVar, Token};
use std::ops::Range;

/// The position of the table's name in a text.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Place {
    range: Range<usize>,
    /// The text there.
    name: String,
    /// The name by which the rest of the text refers to the table, if the text gives no alias.
    alias: Option<String>,
    pub(super) parameters_before: usize,
}

/// A text with another table in place of the one that it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// The text.
    pub text: String,
    /// The difference to the client's text.
    pub replaced: Replaced,
}

/// The difference of a text to the client's, in characters, as errors count them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replaced {
    /// The characters in front of the name of the table.
    before: usize,
    /// Length of the client's name of the table.
    old: usize,
    /// Length of the name that replaces it.
    new: usize,
}

impl Place {
    /// The place of the only table of a text.
    pub(super) fn of(sql: &str, relation: &RangeVar) -> Result<Self, KeyedRefusal> {
        let start = usize::try_from(relation.location).map_err(|_| KeyedRefusal::NotParsed)?;
        let tokens = scan(sql).map_err(|_| KeyedRefusal::NotParsed)?;
        let is_before = |token: &&_| range_of(token).start < start;
        let before = tokens.iter().take_while(is_before);
        let parameters_before = before.filter(|token| token.token() == Token::Param).count();
        let significant = tokens.iter().filter(|token| !is_comment(token));
        let mut name = significant.filter(|token| range_of(token).start >= start);
        // schema . table
        let parts = if relation.schemaname.is_empty() { 1 } else { 3 };
        let last = name.nth(parts - 1).ok_or(KeyedRefusal::NotParsed)?;
        if name
            .next()
            .is_some_and(|next| next.token() == Token::Ascii42)
        {
            // `accounts *`: an alias would have to be behind it.
            return Err(KeyedRefusal::Only);
        }
        let range = start..range_of(last).end;
        let name = sql.get(range.clone()).ok_or(KeyedRefusal::NotParsed)?;
        Ok(Self {
            name: name.to_owned(),
            range,
            alias: match &relation.alias {
                Some(_) => None,
                None => Some(relation.relname.clone()),
            },
            parameters_before,
        })
    }

    /// See [`KeyedStatement::on`](super::KeyedStatement::on).
    pub(super) fn moved(
        &self,
        sql: &str,
        shift: isize,
        schema: &str,
        table: &str,
    ) -> Option<Moved> {
        let start = self.range.start.checked_add_signed(shift)?;
        let end = self.range.end.checked_add_signed(shift)?;
        let (before, name, after) = (sql.get(..start)?, sql.get(start..end)?, sql.get(end..)?);
        if name != self.name {
            return None;
        }
        let mut text = format!("{before}{}.{}", quote_ident(schema), quote_ident(table));
        if let Some(alias) = &self.alias {
            text.push_str(" AS ");
            text.push_str(&quote_ident(alias));
        }
        let new = text.get(start..)?.chars().count();
        text.push_str(after);
        Some(Moved {
            replaced: Replaced {
                before: before.chars().count(),
                old: name.chars().count(),
                new,
            },
            text,
        })
    }
}

impl Replaced {
    /// The position in the client's text for one in the other text. Both begin at 1.
    pub fn back(self, position: usize) -> usize {
        match position.checked_sub(self.before + 1) {
            // In front of the name.
            None => position,
            Some(inside) if inside < self.new => self.before + 1,
            Some(_) => position - self.new + self.old,
        }
    }
}

/// The distance by which a position is farther behind in the original text than in the one without these literals, if this many of the
/// literals are in front of it. May be negative.
pub fn in_original(literals: &[Literal], before: usize) -> isize {
    let taken = literals.iter().take(before).enumerate();
    let longer = taken.map(|(index, literal)| {
        let placeholder = 1 + decimal_digits(index + 1);
        written_len(literal).cast_signed() - placeholder.cast_signed()
    });
    longer.sum()
}

/// Length of a literal in the text.
fn written_len(literal: &Literal) -> usize {
    match literal.kind {
        LiteralKind::Unknown => {
            2 + literal.text.len() + literal.text.bytes().filter(|byte| *byte == b'\'').count()
        }
        LiteralKind::Int4 | LiteralKind::Int8 | LiteralKind::Numeric => literal.text.len(),
    }
}

fn decimal_digits(number: usize) -> usize {
    number.checked_ilog10().unwrap_or_default() as usize + 1
}
