//! PolarDB's hot-row hints, as comments and in the older syntax without comments.
//!
//! `UPDATE /*+ COMMIT_ON_SUCCESS ROLLBACK_ON_FAIL TARGET_AFFECT_ROW(1) */ t SET …` and
//! `UPDATE COMMIT_ON_SUCCESS ROLLBACK_ON_FAIL TARGET_AFFECT_ROW 1 t SET …`.

#[cfg(test)]
mod tests;

use pg_query::protobuf::{ScanToken, Token};

use crate::parser;

/// Hints of one statement.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug)]
pub struct Hints {
    /// Commit the transaction if the statement succeeds.
    pub commit_on_success: bool,
    /// Roll back the transaction if the statement fails.
    pub rollback_on_fail: bool,
    /// The statement fails unless it affects exactly this number of rows.
    pub target_affect_row: Option<u64>,
}

impl Hints {
    fn merge(&mut self, other: Hints) {
        self.commit_on_success |= other.commit_on_success;
        self.rollback_on_fail |= other.rollback_on_fail;
        self.target_affect_row = other.target_affect_row.or(self.target_affect_row);
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
    let statements = split(&tokens);
    let Some(last) = statements
        .iter()
        .rev()
        .find(|tokens| tokens.iter().any(|token| !is_comment(token)))
    else {
        return hints;
    };
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
    let verb = rest.len()
        - rest
            .trim_start_matches(|c: char| c.is_ascii_alphabetic())
            .len();
    let (verb, behind) = rest.split_at(verb);
    let takes_hints = ["insert", "update", "delete", "select"];
    if !takes_hints
        .iter()
        .any(|known| verb.eq_ignore_ascii_case(known))
    {
        return Hints::default();
    }
    read_leading(behind, &mut hints);
    hints
}

/// Reads the comments at the start of a text; returns the text after them.
fn read_leading<'a>(text: &'a str, hints: &mut Hints) -> &'a str {
    let mut rest = text.trim_start();
    while let Some(opened) = rest.strip_prefix("/*")
        && let Some((inside, behind)) = opened.split_once("*/")
        && !inside.contains("/*")
    {
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
        let significant: Vec<&ScanToken> = statement
            .iter()
            .filter(|token| !is_comment(token))
            .collect();
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
    parser::parse(&stripped)
        .is_ok()
        .then_some((stripped, hints))
}

/// Whether a token is a name that may follow a hint or be an alias, and not the next keyword of the statement.
fn is_name(sql: &str, token: &ScanToken) -> bool {
    let range = usize::try_from(token.start)
        .ok()
        .zip(usize::try_from(token.end).ok());
    let text = range
        .and_then(|(start, end)| sql.get(start..end))
        .unwrap_or_default();
    let starts = text.starts_with(|c: char| c.is_alphabetic() || c == '_' || c == '"');
    starts
        && !["set", "as", "from", "into", "using"]
            .iter()
            .any(|word| text.eq_ignore_ascii_case(word))
}

/// Whether a hint may directly follow the first word of the text. Returns `true` for texts of more than one
/// statement.
fn may_follow_keyword(sql: &str) -> bool {
    let several = sql.trim_end().trim_end_matches(';').contains(';');
    let rest = skip_blank(sql);
    let after = rest.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let next = skip_blank(after).as_bytes();
    let words: [&[u8]; 3] = [
        b"commit_on_success",
        b"rollback_on_fail",
        b"target_affect_row",
    ];
    let unusual = next.starts_with(b"--") || next.starts_with(b"/*");
    several
        || unusual
        || words.iter().any(|word| {
            next.get(..word.len())
                .is_some_and(|found| found.eq_ignore_ascii_case(word))
        })
}

/// The text after white space and block comments; stops before nested or unterminated comments.
fn skip_blank(text: &str) -> &str {
    let mut rest = text.trim_start();
    while let Some(comment) = rest.strip_prefix("/*") {
        let end = comment.find("*/");
        let Some(inside) = end.and_then(|end| comment.get(..end)) else {
            return rest;
        };
        if inside.contains("/*") {
            // A nested comment: the caller returns `true`, because a comment follows the keyword.
            return rest;
        }
        rest = comment
            .get(inside.len() + 2..)
            .unwrap_or_default()
            .trim_start();
    }
    rest
}

