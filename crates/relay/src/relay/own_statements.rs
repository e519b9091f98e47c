//! Statements that Paceline itself sends between those of the client.

use super::expect::Expect;
use super::state::{RelayContext, RelayState};
use bytes::BytesMut;
use paceline_wire::frontend::{self, BindNames, Parse, Target, tag, write_execute_of};

impl RelayState {
    pub(super) fn own_query(
        &mut self,
        sql: &str,
        context: &mut RelayContext<'_>,
        out: &mut BytesMut,
    ) {
        frontend::write_query(out, sql);
        context.server.unnamed = None;
        self.expect.push_back(Expect::OwnQuery);
    }

    /// Writes a statement within the client's request. A `Query` would end the request's implicit
    /// transaction.
    pub(super) fn own_mid_request(&mut self, sql: &str, out: &mut BytesMut) {
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
        Target::Statement(NAME).write(out, tag::CLOSE);
        self.expect.extend([
            Expect::OwnParse { key: None },
            Expect::OwnStep,
            Expect::OwnStep,
            Expect::OwnClose { closed: None },
            Expect::OwnClose { closed: None },
        ]);
    }

    pub(super) fn close_pending(&mut self, context: &mut RelayContext<'_>, out: &mut BytesMut) {
        for name in context.server.take_pending_close() {
            Target::Statement(&name).write(out, tag::CLOSE);
            self.expect.push_back(Expect::OwnClose { closed: None });
        }
    }
}
