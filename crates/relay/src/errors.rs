//! Errors that both a relay and a group recognise or raise.

use paceline_wire::ErrorResponse;
use paceline_wire::backend;

/// PostgreSQL says that a plan no longer fits its table: by the SQLSTATE and by the function that raises it, as the message
/// is in the language of `lc_messages`.
pub fn is_stale_plan(error: &[u8]) -> bool {
    let is = |code, text| backend::error_field(error, code) == Some(text);
    is(b'C', "0A000") && is(b'R', "RevalidateCachedQuery")
}

/// The error of a statement that touched another number of rows than its hint demands.
pub fn not_exactly(wanted: u64, found: u64) -> ErrorResponse {
    ErrorResponse::error(
        "21000",
        format!(
            "statement affected {found} rows, but its hint demands TARGET_AFFECT_ROW({wanted})"
        ),
    )
}
