//! Errors of the console.

use paceline_wire::ErrorResponse;

/// An error with the SQLSTATE that PgBouncer's console uses for all errors.
pub(super) fn console_error(message: impl Into<String>) -> ErrorResponse {
    ErrorResponse::error("08P01", message)
}
