//! The error, warning or notice that clients receive.

use crate::frame;
use bytes::{BufMut, BytesMut};

/// An `ErrorResponse` or `NoticeResponse` (PostgreSQL documentation, section "Error and Notice Message Fields") with
/// the fields that Paceline sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorResponse {
    /// `ERROR`; `FATAL` if the connection ends; `NOTICE` or `WARNING` if the command continues.
    pub severity: &'static str,
    /// Five characters (PostgreSQL documentation, appendix "PostgreSQL Error Codes").
    pub sqlstate: &'static str,
    /// Primary message: lower case, no full stop.
    pub message: String,
    /// Complete sentences.
    pub detail: Option<String>,
    /// Complete sentences that say what the user can do.
    pub hint: Option<String>,
    /// Function of PostgreSQL that raises this error; some drivers depend on it.
    pub routine: Option<&'static str>,
}

impl ErrorResponse {
    /// An error after which the connection continues.
    pub fn error(sqlstate: &'static str, message: impl Into<String>) -> Self {
        Self {
            severity: "ERROR",
            sqlstate,
            message: message.into(),
            detail: None,
            hint: None,
            routine: None,
        }
    }

    /// An error that ends the connection.
    pub fn fatal(sqlstate: &'static str, message: impl Into<String>) -> Self {
        Self {
            severity: "FATAL",
            ..Self::error(sqlstate, message)
        }
    }

    /// A notice, SQLSTATE 00000.
    pub fn notice(message: impl Into<String>) -> Self {
        Self {
            severity: "NOTICE",
            ..Self::error("00000", message)
        }
    }

    /// Adds a hint.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Sets the function of PostgreSQL that raises this error.
    #[must_use]
    pub fn of_routine(mut self, routine: &'static str) -> Self {
        self.routine = Some(routine);
        self
    }

    /// Adds a detail.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// A warning.
    pub fn warning(sqlstate: &'static str, message: impl Into<String>) -> Self {
        Self {
            severity: "WARNING",
            ..Self::error(sqlstate, message)
        }
    }

    /// Appends the message in the format of protocol 2.0 and older.
    pub fn write_before_3(&self, out: &mut BytesMut) {
        out.put_u8(b'E');
        out.put_slice(format!("{}:  {}\n\0", self.severity, self.message).as_bytes());
    }

    /// Appends the message: a `NoticeResponse` for a notice or warning, otherwise an `ErrorResponse`.
    pub fn write(&self, out: &mut BytesMut) {
        let tag = match self.severity {
            "NOTICE" | "WARNING" => b'N',
            _ => b'E',
        };
        frame::write(out, tag, |out| {
            let mut field = |code: u8, value: &str| {
                out.put_u8(code);
                out.put_slice(value.as_bytes());
                out.put_u8(0);
            };
            field(b'S', self.severity);
            field(b'V', self.severity);
            field(b'C', self.sqlstate);
            field(b'M', &self.message);
            if let Some(detail) = &self.detail {
                field(b'D', detail);
            }
            if let Some(hint) = &self.hint {
                field(b'H', hint);
            }
            if let Some(routine) = self.routine {
                field(b'R', routine);
            }
            out.put_u8(0);
        });
    }
}
