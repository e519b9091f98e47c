//! Messages that clients send (PostgreSQL documentation, chapter "Frontend/Backend Protocol", section "Message
//! Formats"): read from clients, written to servers.

use crate::error::WireError;
use crate::frame;
use crate::frame::Header;
use crate::reader::Reader;
use bytes::{BufMut, BytesMut};
use std::ops::Range;

/// Types of frontend messages.
pub mod tag {
    #![expect(
        missing_docs,
        reason = "each constant is the protocol's message of that name"
    )]
    pub const QUERY: u8 = b'Q';
    pub const PARSE: u8 = b'P';
    pub const BIND: u8 = b'B';
    pub const DESCRIBE: u8 = b'D';
    pub const EXECUTE: u8 = b'E';
    pub const CLOSE: u8 = b'C';
    pub const SYNC: u8 = b'S';
    pub const FLUSH: u8 = b'H';
    pub const FUNCTION_CALL: u8 = b'F';
    pub const COPY_DATA: u8 = b'd';
    pub const COPY_DONE: u8 = b'c';
    pub const COPY_FAIL: u8 = b'f';
    pub const TERMINATE: u8 = b'X';
    pub const PASSWORD: u8 = b'p';
}

/// Limit of the length word for messages with text or data (`PQ_LARGE_MESSAGE_LIMIT`).
const LARGE_MAX: usize = 0x3fff_fffe;
/// Limit of the length word for all other messages (`PQ_SMALL_MESSAGE_LIMIT`).
const SMALL_MAX: usize = 10_000;

/// Reads the header of a client's message at the start of `buf`; `None` if it is incomplete.
///
/// # Errors
/// [`WireError::Tag`] for a type that is not valid after login, [`WireError::FrontendLength`] for a length that
/// PostgreSQL does not accept for the type. Like PostgreSQL, it checks the type first.
pub fn read_header(buf: &[u8]) -> Result<Option<Header>, WireError> {
    let Some(&tag) = buf.first() else {
        return Ok(None);
    };
    let most = match tag {
        tag::QUERY | tag::PARSE | tag::BIND | tag::FUNCTION_CALL | tag::COPY_DATA => LARGE_MAX,
        tag::DESCRIBE | tag::EXECUTE | tag::CLOSE | tag::SYNC | tag::FLUSH => SMALL_MAX,
        tag::COPY_DONE | tag::COPY_FAIL | tag::TERMINATE => SMALL_MAX,
        other => return Err(WireError::Tag(other)),
    };
    match Header::read(buf) {
        // The length word does not include the type byte.
        Ok(Some(header)) if header.len - 1 <= most => Ok(Some(header)),
        Ok(None) => Ok(None),
        Ok(Some(_)) | Err(_) => Err(WireError::FrontendLength),
    }
}

/// A `Parse` message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parse<'a> {
    /// Statement name, empty for the unnamed one.
    pub name: &'a [u8],
    /// The SQL text, in the client's encoding.
    pub text: &'a [u8],
    /// Number and OIDs of the parameter types, as sent.
    pub types: &'a [u8],
}

impl<'a> Parse<'a> {
    /// Reads the body.
    ///
    /// # Errors
    /// [`WireError::String`] if the name or the text is not terminated.
    pub fn read(body: &'a [u8]) -> Result<Self, WireError> {
        let mut r = Reader::new(body);
        Ok(Self {
            name: r.cstr()?,
            text: r.cstr()?,
            types: r.rest(),
        })
    }

    /// Appends the message.
    pub fn write(&self, out: &mut BytesMut) {
        frame::write(out, tag::PARSE, |out| {
            put_cstr(out, self.name);
            put_cstr(out, self.text);
            out.put_slice(self.types);
        });
    }
}

/// No parameter types, in the format of [`Parse::types`].
pub const NO_PARAMETER_TYPES: &[u8] = &[0, 0];

/// Length of a `Sync`.
pub const SYNC_LEN: usize = frame::HEADER_LEN;

/// Number and OIDs of parameter types in the format of [`Parse::types`].
pub fn parameter_types(oids: &[u32]) -> Vec<u8> {
    let mut out = Vec::with_capacity(2 + 4 * oids.len());
    write_parameter_types(oids.iter().copied(), &mut out);
    out
}

/// Appends the types that [`parameter_types`] returns.
pub fn write_parameter_types(oids: impl ExactSizeIterator<Item = u32>, out: &mut Vec<u8>) {
    out.put_u16(u16::try_from(oids.len()).unwrap_or(u16::MAX));
    oids.for_each(|oid| out.put_u32(oid));
}

