//! A read that is asked as its client asked it, with a Sync of its own, and what makes two of them the same question.

use super::messages::write_member;
use bytes::{BufMut, BytesMut};
use paceline_relay::request::{Form, Request};
use paceline_relay::server::{Injected, ServerSide};
use paceline_wire::frontend::{self, BindNames};

/// What makes two reads under the same settings the same: statement, form, and everything that is bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ReadIdentity<'a> {
    template: u64,
    form: Form,
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
            form: request.form,
            bound: rest.unwrap_or(&request.bytes),
        }
    }
}

/// Writes a read up to its Sync.
pub(super) fn write_read(
    request: &Request,
    server: &mut ServerSide,
    injected: &mut Injected,
    out: &mut BytesMut,
) {
    match request.form {
        // Its own text, so that the answer is PostgreSQL's to the letter.
        Form::Simple => {
            server.unnamed = None;
            out.put_slice(&request.bytes);
        }
        Form::Extended { .. } => {
            write_member(request, server, injected, out);
            frontend::write_sync(out);
        }
    }
    injected.push_sync();
}
