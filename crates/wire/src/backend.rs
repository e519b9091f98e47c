//! Messages that servers send (PostgreSQL documentation, chapter "Frontend/Backend Protocol", section "Message
//! Formats"): read from servers, written to clients.

use crate::error::WireError;
use crate::frame;
use crate::frontend::put_cstr;
use crate::reader::Reader;
use bytes::{BufMut, Bytes, BytesMut};

/// Types of backend messages.
pub mod tag {
    #![expect(
        missing_docs,
        reason = "each constant is the protocol's message of that name"
    )]
    pub const AUTHENTICATION: u8 = b'R';
    pub const BACKEND_KEY_DATA: u8 = b'K';
    pub const BIND_COMPLETE: u8 = b'2';
    pub const CLOSE_COMPLETE: u8 = b'3';
    pub const COMMAND_COMPLETE: u8 = b'C';
    pub const COPY_IN_RESPONSE: u8 = b'G';
    pub const DATA_ROW: u8 = b'D';
    pub const EMPTY_QUERY_RESPONSE: u8 = b'I';
    pub const ERROR_RESPONSE: u8 = b'E';
    pub const NEGOTIATE_PROTOCOL_VERSION: u8 = b'v';
    pub const NO_DATA: u8 = b'n';
    pub const NOTICE_RESPONSE: u8 = b'N';
    pub const NOTIFICATION_RESPONSE: u8 = b'A';
    pub const PARAMETER_DESCRIPTION: u8 = b't';
    pub const PARAMETER_STATUS: u8 = b'S';
    pub const PARSE_COMPLETE: u8 = b'1';
    pub const PORTAL_SUSPENDED: u8 = b's';
    pub const READY_FOR_QUERY: u8 = b'Z';
    pub const ROW_DESCRIPTION: u8 = b'T';
}

/// The transaction status in `ReadyForQuery`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// `I`: not in a transaction block.
    Idle,
    /// `T`: in a transaction block.
    Transaction,
    /// `E`: in a failed transaction block.
    Failed,
}

impl Status {
    /// Reads the body of `ReadyForQuery`.
    ///
    /// # Errors
    /// [`WireError::Truncated`] for an empty body, [`WireError::Tag`] for an unknown status.
    pub fn read(body: &[u8]) -> Result<Self, WireError> {
        match Reader::new(body).u8()? {
            b'I' => Ok(Self::Idle),
            b'T' => Ok(Self::Transaction),
            b'E' => Ok(Self::Failed),
            other => Err(WireError::Tag(other)),
        }
    }

    /// Appends `ReadyForQuery`.
    pub fn write(self, out: &mut BytesMut) {
        out.put_slice(&[tag::READY_FOR_QUERY, 0, 0, 0, 5, self.code()]);
    }

    /// The body of `ReadyForQuery`.
    pub fn code(self) -> u8 {
        match self {
            Self::Idle => b'I',
            Self::Transaction => b'T',
            Self::Failed => b'E',
        }
    }
}

/// Appends `CommandComplete`.
pub fn write_command_complete(out: &mut BytesMut, command: &str) {
    frame::write(out, tag::COMMAND_COMPLETE, |out| {
        put_cstr(out, command.as_bytes())
    });
}

/// Row count in the body of a `CommandComplete` (`UPDATE 3`, `INSERT 0 1`, `SELECT 7`); `None` for commands without a
/// count.
pub fn affected_rows(body: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(Reader::new(body).cstr().ok()?).ok()?;
    text.rsplit(' ').next()?.parse().ok()
}

/// A column of a row that Paceline itself returns; its type is `text`.
#[derive(Debug, Clone, Copy)]
pub struct TextColumn<'a>(pub &'a str);

/// OID of `text`.
const TEXT_OID: u32 = 25;

