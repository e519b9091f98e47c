//! The effect of a text: reads, writes, changes of the session, or others.
//!
//! The text alone decides. A user-defined function may have any effect; callers that depend on functions look up
//! [`Statement::functions`](crate::Statement::functions) in the catalog.

mod change;
mod creation;
mod listening;
mod meaning;
mod pin_reason;
mod set_config;
mod setting;
mod shown;
mod statements;
#[cfg(test)]
mod tests;

pub use change::{Effect, Listening, SessionChange, SetConfig};
pub(crate) use creation::may_create;
pub use listening::{listening_changes, replace_listening};
pub use meaning::is_custom_option;
pub use pin_reason::PinReason;
pub use set_config::{ArgumentType, Bound};
pub use setting::{define_option_sql, set_config_sql, set_to};
pub use shown::IDLE_SESSION_TIMEOUT;
pub(crate) use shown::shows;
pub(crate) use statements::{begin, fetches, is_analyze, of_statements};
