//! Errors of the console.

use paceline_wire::ErrorResponse;

/// An error as PgBouncer's console gives it.
pub(super) fn refusal(message: impl Into<String>) -> ErrorResponse {
    ErrorResponse::error("08P01", message)
}
