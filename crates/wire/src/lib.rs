//! Messages of the PostgreSQL frontend/backend protocol 3.0 (PostgreSQL documentation, chapter "Frontend/Backend
//! Protocol"): framing, start-up, login of clients and to servers, errors.
//!
//! The crate performs no I/O, reads no clock and has no buffers: functions read from slices and append to a
//! [`bytes::BytesMut`]. It does not decode bodies of DataRow and CopyData messages unless a caller asks for the
//! values.

#![warn(clippy::missing_errors_doc)]

pub mod auth;
pub mod backend;
pub mod compression;
pub mod error;
pub mod error_response;
pub mod exchange;
pub mod frame;
pub mod frontend;
pub mod md5;
pub mod reader;
pub mod scram;
pub mod startup;

pub use error::WireError;
pub use error_response::ErrorResponse;
pub use frame::{Frame, Frames, Header};
