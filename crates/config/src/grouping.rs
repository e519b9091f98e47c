//! The operator's decisions on grouping for single tables and statements: `allow_grouping` and `deny_grouping`.

use paceline_sql::Name;
use std::collections::BTreeMap;
use std::fmt;

/// The subject of a decision.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupingTarget {
    /// Statements that name this table, with its schema.
    Table(Name),
    /// Statements whose text has this id: the eight hexadecimal digits at the beginning of its name in `SHOW GROUPS` and metrics.
    Template(u32),
}

/// Decisions: true allows grouping, false denies it.
pub type GroupingDecisions = BTreeMap<GroupingTarget, bool>;

const TEMPLATE: &str = "template ";
/// Digits of the id of a template.
const DIGITS: usize = 8;

impl GroupingTarget {
    /// Reads `schema.table`, as SQL spells it, or `template 0123abcd`. `None` for other texts.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let prefix = text.get(..TEMPLATE.len());
        if prefix.is_some_and(|prefix| prefix.eq_ignore_ascii_case(TEMPLATE)) {
            let digits = text.get(TEMPLATE.len()..)?.trim();
            let is_id = digits.len() == DIGITS && digits.bytes().all(|b| b.is_ascii_hexdigit());
            return is_id.then(|| u32::from_str_radix(digits, 16).ok().map(Self::Template))?;
        }
        let name = Name::parse(text).filter(|name| name.schema.is_some());
        name.map(Self::Table)
    }
}

impl fmt::Display for GroupingTarget {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Table(name) => name.fmt(out),
            Self::Template(id) => write!(out, "{TEMPLATE}{id:08x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_as_they_are_written() {
        for text in ["public.orders", "app.\"Items\"", "template 0012abcd"] {
            let target = GroupingTarget::parse(text).unwrap();
            assert_eq!(target.to_string(), text);
        }
        let target = GroupingTarget::parse(" Public.Orders ").unwrap();
        assert_eq!(target.to_string(), "public.orders");
        for text in [
            "orders",
            "a.b.c",
            "template",
            "template 12",
            "template 0012abcg",
            "",
        ] {
            assert_eq!(GroupingTarget::parse(text), None, "{text}");
        }
    }
}
