//! The lines of a `pgbouncer.ini`: sections, `key = value`, comments, `%include`. Nothing here knows what a key means.

use super::diagnostics::Diagnostics;
use super::source_line::SourceLine;
use crate::error::IniError;
use std::sync::Arc;

/// Maximum depth of `%include`, as in PgBouncer.
const INCLUDE_DEPTH_MAX: usize = 10;

/// A line that is neither empty nor a comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) place: SourceLine,
    pub(super) content: Content,
}

/// The content of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Content {
    /// `[name]`.
    Section(String),
    /// `key = value`, without the spaces around them and the quotes around the key.
    Assignment { key: String, value: String },
}

/// Reads `text` and the files that it includes. Notes each problem and continues with the next line.
pub(super) fn read(text: &str, file: &str, diagnostics: &mut Diagnostics) -> Vec<Line> {
    let mut reader = Reader {
        lines: Vec::new(),
        files: 0,
        diagnostics,
    };
    reader.file(text, &Arc::from(file), 0);
    reader.lines
}

struct Reader<'a> {
    lines: Vec<Line>,
    /// Number of files begun so far.
    files: usize,
    diagnostics: &'a mut Diagnostics,
}

impl Reader<'_> {
    fn file(&mut self, text: &str, file: &Arc<str>, depth: usize) {
        let order = self.files;
        self.files += 1;
        for (number, text) in (1..).zip(text.lines()) {
            let place = SourceLine {
                order,
                file: Arc::clone(file),
                line: number,
            };
            match include(text) {
                Some(name) => self.include(name, &place, depth),
                None => self.line(text, place),
            }
        }
    }

    fn include(&mut self, name: &str, place: &SourceLine, depth: usize) {
        if depth >= INCLUDE_DEPTH_MAX {
            let most = INCLUDE_DEPTH_MAX;
            return self.note(place, IniError::IncludeDepth(most));
        }
        match std::fs::read_to_string(name) {
            Ok(text) => self.file(&text, &Arc::from(name), depth + 1),
            Err(error) => self.note(
                place,
                IniError::Include {
                    file: name.to_owned(),
                    reason: error.to_string(),
                },
            ),
        }
    }

    fn line(&mut self, text: &str, place: SourceLine) {
        let text = text.trim();
        if text.is_empty() || text.starts_with(['#', ';']) {
            return;
        }
        let Some(section) = text.strip_prefix('[') else {
            return match assignment(text) {
                Some(content) => self.lines.push(Line { place, content }),
                None => self.note(&place, IniError::NotAssigned),
            };
        };
        let Some((name, rest)) = section.split_once(']') else {
            return self.note(&place, IniError::UnclosedSection);
        };
        let content = Content::Section(name.to_owned());
        self.lines.push(Line {
            place: place.clone(),
            content,
        });
        // PgBouncer also reads the text after the bracket.
        self.line(rest, place);
    }

    fn note(&mut self, place: &SourceLine, wrong: IniError) {
        self.diagnostics.wrong(place, wrong);
    }
}

/// The file that the line `%include FILE` names.
fn include(text: &str) -> Option<&str> {
    let rest = text.trim_start().strip_prefix("%include")?;
    rest.starts_with([' ', '\t']).then(|| rest.trim())
}

fn assignment(text: &str) -> Option<Content> {
    let (key, rest) = match text.strip_prefix('"') {
        Some(quoted) => unquote(quoted, '"')?,
        None => bare(text),
    };
    let value = rest.trim_start().strip_prefix('=')?;
    let value = value.trim().to_owned();
    (!key.is_empty()).then_some(Content::Assignment { key, value })
}

/// Splits a key without quotes from the text after it.
fn bare(text: &str) -> (String, &str) {
    let part_of_key = |c: char| c.is_ascii_alphanumeric() || "_.-*".contains(c);
    let ends = text.find(|c| !part_of_key(c)).unwrap_or(text.len());
    let (key, rest) = text.split_at_checked(ends).unwrap_or((text, ""));
    (key.to_owned(), rest)
}