/// Appends a `RowDescription` of text columns.
pub fn write_text_columns(out: &mut BytesMut, columns: &[TextColumn<'_>]) {
    frame::write(out, tag::ROW_DESCRIPTION, |out| {
        out.put_u16(u16::try_from(columns.len()).unwrap_or(u16::MAX));
        for column in columns {
            put_cstr(out, column.0.as_bytes());
            out.put_u32(0);
            out.put_i16(0);
            out.put_u32(TEXT_OID);
            out.put_i16(-1);
            out.put_i32(-1);
            out.put_i16(0);
        }
    });
}

/// Appends a `DataRow`.
pub fn write_row<'a>(out: &mut BytesMut, values: impl ExactSizeIterator<Item = Option<&'a [u8]>>) {
    frame::write(out, tag::DATA_ROW, |out| {
        out.put_u16(u16::try_from(values.len()).unwrap_or(u16::MAX));
        values.for_each(|value| crate::frontend::put_value(out, value));
    });
}

/// The values of a `DataRow`.
///
/// # Errors
/// [`WireError::Truncated`] or [`WireError::Length`] for a malformed body.
pub fn row_values(body: &[u8]) -> Result<Vec<Option<&[u8]>>, WireError> {
    let mut r = Reader::new(body);
    (0..r.count()?).map(|_| r.value()).collect()
}

/// A field of a `RowDescription`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Column name, in the client's encoding.
    pub name: Vec<u8>,
    /// OID of the table that the column belongs to, 0 for none.
    pub table: u32,
    /// Number of the column in that table, 0 for none.
    pub column: i16,
    /// OID of the data type.
    pub type_oid: u32,
    /// Size of the data type in bytes, negative for variable.
    pub type_len: i16,
    /// Type modifier, -1 for none.
    pub type_modifier: i32,
}

/// The columns of a `RowDescription` up to the first malformed one: name, type, type modifier.
pub fn columns(body: &[u8]) -> impl Iterator<Item = (&[u8], u32, i32)> {
    let mut r = Reader::new(body);
    let count = r.count().unwrap_or(0);
    (0..count).map_while(move |_| {
        let name = r.cstr().ok()?;
        r.bytes(6).ok()?;
        let type_oid = r.u32().ok()?;
        r.i16().ok()?;
        let modifier = r.i32().ok()?;
        r.i16().ok()?;
        Some((name, type_oid, modifier))
    })
}

/// Reads the body of a `RowDescription`.
///
/// # Errors
/// [`WireError::Truncated`] or [`WireError::String`] for a malformed body.
pub fn read_fields(body: &[u8]) -> Result<Vec<Field>, WireError> {
    let mut r = Reader::new(body);
    (0..r.count()?)
        .map(|_| {
            let field = Field {
                name: r.cstr()?.to_vec(),
                table: r.u32()?,
                column: r.i16()?,
                type_oid: r.u32()?,
                type_len: r.i16()?,
                type_modifier: r.i32()?,
            };
            r.i16()?;
            Ok(field)
        })
        .collect()
}

/// The formats of the columns in the body of a `RowDescription`.
///
/// # Errors
/// [`WireError::Truncated`] or [`WireError::String`] for a malformed body.
pub fn read_formats(body: &[u8]) -> Result<Vec<i16>, WireError> {
    let mut r = Reader::new(body);
    (0..r.count()?)
        .map(|_| {
            r.cstr()?;
            r.bytes(16)?;
            r.i16()
        })
        .collect()
}

/// Appends a `RowDescription`; formats are as in `Bind`: none (text), one for all, or one per column.
pub fn write_fields(out: &mut BytesMut, fields: &[Field], formats: &[i16]) {
    frame::write(out, tag::ROW_DESCRIPTION, |out| {
        out.put_u16(u16::try_from(fields.len()).unwrap_or(u16::MAX));
        for (n, field) in fields.iter().enumerate() {
            put_cstr(out, &field.name);
            out.put_u32(field.table);
            out.put_i16(field.column);
            out.put_u32(field.type_oid);
            out.put_i16(field.type_len);
            out.put_i32(field.type_modifier);
            out.put_i16(match formats {
                [] => 0,
                [one] => *one,
                all => all.get(n).copied().unwrap_or(0),
            });
        }
    });
}

/// OIDs in the body of a `ParameterDescription`.
///
/// # Errors
/// [`WireError::Truncated`] if an OID is missing.
pub fn read_parameter_types(body: &[u8]) -> Result<Vec<u32>, WireError> {
    let mut r = Reader::new(body);
    (0..r.count()?).map(|_| r.u32()).collect()
}

