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
    pub(super) fn of(unit: &'a Request) -> Self {
        let bind = unit.frames().find(|frame| frame.tag == frontend::tag::BIND);
        let rest = bind.and_then(|bind| Some(BindNames::read(bind.body()).ok()?.rest));
        Self {
            template: unit.template.id,
            form: unit.form,
            bound: rest.unwrap_or(&unit.bytes),
        }
    }
}

/// Writes a read up to its Sync.
pub(super) fn write_read(
    unit: &Request,
    server: &mut ServerSide,
    injected: &mut Injected,
    out: &mut BytesMut,
) {
    match unit.form {
        // Its own text, so that the answer is PostgreSQL's to the letter.
        Form::Simple => {
            server.unnamed = None;
            out.put_slice(&unit.bytes);
        }
        Form::Extended { .. } => {
            write_member(unit, server, injected, out);
            frontend::write_sync(out);
        }
    }
    injected.push_sync();
}