/// Reads up to the closing quote; two quotes represent one. Returns the content and the text after it, `None` if no quote closes it.
pub(super) fn unquote(text: &str, quote: char) -> Option<(String, &str)> {
    let mut content = String::new();
    let mut rest = text;
    loop {
        let (before, behind) = rest.split_once(quote)?;
        content.push_str(before);
        match behind.strip_prefix(quote) {
            Some(behind) => {
                content.push(quote);
                rest = behind;
            }
            None => return Some((content, behind)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sections in brackets, the others as `key=value`, each with its line.
    fn shown(text: &str) -> Vec<String> {
        let mut diagnostics = Diagnostics::default();
        let lines = read(text, "p.ini", &mut diagnostics);
        diagnostics.into_remarks().unwrap();
        let show = |line: Line| match line.content {
            Content::Section(name) => format!("{} [{name}]", line.place.line),
            Content::Assignment { key, value } => format!("{} {key}={value}", line.place.line),
        };
        lines.into_iter().map(show).collect()
    }

    fn refused(text: &str) -> Vec<String> {
        let mut diagnostics = Diagnostics::default();
        read(text, "p.ini", &mut diagnostics);
        let error = diagnostics.into_remarks().unwrap_err().to_string();
        error.lines().map(str::to_owned).collect()
    }

    #[test]
    fn sections_comments_and_assignments_are_distinguished() {
        let text = "; a comment\n# another\n\n[pgbouncer] ; and one here\r\n listen_port=6432 \r\n\tauth_query = SELECT '#', 1; -- x\nuser =\n[x]y = 1";
        assert_eq!(
            shown(text),
            [
                "4 [pgbouncer]",
                "5 listen_port=6432",
                "6 auth_query=SELECT '#', 1; -- x",
                "7 user=",
                "8 [x]",
                "8 y=1",
            ]
        );
    }

    #[test]
    fn names_are_quoted_as_in_sql() {
        assert_eq!(
            shown("* = host=a\n\"my \"\"db\"\"\" = host=b=c\na.b-c_1 = x"),
            ["1 *=host=a", "2 my \"db\"=host=b=c", "3 a.b-c_1=x"]
        );
    }

    #[test]
    fn malformed_lines_are_reported_with_their_number() {
        for text in [
            "words only",
            "my db = host=a",
            "\"open = 1",
            "= 1",
            "\"\" = 1",
            "%includes x",
        ] {
            let problems = refused(&format!("\n{text}\nx = 1"));
            assert_eq!(problems.len(), 1, "{text}: {problems:?}");
            assert!(problems[0].starts_with("p.ini:2: this is not a section"));
        }
        assert!(refused("[pgbouncer")[0].contains("does not end"));
    }

    #[test]
    fn files_are_included_at_their_position() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner.ini");
        std::fs::write(&inner, "b = 2\n[databases]\n").unwrap();
        let text = format!("[pgbouncer]\na = 1\n%include {}  \nc = 3", inner.display());
        assert_eq!(
            shown(&text),
            ["1 [pgbouncer]", "2 a=1", "1 b=2", "2 [databases]", "4 c=3"]
        );
        let lines = read(&text, "p.ini", &mut Diagnostics::default());
        assert_eq!(lines[2].place.to_string(), format!("{}:1", inner.display()));
    }

    #[test]
    fn a_file_that_includes_itself_is_found_out() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("loop.ini");
        let text = format!("%include {}", file.display());
        std::fs::write(&file, &text).unwrap();
        let problems = refused(&text);
        assert_eq!(problems.len(), 1);
        assert!(
            problems[0].ends_with(
                "%include is nested more than 10 levels deep; does a file include itself?"
            )
        );
        assert!(
            refused("%include /nowhere/x.ini")[0]
                .starts_with("p.ini:1: cannot read /nowhere/x.ini: ")
        );
    }
}
