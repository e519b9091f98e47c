//! Statements that Paceline itself sends between those of the client.

use super::expect::{Expect, StatementReply};
use super::state::{RelayContext, RelayState};
use crate::session::Undo;
use crate::template::Template;
use bytes::BytesMut;
use paceline_wire::frontend::{self, BindNames, Parse, Target, tag, write_execute_of};

impl RelayState {
    /// Sends a query behind the messages that have been sent.
    pub(super) fn inject_query(
        &mut self,
        sql: &str,
        expect: Expect,
        context: &mut RelayContext<'_>,
        out: &mut BytesMut,
    ) {
        frontend::write_query(out, sql);
        context.server.unnamed = None;
        self.expect.push_back(expect);
    }

    /// Sends a query whose answer is expected before all others.
    pub(super) fn inject_query_first(
        &mut self,
        sql: &str,
        expect: Expect,
        context: &mut RelayContext<'_>,
        out: &mut BytesMut,
    ) {
        frontend::write_query(out, sql);
        context.server.unnamed = None;
        self.expect.push_front(expect);
    }

    /// Sends a `Parse`. `types`: in place of the declared ones.
    pub(super) fn inject_parse(
        &mut self,
        name: &[u8],
        template: &Template,
        types: Option<&[u8]>,
        out: &mut BytesMut,
    ) {
        Parse {
            name,
            text: template.text.as_bytes(),
            types: types.unwrap_or(&template.types),
        }
        .write(out);
        self.expect.push_back(Expect::InjectedParse { key: None });
    }

    /// Sends a `Close` of the statement with this name on the server.
    pub(super) fn inject_close(&mut self, name: &[u8], out: &mut BytesMut) {
        Target::Statement(name).write(out, tag::CLOSE);
        self.expect
            .push_back(Expect::InjectedClose { closed: None });
    }

    /// Paceline itself answers the client's message. If the server skips up to the next Sync, `undo` undoes its effect.
    pub(super) fn answer_here(&mut self, undo: Option<Undo>, reply: StatementReply) {
        self.expect.push_back(Expect::AnsweredHere { undo, reply });
    }

    /// Writes a statement within the client's request. A `Query` would end the request's implicit transaction.
    pub(super) fn inject_mid_request(&mut self, sql: &str, out: &mut BytesMut) {
        // The client may use the unnamed statement and portal.
        const NAME: &[u8] = b"paceline: own";
        let parse = Parse {
            name: NAME,
            text: sql.as_bytes(),
            types: &[0, 0],
        };
        parse.write(out);
        let bind = BindNames {
            portal: NAME,
            statement: NAME,
            rest: &[0; 6],
        };
        bind.write(out);
        write_execute_of(out, NAME);
        Target::Portal(NAME).write(out, tag::CLOSE);
        self.expect.extend([
            Expect::InjectedParse { key: None },
            Expect::InjectedStep,
            Expect::InjectedStep,
            Expect::InjectedClose { closed: None },
        ]);
        self.inject_close(NAME, out);
    }

    pub(super) fn close_pending(&mut self, context: &mut RelayContext<'_>, out: &mut BytesMut) {
        for name in context.server.take_pending_close() {
            self.inject_close(&name, out);
        }
    }
}
