//! Quoted texts keep their value.

use super::{quote_ident, quote_literal};

#[test]
fn identifiers_are_always_quoted() {
    assert_eq!(quote_ident("a"), "\"a\"");
    assert_eq!(quote_ident("A \"b\""), "\"A \"\"b\"\"\"");
}

#[test]
fn a_literal_with_a_backslash_uses_the_escape_form() {
    assert_eq!(quote_literal("it's"), "'it''s'");
    assert_eq!(quote_literal("a\\'b"), "E'a\\\\''b'");
    assert_eq!(quote_literal(""), "''");
}
