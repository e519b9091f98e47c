//! Effects of statements.

use crate::{Effect, SessionChange};

#[test]
fn a_text_that_is_executed_is_harmless_if_it_only_reads() {
    for (text, harmless) in [
        ("SELECT 'a'::tsquery, 'b'::tsquery", true),
        (
            "SELECT 'a'::tsquery, 'b'::tsquery WHERE pg_catalog.now() > v.at",
            true,
        ),
        ("SELECT 'a'::tsquery, 'b'::tsquery WHERE mine()", false),
        (
            "SELECT 'a'::tsquery, 'b'::tsquery FROM pg_catalog.set_config('work_mem', '1MB', false)",
            false,
        ),
        ("SELECT 'a'::tsquery, (t).mine", false),
        ("SELECT 'a'::tsquery, E'\\x'::tsquery", false),
        ("SELECT 'a'::tsquery; SELECT 'b'::tsquery", false),
        (
            "UPDATE t SET a = 1 RETURNING 'a'::tsquery, 'b'::tsquery",
            false,
        ),
        ("no SQL", false),
    ] {
        let literal = crate::quote_literal(text);
        let sql = format!("SELECT pg_catalog.ts_rewrite('a'::tsquery, {literal})");
        let effect = crate::parse(&sql).expect("SQL").effect;
        assert_eq!(effect == Effect::Read, harmless, "{text}: {effect:?}");
    }
    let effect = crate::parse("SELECT ts_rewrite('a', $1)")
        .expect("SQL")
        .effect;
    assert_eq!(effect, Effect::Session(vec![SessionChange::Anything]));
}