/// The object that a `Describe` or `Close` refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target<'a> {
    /// A prepared statement.
    Statement(&'a [u8]),
    /// A portal.
    Portal(&'a [u8]),
}

impl<'a> Target<'a> {
    /// Reads the body of `Describe` or `Close`.
    ///
    /// # Errors
    /// [`WireError::Tag`] for an unknown kind of object, [`WireError::Truncated`] or [`WireError::String`] for a
    /// malformed body.
    pub fn read(body: &'a [u8]) -> Result<Self, WireError> {
        let mut r = Reader::new(body);
        match r.u8()? {
            b'S' => Ok(Self::Statement(r.cstr()?)),
            b'P' => Ok(Self::Portal(r.cstr()?)),
            other => Err(WireError::Tag(other)),
        }
    }

    /// Appends `Describe` or `Close`; `kind` is the message type.
    pub fn write(&self, out: &mut BytesMut, kind: u8) {
        let (letter, name) = match self {
            Self::Statement(name) => (b'S', name),
            Self::Portal(name) => (b'P', name),
        };
        frame::write(out, kind, |out| {
            out.put_u8(letter);
            put_cstr(out, name);
        });
    }
}

/// The names at the start of a `Bind`, and the undecoded rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BindNames<'a> {
    /// Portal name, empty for the unnamed one.
    pub portal: &'a [u8],
    /// Statement name, empty for the unnamed one.
    pub statement: &'a [u8],
    /// Formats, parameters and result formats.
    pub rest: &'a [u8],
}

impl<'a> BindNames<'a> {
    /// Reads the body.
    ///
    /// # Errors
    /// [`WireError::String`] if a name is not terminated.
    pub fn read(body: &'a [u8]) -> Result<Self, WireError> {
        let mut r = Reader::new(body);
        Ok(Self {
            portal: r.cstr()?,
            statement: r.cstr()?,
            rest: r.rest(),
        })
    }

    /// Appends the message.
    pub fn write(&self, out: &mut BytesMut) {
        // Reserves space once instead of for each part.
        out.reserve(
            frame::HEADER_LEN + self.portal.len() + self.statement.len() + 2 + self.rest.len(),
        );
        self.write_head(self.rest.len(), out);
        out.put_slice(self.rest);
    }

    /// Appends the start of the message. The caller appends the remaining `rest_len` bytes.
    pub fn write_head(&self, rest_len: usize, out: &mut BytesMut) {
        let len = 4 + self.portal.len() + 1 + self.statement.len() + 1 + rest_len;
        out.put_u8(tag::BIND);
        out.put_u32(u32::try_from(len).unwrap_or(u32::MAX));
        put_cstr(out, self.portal);
        put_cstr(out, self.statement);
    }
}

/// The parameter values of a `Bind`, as ranges in the slice that was read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BindValues {
    /// For each parameter, whether its format is binary.
    pub binary: Vec<bool>,
    /// For each parameter, the range of its bytes; `None` for NULL.
    pub values: Vec<Option<Range<usize>>>,
    /// Result format codes: none, one for all columns, or one for each column.
    pub result_formats: Vec<i16>,
}

impl BindValues {
    /// Reads [`BindNames::rest`]. `offset` is added to the ranges.
    ///
    /// # Errors
    /// [`WireError::Length`] if the number of formats does not fit the number of parameters; [`WireError::Truncated`]
    /// or [`WireError::Length`] for a malformed body.
    pub fn read(rest: &[u8], offset: usize) -> Result<Self, WireError> {
        let mut r = Reader::new(rest);
        let formats = (0..r.count()?)
            .map(|_| r.i16())
            .collect::<Result<Vec<_>, _>>()?;
        let count = r.count()?;
        let binary = match formats.as_slice() {
            [] => vec![false; count],
            [one] => vec![*one == 1; count],
            all if all.len() == count => all.iter().map(|&f| f == 1).collect(),
            _ => return Err(WireError::Length),
        };
        let mut values = Vec::with_capacity(count);
        for _ in 0..count {
            let value = r.value()?;
            let end = offset + rest.len() - r.rest().len();
            values.push(value.map(|v| end - v.len()..end));
        }
        let result_formats = (0..r.count()?)
            .map(|_| r.i16())
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            binary,
            values,
            result_formats,
        })
    }
}

/// Appends a `Bind` of the unnamed portal. Each parameter is a value and whether it is binary.
pub fn write_bind(
    out: &mut BytesMut,
    statement: &[u8],
    parameters: &[(bool, Option<&[u8]>)],
    result_formats: &[i16],
) {
    let count = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
    frame::write(out, tag::BIND, |out| {
        out.put_u8(0);
        put_cstr(out, statement);
        out.put_u16(count(parameters.len()));
        parameters
            .iter()
            .for_each(|(binary, _)| out.put_i16(i16::from(*binary)));
        out.put_u16(count(parameters.len()));
        for (_, value) in parameters {
            put_value(out, *value);
        }
        out.put_u16(count(result_formats.len()));
        result_formats.iter().for_each(|&f| out.put_i16(f));
    });
}

/// Appends `Execute` of the unnamed portal without a row limit.
pub fn write_execute(out: &mut BytesMut) {
    out.put_slice(&[tag::EXECUTE, 0, 0, 0, 9, 0, 0, 0, 0, 0]);
}

/// Appends `Execute` of a portal without a row limit.
pub fn write_execute_of(out: &mut BytesMut, portal: &[u8]) {
    write_execute_limited(out, portal, 0);
}

