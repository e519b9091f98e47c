//! The bounds of a partition, as `pg_get_expr` writes them.

#[cfg(test)]
mod tests;

/// The bounds of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Bound {
    Default,
    Hash { modulus: u64, remainder: u64 },
    List(Vec<Limit>),
    Range { from: Vec<Limit>, to: Vec<Limit> },
}

/// A value in a bound, or the end of all values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Limit {
    Null,
    MinValue,
    MaxValue,
    /// The text of the value.
    Value(String),
}

/// The text that is left.
struct Cursor<'a>(&'a str);

impl Bound {
    /// `None` if the text has another form: then a newer PostgreSQL may have bounds of another kind.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut cursor = Cursor(text);
        let bound = cursor.bound()?;
        cursor.0.trim().is_empty().then_some(bound)
    }
}

impl Cursor<'_> {
    fn bound(&mut self) -> Option<Bound> {
        if self.word("DEFAULT") {
            return Some(Bound::Default);
        }
        self.expect("FOR")?;
        self.expect("VALUES")?;
        if self.word("IN") {
            return self.limits().map(Bound::List);
        }
        if self.word("FROM") {
            let from = self.limits()?;
            self.expect("TO")?;
            let to = self.limits()?;
            return Some(Bound::Range { from, to });
        }
        self.expect("WITH")?;
        self.expect("(")?;
        self.expect("modulus")?;
        let modulus = self.number()?;
        self.expect(",")?;
        self.expect("remainder")?;
        let remainder = self.number()?;
        self.expect(")")?;
        Some(Bound::Hash { modulus, remainder })
    }

    /// Whether the next word is this one; then the cursor moves behind it.
    fn word(&mut self, word: &str) -> bool {
        let rest = self.0.trim_start().strip_prefix(word);
        let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let ends_there = |rest: &&str| !(word.ends_with(is_letter) && rest.starts_with(is_letter));
        let rest = rest.filter(ends_there);
        if let Some(rest) = rest {
            self.0 = rest;
        }
        rest.is_some()
    }

    fn expect(&mut self, word: &str) -> Option<()> {
        self.word(word).then_some(())
    }

    fn number(&mut self) -> Option<u64> {
        self.bare()?.parse().ok()
    }

    /// Text without quotes, up to a comma or parenthesis.
    fn bare(&mut self) -> Option<String> {
        let text = self.0.trim_start();
        let end = text.find([',', ')', '(', '\'', ' '])?;
        let (bare, rest) = text.split_at(end);
        self.0 = rest;
        (!bare.is_empty()).then(|| bare.to_owned())
    }

    /// `(LIMIT, …)`
    fn limits(&mut self) -> Option<Vec<Limit>> {
        self.expect("(")?;
        let mut limits = vec![self.limit()?];
        while self.word(",") {
            limits.push(self.limit()?);
        }
        self.expect(")")?;
        Some(limits)
    }

    fn limit(&mut self) -> Option<Limit> {
        if self.word("'") {
            return self.quoted().map(Limit::Value);
        }
        let bare = self.bare()?;
        Some(match bare.as_str() {
            "NULL" => Limit::Null,
            "MINVALUE" => Limit::MinValue,
            "MAXVALUE" => Limit::MaxValue,
            _ => Limit::Value(bare),
        })
    }

    /// The rest of a constant behind its first quote. `standard_conforming_strings` is on, so that only quotes are doubled.
    fn quoted(&mut self) -> Option<String> {
        let mut value = String::new();
        loop {
            let (part, rest) = self.0.split_once('\'')?;
            value.push_str(part);
            self.0 = rest;
            match rest.strip_prefix('\'') {
                Some(rest) => {
                    value.push('\'');
                    self.0 = rest;
                }
                None => return Some(value),
            }
        }
    }
}