/// Appends `ParameterStatus`.
pub fn write_parameter_status(out: &mut BytesMut, name: &str, value: &str) {
    frame::write(out, tag::PARAMETER_STATUS, |out| {
        put_cstr(out, name.as_bytes());
        put_cstr(out, value.as_bytes());
    });
}

/// Reads the body of `ParameterStatus`: name and value.
///
/// # Errors
/// [`WireError::String`] if one is not terminated or not UTF-8.
pub fn read_parameter_status(body: &[u8]) -> Result<(&str, &str), WireError> {
    let mut r = Reader::new(body);
    Ok((r.str()?, r.str()?))
}

/// Appends `AuthenticationOk`.
pub fn write_authentication_ok(out: &mut BytesMut) {
    frame::write(out, tag::AUTHENTICATION, |out| out.put_u32(0));
}

/// Appends `AuthenticationCleartextPassword`.
pub fn write_cleartext_request(out: &mut BytesMut) {
    frame::write(out, tag::AUTHENTICATION, |out| out.put_u32(3));
}

/// Appends `AuthenticationMD5Password`.
pub fn write_md5_request(out: &mut BytesMut, salt: [u8; 4]) {
    frame::write(out, tag::AUTHENTICATION, |out| {
        out.put_u32(5);
        out.put_slice(&salt);
    });
}

/// Appends `AuthenticationSASL`.
pub fn write_sasl_request(out: &mut BytesMut, mechanisms: &[&str]) {
    frame::write(out, tag::AUTHENTICATION, |out| {
        out.put_u32(10);
        mechanisms
            .iter()
            .for_each(|name| put_cstr(out, name.as_bytes()));
        out.put_u8(0);
    });
}

/// Appends `AuthenticationSASLContinue`.
pub fn write_sasl_continue(out: &mut BytesMut, data: &[u8]) {
    frame::write(out, tag::AUTHENTICATION, |out| {
        out.put_u32(11);
        out.put_slice(data);
    });
}

/// Appends `AuthenticationSASLFinal`.
pub fn write_sasl_final(out: &mut BytesMut, data: &[u8]) {
    frame::write(out, tag::AUTHENTICATION, |out| {
        out.put_u32(12);
        out.put_slice(data);
    });
}

/// Appends `BackendKeyData`.
pub fn write_backend_key(out: &mut BytesMut, process: u32, secret: u32) {
    frame::write(out, tag::BACKEND_KEY_DATA, |out| {
        out.put_u32(process);
        out.put_u32(secret);
    });
}

/// Reads the body of `BackendKeyData`: process ID and secret (four bytes each in protocol 3.0).
///
/// # Errors
/// [`WireError::Truncated`] for a shorter body.
pub fn read_backend_key(body: &[u8]) -> Result<(u32, u32), WireError> {
    let mut r = Reader::new(body);
    Ok((r.u32()?, r.u32()?))
}

/// Appends `NegotiateProtocolVersion`: minor version 0 is the newest supported one, and `options` are not supported.
pub fn write_negotiate_version(out: &mut BytesMut, options: &[String]) {
    frame::write(out, tag::NEGOTIATE_PROTOCOL_VERSION, |out| {
        out.put_u32(crate::startup::VERSION_3_0);
        out.put_u32(u32::try_from(options.len()).unwrap_or(u32::MAX));
        options
            .iter()
            .for_each(|name| put_cstr(out, name.as_bytes()));
    });
}

/// Appends a copy of the `ErrorResponse` with this body in which the text of one field (as in [`error_field`]) is
/// replaced.
pub fn write_error_with(body: &[u8], field: u8, text: &str, out: &mut BytesMut) {
    frame::write(out, tag::ERROR_RESPONSE, |out| {
        let mut r = Reader::new(body);
        while let (Ok(code @ 1..), Ok(value)) = (r.u8(), r.cstr()) {
            out.put_u8(code);
            put_cstr(
                out,
                if code == field {
                    text.as_bytes()
                } else {
                    value
                },
            );
        }
        out.put_u8(0);
    });
}