/// Whether the text contains one of the words. Scans once for an underscore, then compares the bytes around it.
fn may_hold_words(bytes: &[u8]) -> bool {
    let mut from = 0;
    while let Some(found) = bytes
        .get(from..)
        .and_then(|rest| rest.iter().position(|&byte| byte == b'_'))
    {
        let at = from + found;
        if is_word_around(bytes, at, b"commit", b"_on_success")
            || is_word_around(bytes, at, b"rollback", b"_on_fail")
            || is_word_around(bytes, at, b"target", b"_affect_row")
        {
            return true;
        }
        from = at + 1;
    }
    false
}

fn is_word_around(bytes: &[u8], at: usize, before: &[u8], from: &[u8]) -> bool {
    let same = |range: Option<&[u8]>, word: &[u8]| {
        range.is_some_and(|range| range.eq_ignore_ascii_case(word))
    };
    same(bytes.get(at..at + from.len()), from)
        && at
            .checked_sub(before.len())
            .is_some_and(|start| same(bytes.get(start..at), before))
}

/// The text with the tokens replaced by spaces.
fn blank(sql: &str, words: &[&ScanToken]) -> Option<String> {
    let mut stripped = String::with_capacity(sql.len());
    let mut copied = 0;
    for word in words {
        let (start, end) = range_of(word);
        stripped.push_str(sql.get(copied..start)?);
        stripped.extend(std::iter::repeat_n(' ', end - start));
        copied = end;
    }
    stripped.push_str(sql.get(copied..)?);
    Some(stripped)
}

/// The tokens of each statement.
fn split(tokens: &[ScanToken]) -> Vec<&[ScanToken]> {
    tokens
        .split(|token| token.token() == Token::Ascii59)
        .collect()
}

fn is_comment(token: &ScanToken) -> bool {
    matches!(token.token(), Token::CComment | Token::SqlComment)
}

fn is_dml(token: Token) -> bool {
    matches!(token, Token::Insert | Token::Update | Token::DeleteP)
}

fn range_of(token: &ScanToken) -> (usize, usize) {
    let start = usize::try_from(token.start).unwrap_or(0);
    (start, usize::try_from(token.end).unwrap_or(0).max(start))
}

fn text_of<'a>(sql: &'a str, token: &ScanToken) -> &'a str {
    let (start, end) = range_of(token);
    sql.get(start..end).unwrap_or("")
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
    let significant: Vec<&ScanToken> = statement
        .iter()
        .filter(|token| !is_comment(token))
        .collect();
    // A SELECT may write through functions. (Words after SELECT that are no comment would be columns.)
    let selects = || {
        significant
            .first()
            .is_some_and(|t| t.token() == Token::Select)
    };
    let keyword = keyword_index(&significant).or_else(|| selects().then_some(0));
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
        if word.eq_ignore_ascii_case("commit_on_success") {
            hints.commit_on_success = true;
        } else if word.eq_ignore_ascii_case("rollback_on_fail") {
            hints.rollback_on_fail = true;
        } else if word.eq_ignore_ascii_case("target_affect_row")
            && let Some(rows) = words.peek().and_then(|rows| rows.parse().ok())
        {
            hints.target_affect_row = Some(rows);
        }
    }
    hints
}

/// Reads hints at the start of the tokens; returns the number of tokens read.
fn read_words(sql: &str, tokens: &[&ScanToken], hints: &mut Hints) -> usize {
    let mut count = 0;
    while let Some(token) = tokens.get(count) {
        let word = text_of(sql, token);
        if word.eq_ignore_ascii_case("commit_on_success") {
            hints.commit_on_success = true;
            count += 1;
        } else if word.eq_ignore_ascii_case("rollback_on_fail") {
            hints.rollback_on_fail = true;
            count += 1;
        } else if word.eq_ignore_ascii_case("target_affect_row")
            && let Some((rows, tokens)) =
                read_rows(sql, tokens.get(count + 1..).unwrap_or_default())
        {
            hints.target_affect_row = Some(rows);
            count += 1 + tokens;
        } else {
            break;
        }
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
