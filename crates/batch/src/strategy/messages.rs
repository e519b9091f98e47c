//! Messages of groups: statements of members and of Paceline as the server gets them, and the parts of answers to clients.

use super::outcome::{MemberOutcome, MemberResult};
use bytes::BytesMut;
use paceline_relay::request::{Request, RequestForm};
use paceline_relay::server::{Injected, Preparable, ServerSide, StatementKey};
use paceline_wire::backend::{self, Field, Status, tag};
use paceline_wire::frontend::{self, BindNames};
use paceline_wire::{ErrorResponse, frame};
use std::borrow::Cow;

/// The messages of a batch while they are written.
#[derive(Debug)]
pub struct BatchWriter<'a> {
    /// The server that gets the messages.
    pub(super) server: &'a mut ServerSide,
    /// The messages among them that no member sent.
    pub(super) injected: Injected,
    /// Paceline's own statements among them, in the order in which the server executes them.
    pub(super) statements: Vec<StatementKey>,
    pub(super) out: &'a mut BytesMut,
}

impl<'a> BatchWriter<'a> {
    pub(super) fn new(server: &'a mut ServerSide, out: &'a mut BytesMut) -> Self {
        Self {
            server,
            injected: Injected::default(),
            statements: Vec::new(),
            out,
        }
    }

    /// Writes a `Sync`.
    pub(super) fn sync(&mut self) {
        frontend::write_sync(self.out);
        self.injected.push_sync();
    }
}

/// A statement that Paceline sends besides those of the members.
#[derive(Debug, Clone, Copy)]
pub(super) struct InjectedStatement<'a> {
    /// Its id among all templates.
    pub(super) id: u64,
    pub(super) text: &'a str,
}

impl InjectedStatement<'_> {
    /// Writes `[Parse] Bind Execute`. Each value has its format: true is binary.
    pub(super) fn write(
        self,
        values: &[(bool, Option<&[u8]>)],
        result_formats: &[i16],
        writer: &mut BatchWriter<'_>,
    ) {
        let statement = Preparable {
            id: self.id,
            text: self.text,
            types: &[0, 0],
        };
        let ensured = writer.server.ensure(statement, writer.out);
        writer.injected.push(ensured);
        writer.statements.push(ensured.key);
        let name = ensured.key.name();
        frontend::write_bind(writer.out, name.as_bytes(), values, result_formats);
        frontend::write_execute(writer.out);
    }
}

/// The results of members whose statement is committed if a row has a key that no member has sent: then it is not known which
/// member the row belongs to. No type that [`RowKeys`](super::row_key::RowKeys) accepts is known to cause this.
pub(super) fn unknown_key_errors(
    members: impl Iterator<Item = RequestForm>,
) -> impl Iterator<Item = MemberResult> {
    members.enumerate().map(|(member, form)| {
        let mut out = BytesMut::new();
        write_head(form, &mut out);
        ErrorResponse::error(
            "08007",
            "the server returned a row whose key no request contains",
        )
        .with_detail("The statement was committed.")
        .write(&mut out);
        write_tail(&mut out);
        MemberResult {
            member,
            outcome: MemberOutcome::Answer(out.freeze()),
        }
    })
}

/// Writes `[Parse] Bind [Describe] Execute` of a member. If the client parses its statement in the request, so does the server;
/// a statement that the client has prepared before has the server's own name. `row_limit`: that of `Execute`; 0 is none.
///
/// Returns the prepared statement that it executes.
pub(super) fn write_member(
    request: &Request,
    row_limit: u32,
    writer: &mut BatchWriter<'_>,
) -> Option<StatementKey> {
    let mut prepared = None;
    match (request.form, &request.client_parse) {
        (RequestForm::Simple, _) => write_simple_member(request, writer),
        (RequestForm::Extended { describe, .. }, None) => {
            let template = &request.template;
            write_unnamed(template.text.as_bytes(), &template.types, writer);
            write_bind(request, b"", describe, writer.out);
        }
        (RequestForm::Extended { describe, .. }, Some(client_parse)) => {
            let statement = (&*request.template).into();
            let server = &mut writer.server;
            let ensured =
                server.ensure_for(statement, client_parse, client_parse.answered, writer.out);
            writer.injected.push(ensured);
            write_bind(request, ensured.key.name().as_bytes(), describe, writer.out);
            prepared = Some(ensured.key);
        }
    }
    let row_limit = i32::try_from(row_limit).unwrap_or_default();
    frontend::write_execute_limited(writer.out, b"", row_limit);
    prepared
}

/// Writes the `Parse` of an unnamed statement.
fn write_unnamed(text: &[u8], types: &[u8], writer: &mut BatchWriter<'_>) {
    frontend::Parse {
        name: b"",
        text,
        types,
    }
    .write(writer.out);
    writer.server.unnamed = None;
    writer.injected.push_unnamed();
}

fn write_bind(request: &Request, statement: &[u8], describe: bool, out: &mut BytesMut) {
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

/// Writes a simple query as messages of the extended protocol. The text keeps its literals, so that its meaning is the same.
fn write_simple_member(request: &Request, writer: &mut BatchWriter<'_>) {
    let query = request.frames().next().map(|f| f.body());
    let query = query.unwrap_or_default();
    let text = query.strip_suffix(&[0]).unwrap_or(query);
    write_unnamed(text, &[0, 0], writer);
    frontend::write_bind(writer.out, b"", &[], &[]);
    frontend::write_describe_portal(writer.out);
}

/// Writes the messages with which an answer to `form` begins.
pub(super) fn write_head(form: RequestForm, out: &mut BytesMut) {
    form.write_parsed(out);
    if let RequestForm::Extended { .. } = form {
        frame::write_empty(out, tag::BIND_COMPLETE);
    }
}

/// Writes the message with which an answer ends.
pub(super) fn write_tail(out: &mut BytesMut) {
    Status::Idle.write(out);
}

/// Writes the answer to `Describe` of a portal with these columns.
pub(super) fn write_columns(fields: &[Field], formats: &[i16], out: &mut BytesMut) {
    match fields {
        [] => frame::write_empty(out, tag::NO_DATA),
        fields => backend::write_fields(out, fields, formats),
    }
}

/// Whether a binary boolean is true.
pub(super) fn is_true(value: Option<&[u8]>) -> bool {
    value == Some(&[1])
}

/// A binary int4 that is not negative.
pub(super) fn read_number(value: Option<&[u8]>) -> Option<u32> {
    let number = i32::from_be_bytes(<[u8; 4]>::try_from(value?).ok()?);
    u32::try_from(number).ok()
}

/// A place, from 0, that a statement counts from 1 as a binary int4.
pub(super) fn read_place(value: Option<&[u8]>) -> Option<usize> {
    usize::try_from(read_number(value)?).ok()?.checked_sub(1)
}

/// The text of an `ErrorResponse`, header included. PostgreSQL translates its texts; only those that Paceline's own statements
/// raise are the same in every language.
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
