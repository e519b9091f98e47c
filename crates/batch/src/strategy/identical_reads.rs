//! Reads that are sent as their clients sent them, each with its own Sync: which of them are identical, how one is written, and how
//! its answer is collected.

use super::messages::{BatchWriter, write_member};
use bytes::{BufMut, BytesMut};
use paceline_relay::errors::is_stale_plan;
use paceline_relay::parsed::ColumnsId;
use paceline_relay::request::{Request, RequestForm};
use paceline_relay::server::{Injected, ServerSide, own_meaning};
use paceline_wire::Frame;
use paceline_wire::backend::{error_field, tag};
use paceline_wire::frontend::{self, BindNames, Target};

/// SQLSTATE `query_canceled`.
const QUERY_CANCELED: &str = "57014";

/// The properties that make two reads under the same settings identical: statement, the meaning of its constants, form, the columns that
/// their clients know, and all values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ReadIdentity<'a> {
    template: u64,
    own_meaning: Option<u64>,
    form: RequestForm,
    columns: Option<ColumnsId>,
    bound: &'a [u8],
}

impl<'a> ReadIdentity<'a> {
    pub(super) fn of(request: &'a Request) -> Self {
        let bind = request
            .frames()
            .find(|frame| frame.tag == frontend::tag::BIND);
        let rest = bind.and_then(|bind| Some(BindNames::read(bind.body()).ok()?.rest));
        Self {
            template: request.template.id,
            own_meaning: own_meaning(request),
            form: request.form,
            columns: request
                .client_parse
                .as_ref()
                .and_then(|parse| parse.columns),
            bound: rest.unwrap_or(&request.bytes),
        }
    }
}

/// Writes a read with its Sync.
pub(super) fn write_read(request: &Request, writer: &mut BatchWriter<'_>) {
    match request.form {
        // Unchanged, so that PostgreSQL's answer is the same to the byte.
        RequestForm::Simple => {
            writer.server.unnamed = None;
            writer.injected.push_sync();
            writer.out.put_slice(&request.bytes);
        }
        RequestForm::Extended { .. } => {
            describe_known_columns(request, writer);
            write_member(request, request.form.row_limit(), writer);
            writer.sync();
        }
    }
}

/// Writes a `Describe` of the client's statement, prepared if need be, if the client knows its columns, by which it reads the rows, and
/// the server is not known to have the same. If it has others, the read fails, and runs elsewhere.
fn describe_known_columns(request: &Request, writer: &mut BatchWriter<'_>) {
    let Some(client_parse) = &request.client_parse else {
        return;
    };
    let Some(known) = client_parse.columns else {
        return;
    };
    if writer.server.has_described_columns(request) == Some(true) {
        return;
    }
    let statement = (&*request.template).into();
    let written = client_parse.answered;
    let server = &mut writer.server;
    let ensured = server.ensure_for(statement, client_parse, written, writer.out);
    writer.injected.push(ensured);
    Target::Statement(ensured.key.name().as_bytes()).write(writer.out, frontend::tag::DESCRIBE);
    writer.injected.push_describe(ensured.key, known);
}

/// The answer to one read.
#[derive(Debug, Default)]
pub(super) struct ReadAnswer {
    pub(super) bytes: BytesMut,
    /// Whether it holds a row.
    pub(super) has_rows: bool,
    /// Whether the read failed.
    pub(super) failed: bool,
    /// Whether its error is `query_canceled`.
    cancelled: bool,
}

/// Whether the client has set a limit for the time of its statements.
pub(super) fn is_limited(request: &Request) -> bool {
    request.settings.sql_of("statement_timeout").is_some()
}

impl ReadAnswer {
    /// Room for an answer of this length, in bytes.
    pub(super) fn with_capacity(len: usize) -> Self {
        Self {
            bytes: BytesMut::with_capacity(len),
            ..Self::default()
        }
    }

    /// Whether the members of the read are executed alone, and get its error there. An only member whose time `is_limited` is not:
    /// it would have the whole time again.
    pub(super) fn must_run_again(&self, members: usize, is_limited: bool) -> bool {
        self.failed && !(self.cancelled && is_limited && members == 1)
    }

    /// Takes a message from the server. Returns true if the answer is complete.
    pub(super) fn receive(
        &mut self,
        form: RequestForm,
        frame: Frame<'_>,
        injected: &mut Injected,
        server: &mut ServerSide,
    ) -> bool {
        if let Some(as_known) = injected.described(frame, server) {
            self.failed |= !as_known;
            return false;
        }
        match frame.tag {
            tag::PARSE_COMPLETE => {
                injected.complete();
                form.write_parsed(&mut self.bytes);
                return false;
            }
            tag::CLOSE_COMPLETE => {
                injected.complete();
                return false;
            }
            tag::NOTICE_RESPONSE if injected.is_answered() => return false,
            tag::DATA_ROW => self.has_rows = true,
            tag::ROW_DESCRIPTION => {
                if let Some(columns) = &server.primary_columns {
                    self.failed |= !columns.write_description(frame, &mut self.bytes);
                    return false;
                }
            }
            tag::ERROR_RESPONSE => {
                let stale = is_stale_plan(frame.body());
                if stale {
                    server.retire_all();
                }
                // The error may contain the name of the statement on the server, so the read is executed again, alone. But if the
                // plan of a statement that the client prepared earlier is stale, the error is the answer: the next execution
                // would use a statement that is prepared again, and return no error.
                // No error of a subscriber is an answer, and none of a replica except that a time is over: the replica may have parsed
                // its statement before it replayed DDL that precedes the `Parse` of the client.
                let of_subscriber = server.primary_columns.is_some();
                let is_answer = stale && form.relies_on_parsed() && !server.is_replica;
                self.failed = of_subscriber || !is_answer;
                self.cancelled =
                    !of_subscriber && error_field(frame.body(), b'C') == Some(QUERY_CANCELED);
            }
            tag::READY_FOR_QUERY => injected.synced(server),
            _ => {}
        }
        self.bytes.put_slice(frame.bytes);
        frame.tag == tag::READY_FOR_QUERY
    }
}
