//! Errors that relays and groups recognise or raise.

use paceline_wire::ErrorResponse;
use paceline_wire::backend;

/// Whether PostgreSQL reports that a cached plan no longer fits its table. Compares the SQLSTATE and the name of the raising
/// function, because the message is in the language of `lc_messages`.
pub fn is_stale_plan(error: &[u8]) -> bool {
    let is = |code, text| backend::error_field(error, code) == Some(text);
    is(b'C', "0A000") && is(b'R', "RevalidateCachedQuery")
}

/// The error for a statement that changed another number of rows than its hint demands.
pub fn not_exactly(wanted: u64, found: u64) -> ErrorResponse {
    ErrorResponse::error(
        "21000",
        format!(
            "statement affected {found} rows, but its hint demands TARGET_AFFECT_ROW({wanted})"
        ),
    )
}
