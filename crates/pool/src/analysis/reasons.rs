//! The reasons why a template is not grouped, in the words of `SHOW GROUPS` and `paceline explain`.

/// No strategy recognizes the form of the statement.
pub const NO_SHAPE: &str = "no strategy rewrites statements of this form";
/// A call of a declared function in another form.
pub const OTHER_CALL: &str =
    "it calls the declared function otherwise than by SELECT … FROM f(…) and nothing else";
pub(super) const NOT_DESCRIBED: &str = "it could not be described";
pub(super) const NO_TABLE: &str = "there is no such table";
pub(super) const NO_TYPE: &str = "a type that is not known";
pub(super) const FOREIGN: &str = "functions, operators, types, foreign keys or unique columns by which rows may depend on one another";
pub(super) const ESCAPES: &str =
    "a backslash in a constant, which settings give a meaning, or in front of a quote";
pub(super) const READ_OTHERWISE: &str =
    "under standard_conforming_strings and client_encoding the server may read it otherwise";
pub(super) const MOMENT: &str = "a constant that means the moment in which it is parsed";
pub(super) const WARNED: &str = "PostgreSQL raises a NOTICE or WARNING whenever it parses it";
pub(super) const TOO_MANY: &str = "too many parameters or columns";
