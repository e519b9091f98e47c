//! Bytes ⇄ messages of the PostgreSQL frontend/backend protocol 3.0 (PostgreSQL documentation, chapter
//! "Frontend/Backend Protocol"): framing, start-up, login on both sides, errors.
//!
//! No I/O, no clock, no buffers of its own: functions read from slices and append to a [`bytes::BytesMut`].
//! Bodies that nobody inspects (DataRow, CopyData) are never decoded.

pub mod auth;
pub mod backend;
pub mod error;
pub mod frame;
pub mod frontend;
pub mod md5;
pub mod reader;
pub mod scram;
pub mod startup;

pub use error::{ErrorResponse, WireError};
pub use frame::{Frame, Frames, Header};