/// Reads the body of a `NotificationResponse`: process ID of the notifying server process, channel, payload.
///
/// # Errors
/// [`WireError::Truncated`] or [`WireError::String`] for a malformed body.
pub fn read_notification(body: &[u8]) -> Result<(u32, &[u8], &[u8]), WireError> {
    let mut r = Reader::new(body);
    Ok((r.u32()?, r.cstr()?, r.cstr()?))
}

/// The `NotificationResponse` with the process ID replaced, if the client needs another one: the client's own process
/// ID (`client`) if the notification is its `own`; 0 if another server process (`author`) has the same ID by
/// coincidence. `None`: the client can receive the message unchanged.
pub fn own_notification(message: &[u8], author: u32, own: bool, client: u32) -> Option<Bytes> {
    let process = match (own, author == client) {
        (true, _) => client,
        (false, true) => 0,
        (false, false) => return None,
    };
    let mut rewritten = BytesMut::from(message);
    let field = rewritten.get_mut(frame::HEADER_LEN..frame::HEADER_LEN + 4)?;
    field.copy_from_slice(&process.to_be_bytes());
    Some(rewritten.freeze())
}

/// Appends a `NotificationResponse`.
pub fn write_notification(out: &mut BytesMut, process: u32, channel: &[u8], payload: &[u8]) {
    frame::write(out, tag::NOTIFICATION_RESPONSE, |out| {
        out.put_u32(process);
        put_cstr(out, channel);
        put_cstr(out, payload);
    });
}

/// Appends a `NoticeResponse`.
pub fn write_notice(out: &mut BytesMut, message: &str, detail: Option<&str>) {
    frame::write(out, tag::NOTICE_RESPONSE, |out| {
        let fields = [
            (b'S', Some("NOTICE")),
            (b'V', Some("NOTICE")),
            (b'C', Some("00000")),
            (b'M', Some(message)),
            (b'D', detail),
        ];
        for (code, value) in fields {
            if let Some(value) = value {
                out.put_u8(code);
                put_cstr(out, value.as_bytes());
            }
        }
        out.put_u8(0);
    });
}

/// One field of an `ErrorResponse` or `NoticeResponse` body (section "Error and Notice Message Fields": `C` SQLSTATE,
/// `M` message, `S` severity, …); `None` if it is missing or not UTF-8.
pub fn error_field(body: &[u8], code: u8) -> Option<&str> {
    std::str::from_utf8(error_field_bytes(body, code)?).ok()
}

/// The same in the encoding of the connection.
pub fn error_field_bytes(body: &[u8], code: u8) -> Option<&[u8]> {
    let mut r = Reader::new(body);
    loop {
        match r.u8().ok()? {
            0 => return None,
            found if found == code => return r.cstr().ok(),
            _ => {
                r.cstr().ok()?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorResponse, Frames};

    #[test]
    fn the_row_count_is_the_last_word_of_the_command_tag() {
        assert_eq!(affected_rows(b"UPDATE 3\0"), Some(3));
        assert_eq!(affected_rows(b"INSERT 0 12\0"), Some(12));
        assert_eq!(affected_rows(b"CREATE TABLE\0"), None);
        assert_eq!(affected_rows(b""), None);
    }

    #[test]
    fn fields_of_an_error_are_read_one_by_one() {
        let mut out = BytesMut::new();
        ErrorResponse::error("21000", "too many")
            .with_hint("Take fewer.")
            .write(&mut out);
        let body = Frames::new(&out).next().unwrap().body();
        assert_eq!(error_field(body, b'C'), Some("21000"));
        assert_eq!(error_field(body, b'H'), Some("Take fewer."));
        assert_eq!(error_field(body, b'D'), None);
    }

    #[test]
    fn fields_read_back_as_they_were_written() {
        let mut out = BytesMut::new();
        write_text_columns(&mut out, &[TextColumn("a"), TextColumn("b")]);
        let fields = read_fields(Frames::new(&out).next().unwrap().body()).unwrap();
        let mut again = BytesMut::new();
        write_fields(&mut again, &fields, &[0]);
        assert_eq!(out, again);
    }
}
