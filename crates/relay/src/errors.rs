//! Errors that relays and groups recognise or raise.

use paceline_wire::ErrorResponse;
use paceline_wire::backend;
use std::fmt::Display;

/// Whether PostgreSQL reports that a cached plan no longer fits its table. Compares the SQLSTATE and the name of the raising
/// function, because the message is in the language of `lc_messages`.
pub fn is_stale_plan(error: &[u8]) -> bool {
    let is = |code, text| backend::error_field(error, code) == Some(text);
    is(b'C', "0A000") && is(b'R', "RevalidateCachedQuery")
}

/// The error for a statement that changed another number of rows than its hint demands.
pub fn not_exactly(wanted: u64, found: impl Display) -> ErrorResponse {
    ErrorResponse::error(
        "21000",
        format!(
            "statement affected {found} rows, but its hint demands TARGET_AFFECT_ROW({wanted})"
        ),
    )
}

/// The error for a statement that has more rows than its `Execute` may return, but perhaps not more than its hint demands.
pub(crate) fn limit_below_target(wanted: u64) -> ErrorResponse {
    ErrorResponse::error(
        "0A000",
        format!(
            "a row limit of less than {wanted} is not supported with TARGET_AFFECT_ROW({wanted})"
        ),
    )
    .with_detail(
        "PostgreSQL does not report the number of rows while some of them have not been returned.",
    )
    .with_hint("Execute the statement without a row limit.")
}
