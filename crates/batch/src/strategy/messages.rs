//! Messages of groups: members' statements as they go to the server, and the parts of answers.

use super::outcome::{MemberOutcome, MemberResult};
use bytes::BytesMut;
use paceline_relay::analysis::Shape;
use paceline_relay::request::{Form, Request};
use paceline_relay::server::{Injected, ServerSide};
use paceline_wire::backend::{self, Field, Status, tag};
use paceline_wire::frontend::{self, BindNames};
use paceline_wire::{ErrorResponse, frame};
use std::borrow::Cow;

/// Most parameters and RETURNING columns of a template that travels: their formats are a bit each in a
/// [`GroupId`](crate::line::GroupId).
pub const FORMATS_MAX: usize = 64;

/// It is committed, but for which members is not known, as a row came back whose key none has sent. No type that
/// [`row::RowKeys`] takes is known to come to this.
pub(super) fn unknown_key_errors(
    members: impl Iterator<Item = Form>,
) -> impl Iterator<Item = MemberResult> {
    members.enumerate().map(|(member, form)| {
        let mut out = BytesMut::new();
        write_head(form, &mut out);
        ErrorResponse::error("08007", "a row event back whose key nobody had sent")
            .with_detail("The statement was committed.")
            .write(&mut out);
        write_tail(&mut out);
        MemberResult {
            member,
            outcome: MemberOutcome::Answer(out.freeze()),
        }
    })
}

/// Writes `[Parse] Bind [Describe] Execute` of a member. What its client parses with the unit is analysed with the unit; what the
/// client has prepared before has the server's own name.
pub(super) fn write_member(
    request: &Request,
    server: &mut ServerSide,
    injected: &mut Injected,
    out: &mut BytesMut,
) {
    match (request.form, &request.analysis) {
        (Form::Simple, _) => write_simple_member(request, server, injected, out),
        (Form::Extended { describe, .. }, None) => {
            write_unnamed(
                request.template.text.as_bytes(),
                &request.template.types,
                out,
            );
            server.unnamed = None;
            injected.push_unnamed();
            write_bind(request, b"", describe, out);
        }
        (Form::Extended { describe, .. }, Some(analysis)) => {
            let statement = (&*request.template).into();
            let ensured = server.ensure_for(statement, analysis, analysis.since, out);
            injected.push(ensured);
            write_bind(request, ensured.key.name().as_bytes(), describe, out);
        }
    }
    frontend::write_execute(out);
}

pub(super) fn write_unnamed(text: &[u8], types: &[u8], out: &mut BytesMut) {
    frontend::Parse {
        name: b"",
        text,
        types,
    }
    .write(out);
}

pub(super) fn write_bind(request: &Request, statement: &[u8], describe: bool, out: &mut BytesMut) {
    let bind = request.frames().find(|f| f.tag == frontend::tag::BIND);
    let rest = bind
        .and_then(|f| BindNames::read(f.body()).ok())
        .map(|names| names.rest);
    BindNames {
        portal: b"",
        statement,
        rest: rest.unwrap_or_default(),
    }
    .write(out);
    if describe {
        frontend::write_describe_portal(out);
    }
}

/// A simple query as the extended protocol has it: its own text, literals and all, so that it means the same.
pub(super) fn write_simple_member(
    request: &Request,
    server: &mut ServerSide,
    injected: &mut Injected,
    out: &mut BytesMut,
) {
    let query = request
        .frames()
        .next()
        .map(|f| f.body())
        .unwrap_or_default();
    write_unnamed(query.strip_suffix(&[0]).unwrap_or(query), &[0, 0], out);
    server.unnamed = None;
    injected.push_unnamed();
    frontend::write_bind(out, b"", &[], &[]);
    frontend::write_describe_portal(out);
}

/// What stands in front of an answer to `form`.
pub(super) fn write_head(form: Form, out: &mut BytesMut) {
    form.write_parsed(out);
    if let Form::Extended { .. } = form {
        frame::write_empty(out, tag::BIND_COMPLETE);
    }
}

/// What ends an answer.
pub(super) fn write_tail(out: &mut BytesMut) {
    Status::Idle.write(out);
}

/// The answer to `Describe` of a portal with these columns.
pub(super) fn write_columns(fields: &[Field], formats: &[i16], out: &mut BytesMut) {
    match fields {
        [] => frame::write_empty(out, tag::NO_DATA),
        fields => backend::write_fields(out, fields, formats),
    }
}

/// Bit n - 1: parameter n of those that travel is in binary format; `carried` tells them, and which travel as text. `None`: the
/// unit has another number of parameters, an encoding in which text cannot be taken apart byte by byte, or in binary format
/// what travels as text.
pub(super) fn parameter_bits(
    request: &Request,
    parameters: &[u32],
    carried: impl IntoIterator<Item = (u32, bool)>,
) -> Option<u64> {
    if request.parameters().len() != parameters.len() || !request.settings.is_utf8() {
        return None;
    }
    let mut bits = 0;
    for (number, as_text) in carried {
        let (binary, _) = request.parameter(number)?;
        if binary && as_text {
            return None;
        }
        bits |= u64::from(binary) << (number - 1);
    }
    Some(bits)
}

/// Bit n: the unit wants column n in binary format. `None`: it says so of another number of columns, or its client takes its rows
/// for other columns, of which it was told when it prepared the statement.
pub(super) fn result_bits(request: &Request, fields: &[Field]) -> Option<u64> {
    let told = request
        .analysis
        .as_ref()
        .and_then(|analysis| analysis.shape);
    let columns = fields
        .iter()
        .map(|field| (&*field.name, field.type_oid, field.type_modifier));
    if told.is_some_and(|told| told != Shape::of(columns)) {
        return None;
    }
    let (columns, bit) = (fields.len(), |n: usize, format: i16| {
        u64::from(format == 1) << n
    });
    match request.result_formats() {
        [] => Some(0),
        [one] => Some((0..columns).map(|n| bit(n, *one)).sum()),
        all if all.len() == columns => Some(all.iter().enumerate().map(|(n, f)| bit(n, *f)).sum()),
        _ => None,
    }
}

/// The format in which the unit wants each column.
pub(super) fn result_formats(request: &Request, columns: usize) -> Vec<i16> {
    match request.result_formats() {
        [] => vec![0; columns],
        [one] => vec![*one; columns],
        all => all.to_vec(),
    }
}

/// The text of an `ErrorResponse`, header included. Only what Paceline's own statements put into it means the same in every
/// language.
pub(super) fn message(error: &[u8]) -> Option<Cow<'_, str>> {
    let body = error.get(frame::HEADER_LEN..).unwrap_or_default();
    Some(String::from_utf8_lossy(backend::error_field_bytes(
        body, b'M',
    )?))
}

/// The SQLSTATE of an `ErrorResponse`.
pub(super) fn sqlstate(body: &[u8]) -> &str {
    backend::error_field(body, b'C').unwrap_or("XX000")
}
