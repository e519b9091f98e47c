//! PolarDB's hot-row hints, as comments and in the older syntax without comments.
//!
//! `UPDATE /*+ COMMIT_ON_SUCCESS ROLLBACK_ON_FAIL TARGET_AFFECT_ROW(1) */ t SET …` and
//! `UPDATE COMMIT_ON_SUCCESS ROLLBACK_ON_FAIL TARGET_AFFECT_ROW 1 t SET …`.

#[cfg(test)]
mod tests;

use pg_query::protobuf::{ScanToken, Token};

use crate::parser::{self, is_comment, range_of, text_of};
use std::ops::Range;

/// Hints of one statement.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug)]
pub struct Hints {
    /// Commit the transaction if the statement succeeds.
    pub commit_on_success: bool,
    /// Roll back the transaction if the statement fails.
    pub rollback_on_fail: bool,
    /// The statement fails unless it affects exactly this number of rows.
    pub target_affect_row: Option<u64>,
    /// The server that a read should use.
    pub server: Option<ServerHint>,
}

/// The server that a read should use: `/*+ PRIMARY */` or `/*+ REPLICA */`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ServerHint {
    /// The primary.
    Primary,
    /// A replica that is fresh enough.
    Replica,
}

/// The words of the hints, in two parts: before and from the first underscore.
const WORDS: [(&str, &str); 3] = [
    ("commit", "_on_success"),
    ("rollback", "_on_fail"),
    ("target", "_affect_row"),
];

impl Hints {
    /// Reads one word. `rows` returns the number after it. Returns whether the word is a hint.
    fn read(&mut self, word: &str, rows: impl FnOnce() -> Option<u64>) -> bool {
        let is = |(before, from): &(&str, &str)| {
            let parts = word.split_at_checked(before.len());
            parts.is_some_and(|(one, other)| {
                one.eq_ignore_ascii_case(before) && other.eq_ignore_ascii_case(from)
            })
        };
        match WORDS.iter().position(is) {
            Some(0) => self.commit_on_success = true,
            Some(1) => self.rollback_on_fail = true,
            Some(_) => match rows() {
                Some(rows) => self.target_affect_row = Some(rows),
                None => return false,
            },
            None => return false,
        }
        true
    }

    /// Reads a word that is a hint only in a comment.
    fn read_server(&mut self, word: &str) {
        if word.eq_ignore_ascii_case("primary") {
            self.server = Some(ServerHint::Primary);
        } else if word.eq_ignore_ascii_case("replica") {
            self.server = Some(ServerHint::Replica);
        }
    }

    fn merge(&mut self, other: Hints) {
        self.commit_on_success |= other.commit_on_success;
        self.rollback_on_fail |= other.rollback_on_fail;
        self.target_affect_row = other.target_affect_row.or(self.target_affect_row);
        self.server = other.server.or(self.server);
    }
}

/// The hints in the comments of the text's last statement.
pub(crate) fn in_comments(sql: &str) -> Hints {
    let mut hints = Hints::default();
    if !sql.contains("/*+") {
        return hints;
    }
    let Ok(tokens) = parser::scan(sql) else {
        return hints;
    };
    let has_words = |tokens: &&[ScanToken]| !tokens.iter().all(is_comment);
    let last = split(&tokens).rfind(has_words).unwrap_or_default();
    for comment in hint_comments(last) {
        hints.merge(read_comment(text_of(sql, comment)));
    }
    hints
}

/// The hints in comments before and directly after the first word of a text with one statement. The rest of the text
/// is not scanned. A nested comment ends the search.
pub fn leading(sql: &str) -> Hints {
    let mut hints = Hints::default();
    let rest = read_leading(sql, &mut hints);
    let behind = rest.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let verb = rest.strip_suffix(behind).unwrap_or_default();
    let mut takes_hints = ["insert", "update", "delete", "select"].into_iter();
    if !takes_hints.any(|known| verb.eq_ignore_ascii_case(known)) {
        return Hints::default();
    }
    read_leading(behind, &mut hints);
    hints
}

/// Reads the comments at the start of a text; returns the text after them.
fn read_leading<'a>(text: &'a str, hints: &mut Hints) -> &'a str {
    let mut rest = text.trim_start();
    while let Some((inside, behind)) = block_comment(rest) {
        if inside.starts_with('+') {
            hints.merge(read_comment(&format!("/*{inside}*/")));
        }
        rest = behind.trim_start();
    }
    rest
}

