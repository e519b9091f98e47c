//! SQL text → statement: what a text does, what it touches, which literals it holds, and whether a fold can carry it.
//!
//! The only crate that sees the PostgreSQL parser (`pg_query`). It performs no I/O, knows no catalog and no connection:
//! names come out as the text spells them (folded as PostgreSQL folds them), and whoever has the catalog decides what they
//! mean. A text that the parser refuses is [`NotParsed`], and the caller must then treat it as one that may do anything.
//!
//! The parser runs once per text, and may take long: [`cost`] tells beforehand. What runs for every message is
//! [`take_out_literals`] and [`may_have_bare_hints`], for long ones [`only_changes_rows`], for new ones [`cost`], and all are plain
//! byte scans.

mod bulk;
pub mod call;
pub mod chain;
mod cost;
pub mod dealing;
mod effect;
mod escapes;
mod exclusive;
mod expr;
pub mod facts;
pub mod fold;
pub mod function;
mod hints;
mod literals;
mod masked;
pub mod merge;
mod name;
mod named;
mod operator;
mod parser;
mod quote;
mod references;
mod row_wait;
mod sequences;
mod statement;
pub mod take;
mod tree;
mod type_name;
mod update;
mod value;

pub use bulk::{beginning_may_set, may_set, only_changes_rows, only_reads_rows};
pub use call::Call;
pub use cost::{Cost, cost};
pub use effect::{
    Bound, Effect, IDLE_SESSION_TIMEOUT, Listening, PinReason, SessionChange, SetConfig,
    define_option_sql, is_custom_option, listening_changes, replace_listening, set_config_sql,
    set_to,
};
pub use escapes::{hides_quotes, keeps_ascii};
pub use expr::Expr;
pub use facts::{Column, Fingerprint, TableFacts};
pub use hints::{Hints, leading as leading_hints, may_have_bare_hints, strip_bare_hints};
pub use literals::{Literal, LiteralKind, Normalized, take_out_literals};
pub use masked::masked;
pub use merge::Insert;
pub use name::Name;
pub use named::Named;
pub use parser::NotParsed;
pub use quote::{quote_ident, quote_literal};
pub use references::text_names_moment as names_moment;
pub use row_wait::UNCHECKED_WAIT_MS;
pub use sequences::SequenceUse;
pub use statement::{Statement, parse};
pub use take::Take;
pub use type_name::TypeName;
pub use update::{KeyEquality, Returning, Update};
pub use value::KeyValue;
