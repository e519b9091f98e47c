//! SQL text → statement: the effect of a text, the objects it refers to, its literals, and the statements that Paceline
//! generates from it for a whole group.
//!
//! This is the only crate that calls the PostgreSQL parser (`pg_query`). It performs no I/O and has no access to the catalog or
//! to connections: names are spelled as in the text, folded as PostgreSQL folds them, and the caller resolves them. If the
//! parser rejects a text ([`NotParsed`]), the caller must assume that the text may have any effect.
//!
//! The parser runs once per text and may take long; [`cost`] estimates how long. The functions that run for each message are
//! plain byte scans: [`take_out_literals`] and [`may_have_bare_hints`], also [`only_changes_rows`] for long texts and [`cost`]
//! for new ones.

#![warn(clippy::missing_errors_doc)]

mod bulk;
pub mod call;
pub mod chain;
mod cost;
pub mod distribution;
mod effect;
mod escapes;
mod exclusive;
mod expr;
pub mod facts;
pub mod fold;
pub mod function;
mod hints;
pub mod keyed;
mod lexis;
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
mod server_bound;
pub mod statement;
pub mod take;
mod time_read;
mod trace_comment;
mod transaction;
mod transaction_read;
mod tree;
mod type_name;
mod update;
mod value;

pub use bulk::{beginning_may_set, may_listen, may_set, only_changes_rows, only_reads_rows};
pub use call::Call;
pub use cost::{Cost, cost};
pub use effect::{
    ArgumentType, Bound, Effect, IDLE_SESSION_TIMEOUT, Listening, PinReason, SessionChange,
    SetConfig, define_option_sql, is_custom_option, listening_changes, replace_listening,
    set_config_sql, set_to,
};
pub use escapes::{hides_quotes, keeps_ascii};
pub use expr::{Expr, PROPOSED};
pub use facts::{CatalogVersion, Column, Compared, TableFacts};
pub use hints::{
    Hints, ServerHint, leading as leading_hints, may_have_bare_hints, strip_bare_hints,
};
pub use literals::{
    Literal, LiteralKind, Normalized, may_have_literals, take_out_kinds, take_out_literals,
};
pub use masked::masked;
pub use merge::Insert;
pub use name::Name;
pub use named::Named;
pub use parser::NotParsed;
pub use quote::{quote_ident, quote_literal};
pub use references::text_depends_on_parse_time as depends_on_parse_time;
pub use row_wait::UNCHECKED_WAIT_MS;
pub use sequences::SequenceUse;
pub use statement::{Statement, parse};
pub use take::Take;
pub use trace_comment::{TraceComment, trace_comment, without_trace_comment};
pub use transaction::{Begin, TransactionEnd, begins_alone, ends_alone};
pub use type_name::TypeName;
pub use update::{KeyEquality, Returning, Update};
pub use value::KeyValue;