/// Appends `Execute` of a portal. 0 is no row limit.
pub fn write_execute_limited(out: &mut BytesMut, portal: &[u8], rows_max: i32) {
    frame::write(out, tag::EXECUTE, |out| {
        put_cstr(out, portal);
        out.put_i32(rows_max);
    });
}

/// Appends `Flush`.
pub fn write_flush(out: &mut BytesMut) {
    frame::write_empty(out, tag::FLUSH);
}

/// Appends `Describe` of the unnamed portal.
pub fn write_describe_portal(out: &mut BytesMut) {
    out.put_slice(&[tag::DESCRIBE, 0, 0, 0, 6, b'P', 0]);
}

/// Appends `Sync`.
pub fn write_sync(out: &mut BytesMut) {
    frame::write_empty(out, tag::SYNC);
}

/// Appends `Query`.
pub fn write_query(out: &mut BytesMut, sql: &str) {
    frame::write(out, tag::QUERY, |out| put_cstr(out, sql.as_bytes()));
}

/// Appends `Terminate`.
pub fn write_terminate(out: &mut BytesMut) {
    frame::write_empty(out, tag::TERMINATE);
}

/// Appends a `PasswordMessage`: a password or an md5 response.
pub fn write_password_text(out: &mut BytesMut, password: &[u8]) {
    frame::write(out, tag::PASSWORD, |out| put_cstr(out, password));
}

/// Reads the body of a `PasswordMessage`.
///
/// # Errors
/// [`WireError::String`] if the password is not terminated, [`WireError::Length`] if bytes follow it, which
/// PostgreSQL rejects, too.
pub fn read_password_text(body: &[u8]) -> Result<&[u8], WireError> {
    let mut r = Reader::new(body);
    let password = r.cstr()?;
    match r.rest() {
        [] => Ok(password),
        _ => Err(WireError::Length),
    }
}

/// Appends a `SASLResponse`.
pub fn write_sasl_response(out: &mut BytesMut, data: &[u8]) {
    frame::write(out, tag::PASSWORD, |out| out.put_slice(data));
}

/// Appends a `SASLInitialResponse`.
pub fn write_sasl_initial(out: &mut BytesMut, mechanism: &str, data: &[u8]) {
    frame::write(out, tag::PASSWORD, |out| {
        put_cstr(out, mechanism.as_bytes());
        put_value(out, Some(data));
    });
}

/// Reads the body of a `SASLInitialResponse`: the mechanism and the data, empty if there is no data.
///
/// # Errors
/// [`WireError::String`] or [`WireError::Truncated`] for a malformed body, [`WireError::Length`] if bytes follow the
/// data.
pub fn read_sasl_initial(body: &[u8]) -> Result<(&str, &[u8]), WireError> {
    let mut r = Reader::new(body);
    let (mechanism, data) = (r.str()?, r.value()?);
    match r.rest() {
        [] => Ok((mechanism, data.unwrap_or_default())),
        _ => Err(WireError::Length),
    }
}

/// Appends a string and its zero byte.
pub(crate) fn put_cstr(out: &mut BytesMut, text: &[u8]) {
    out.put_slice(text);
    out.put_u8(0);
}

/// Appends a length word and a value; the length of NULL is -1.
pub fn put_value(out: &mut BytesMut, value: Option<&[u8]>) {
    match value {
        Some(value) => {
            out.put_i32(i32::try_from(value.len()).unwrap_or(i32::MAX));
            out.put_slice(value);
        }
        None => out.put_i32(-1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Frames;

    #[test]
    fn a_written_bind_is_read_with_the_same_values() {
        let mut out = BytesMut::new();
        write_bind(
            &mut out,
            b"s1",
            &[
                (true, Some(b"\0\0\0\x07")),
                (false, None),
                (false, Some(b"x")),
            ],
            &[1],
        );
        let body = Frames::new(&out).next().unwrap().body();
        let names = BindNames::read(body).unwrap();
        assert_eq!((names.portal, names.statement), (&b""[..], &b"s1"[..]));
        let offset = body.len() - names.rest.len();
        let values = BindValues::read(names.rest, offset).unwrap();
        assert_eq!(values.binary, [true, false, false]);
        assert_eq!(values.result_formats, [1]);
        let texts: Vec<_> = values
            .values
            .iter()
            .map(|v| v.clone().map(|v| &body[v]))
            .collect();
        assert_eq!(texts, [Some(&b"\0\0\0\x07"[..]), None, Some(&b"x"[..])]);
    }

    #[test]
    fn truncated_bodies_are_errors_and_never_panics() {
        let mut out = BytesMut::new();
        write_bind(&mut out, b"s1", &[(true, Some(b"abcd"))], &[]);
        let body = Frames::new(&out).next().unwrap().body();
        for len in 0..body.len() {
            let cut = &body[..len];
            let read = BindNames::read(cut).and_then(|n| BindValues::read(n.rest, 0));
            assert!(
                read.is_err(),
                "{len} bytes of {} read as a Bind",
                body.len()
            );
        }
    }
}