/// Whether the text may contain hints outside of comments. A quick check by two byte scans: may return `true` for a
/// text without hints, but never `false` for one with them.
pub fn may_have_bare_hints(sql: &str) -> bool {
    may_hold_words(sql.as_bytes()) && may_follow_keyword(sql)
}

/// Removes hints outside of comments from a text: returns the text for PostgreSQL, with spaces in place of the hints
/// and all other bytes at their positions, and the hints of the last statement. `None` if the text contains no such
/// hints.
///
/// The words are not reserved: `UPDATE commit_on_success SET …` updates a table of that name. If another name
/// follows, as in `UPDATE COMMIT_ON_SUCCESS t SET …`, the word is a hint, although PostgreSQL would read an alias. A
/// client with a table of that name must write `AS`.
pub fn strip_bare_hints(sql: &str) -> Option<(String, Hints)> {
    if !may_have_bare_hints(sql) {
        return None;
    }
    let tokens = parser::scan(sql).ok()?;
    let mut words = Vec::new();
    let mut hints = Hints::default();
    let mut could_be_alias = false;
    for statement in split(&tokens) {
        let significant = without_comments(statement);
        if significant.is_empty() {
            continue;
        }
        hints = Hints::default();
        if let Some(keyword) = keyword_index(&significant) {
            let after = significant.get(keyword + 1..).unwrap_or_default();
            let count = read_words(sql, after, &mut hints);
            words.extend(after.iter().take(count).copied());
            could_be_alias |= count == 1 && after.get(1).is_some_and(|token| is_name(sql, token));
        }
    }
    if words.is_empty() || (!could_be_alias && parser::parse(sql).is_ok()) {
        return None;
    }
    let stripped = blank(sql, &words)?;
    let parses = parser::parse(&stripped).is_ok();
    parses.then_some((stripped, hints))
}

/// Whether a token is a name that may follow a hint or be an alias, and not the next keyword of the statement.
fn is_name(sql: &str, token: &ScanToken) -> bool {
    let text = text_of(sql, token);
    let starts = text.starts_with(|c: char| c.is_alphabetic() || c == '_' || c == '"');
    let mut keywords = ["set", "as", "from", "into", "using"].into_iter();
    starts && !keywords.any(|word| text.eq_ignore_ascii_case(word))
}

/// Whether a hint may directly follow the first word of the text. Returns `true` for texts of more than one
/// statement.
fn may_follow_keyword(sql: &str) -> bool {
    let several = sql.trim_end().trim_end_matches(';').contains(';');
    let rest = skip_blank(sql);
    let after = rest.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let next = skip_blank(after).as_bytes();
    let begins = |(before, from): &(&str, &str)| is_word_around(next, before.len(), before, from);
    let unusual = next.starts_with(b"--") || next.starts_with(b"/*");
    several || unusual || WORDS.iter().any(begins)
}

/// The text after white space and block comments; stops before nested or unterminated comments: the caller returns
/// `true` for a comment after the keyword.
fn skip_blank(text: &str) -> &str {
    let mut rest = text.trim_start();
    while let Some((_, behind)) = block_comment(rest) {
        rest = behind.trim_start();
    }
    rest
}

/// The content of the comment at the start of the text, and the text after it, unless the comment is nested or not
/// terminated.
fn block_comment(text: &str) -> Option<(&str, &str)> {
    let (inside, behind) = text.strip_prefix("/*")?.split_once("*/")?;
    (!inside.contains("/*")).then_some((inside, behind))
}

/// Whether the text contains one of the words. Scans once for an underscore, then compares the bytes around it.
fn may_hold_words(bytes: &[u8]) -> bool {
    let mut from = 0;
    let rest = |from: usize| bytes.get(from..).unwrap_or_default();
    while let Some(found) = rest(from).iter().position(|&byte| byte == b'_') {
        let at = from + found;
        if WORDS
            .iter()
            .any(|(before, word)| is_word_around(bytes, at, before, word))
        {
            return true;
        }
        from = at + 1;
    }
    false
}

/// Whether `before` ends and `from` begins at this position, in any case.
fn is_word_around(bytes: &[u8], at: usize, before: &str, from: &str) -> bool {
    let same = |range: Option<&[u8]>, word: &str| {
        range.is_some_and(|range| range.eq_ignore_ascii_case(word.as_bytes()))
    };
    let start = at.checked_sub(before.len());
    same(bytes.get(at..at + from.len()), from)
        && start.is_some_and(|start| same(bytes.get(start..at), before))
}

/// The text with the tokens replaced by spaces.
fn blank(sql: &str, words: &[&ScanToken]) -> Option<String> {
    let mut stripped = String::with_capacity(sql.len());
    let mut copied = 0;
    for word in words {
        let Range { start, end } = range_of(word);
        stripped.push_str(sql.get(copied..start)?);
        stripped.extend(std::iter::repeat_n(' ', end - start));
        copied = end;
    }
    stripped.push_str(sql.get(copied..)?);
    Some(stripped)
}

/// The tokens of each statement.
fn split(tokens: &[ScanToken]) -> impl DoubleEndedIterator<Item = &[ScanToken]> {
    tokens.split(|token| token.token() == Token::Ascii59)
}

fn without_comments(tokens: &[ScanToken]) -> Vec<&ScanToken> {
    tokens.iter().filter(|token| !is_comment(token)).collect()
}

fn is_dml(token: Token) -> bool {
    matches!(token, Token::Insert | Token::Update | Token::DeleteP)
}

/// Index of the INSERT, UPDATE or DELETE among a statement's tokens (without comments): the first token, or after a
/// WITH clause.
fn keyword_index(tokens: &[&ScanToken]) -> Option<usize> {
    let first = tokens.first()?.token();
    if is_dml(first) {
        return Some(0);
    }
    if first != Token::With {
        return None;
    }
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate() {
        match token.token() {
            Token::Ascii40 => depth += 1,
            Token::Ascii41 => depth = depth.saturating_sub(1),
            Token::Select | Token::Values | Token::Table | Token::Merge if depth == 0 => {
                return None;
            }
            dml if depth == 0 && is_dml(dml) => return Some(index),
            _ => {}
        }
    }
    None
}

/// The comments in which hints are read: directly after the statement's keyword, or before the statement.
fn hint_comments(statement: &[ScanToken]) -> Vec<&ScanToken> {
    let significant = without_comments(statement);
    // A SELECT may write through functions. (Words after SELECT that are no comment would be columns.)
    let first = significant.first().map(|token| token.token());
    let keyword = keyword_index(&significant).or((first == Some(Token::Select)).then_some(0));
    let Some(keyword) = keyword.and_then(|index| significant.get(index)) else {
        return Vec::new();
    };
    let leading = statement.iter().take_while(|token| is_comment(token));
    let following = statement
        .iter()
        .skip_while(|token| token.start <= keyword.start)
        .take_while(|token| is_comment(token));
    leading.chain(following).collect()
}

/// The hints in one comment. Other words are ignored: they may be hints for other programs.
fn read_comment(comment: &str) -> Hints {
    let mut hints = Hints::default();
    let Some(inside) = comment.strip_prefix("/*+") else {
        return hints;
    };
    let inside = inside.strip_suffix("*/").unwrap_or(inside);
    let mut words = inside
        .split(|character: char| !character.is_ascii_alphanumeric() && character != '_')
        .filter(|word| !word.is_empty())
        .peekable();
    while let Some(word) = words.next() {
        if !hints.read(word, || words.peek()?.parse().ok()) {
            hints.read_server(word);
        }
    }
    hints
}

/// Reads hints at the start of the tokens; returns the number of tokens read.
fn read_words(sql: &str, tokens: &[&ScanToken], hints: &mut Hints) -> usize {
    let mut count = 0;
    while let Some(token) = tokens.get(count) {
        let mut read = 1;
        let rows = || {
            let (rows, tokens) = read_rows(sql, tokens.get(count + 1..).unwrap_or_default())?;
            read += tokens;
            Some(rows)
        };
        if !hints.read(text_of(sql, token), rows) {
            break;
        }
        count += read;
    }
    count
}

/// Reads `1` or `(1)`: the number, and the number of tokens read.
fn read_rows(sql: &str, tokens: &[&ScanToken]) -> Option<(u64, usize)> {
    let bare = |token: &ScanToken| text_of(sql, token).parse::<u64>().ok();
    match tokens {
        [open, rows, close, ..]
            if open.token() == Token::Ascii40 && close.token() == Token::Ascii41 =>
        {
            Some((bare(rows)?, 3))
        }
        [rows, ..] => Some((bare(rows)?, 1)),
        [] => None,
    }
}
