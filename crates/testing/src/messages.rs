//! Messages of both sides, written by hand.

#![allow(
    missing_docs,
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    reason = "each function is named after the message that it builds"
)]

use bytes::{BufMut, BytesMut};
use paceline_wire::backend::{self, Field, Status, tag as back};
use paceline_wire::frontend::{self, BindNames, Parse, Target, tag as front};
use paceline_wire::{ErrorResponse, frame};

/// The bytes of one message or several.
pub type Wire = Vec<u8>;

fn wire(write: impl FnOnce(&mut BytesMut)) -> Wire {
    let mut out = BytesMut::new();
    write(&mut out);
    out.to_vec()
}

fn empty(tag: u8) -> Wire {
    wire(|out| frame::write_empty(out, tag))
}

/// Messages of clients.
pub mod client {
    use super::*;

    pub fn query(sql: &str) -> Wire {
        wire(|out| frontend::write_query(out, sql))
    }

    pub fn parse(name: &str, text: &str) -> Wire {
        let parse = Parse {
            name: name.as_bytes(),
            text: text.as_bytes(),
            types: &[0, 0],
        };
        wire(|out| parse.write(out))
    }

    /// `Bind` of a portal without parameters.
    pub fn bind_portal(portal: &str, statement: &str) -> Wire {
        let names = BindNames {
            portal: portal.as_bytes(),
            statement: statement.as_bytes(),
            rest: &[0; 6],
        };
        wire(|out| names.write(out))
    }

    pub fn bind(statement: &str) -> Wire {
        bind_portal("", statement)
    }

    /// `Bind` of the unnamed portal: each parameter with its format.
    pub fn bind_values(statement: &str, values: &[(bool, Option<&[u8]>)], results: &[i16]) -> Wire {
        wire(|out| frontend::write_bind(out, statement.as_bytes(), values, results))
    }

    pub fn describe_portal() -> Wire {
        wire(frontend::write_describe_portal)
    }

    pub fn describe_statement(name: &str) -> Wire {
        wire(|out| Target::Statement(name.as_bytes()).write(out, front::DESCRIBE))
    }

    pub fn close_statement(name: &str) -> Wire {
        wire(|out| Target::Statement(name.as_bytes()).write(out, front::CLOSE))
    }

    pub fn close_portal(name: &str) -> Wire {
        wire(|out| Target::Portal(name.as_bytes()).write(out, front::CLOSE))
    }

    pub fn execute() -> Wire {
        wire(frontend::write_execute)
    }

    pub fn execute_portal(portal: &str, rows_max: u32) -> Wire {
        wire(|out| {
            frame::write(out, front::EXECUTE, |out| {
                out.put_slice(portal.as_bytes());
                out.put_u8(0);
                out.put_u32(rows_max);
            })
        })
    }

    pub fn sync() -> Wire {
        empty(front::SYNC)
    }

    pub fn flush() -> Wire {
        empty(front::FLUSH)
    }

    pub fn copy_data(data: &str) -> Wire {
        wire(|out| frame::write(out, front::COPY_DATA, |out| out.put_slice(data.as_bytes())))
    }

    pub fn copy_done() -> Wire {
        empty(front::COPY_DONE)
    }

    pub fn copy_fail() -> Wire {
        wire(|out| frame::write(out, front::COPY_FAIL, |out| out.put_slice(b"enough\0")))
    }
}

/// Messages of servers.
pub mod server {
    use super::*;

    pub fn parsed() -> Wire {
        empty(back::PARSE_COMPLETE)
    }

    pub fn bound() -> Wire {
        empty(back::BIND_COMPLETE)
    }

    pub fn closed() -> Wire {
        empty(back::CLOSE_COMPLETE)
    }

    pub fn no_data() -> Wire {
        empty(back::NO_DATA)
    }

    pub fn empty_query() -> Wire {
        empty(back::EMPTY_QUERY_RESPONSE)
    }

    pub fn suspended() -> Wire {
        empty(back::PORTAL_SUSPENDED)
    }

    pub fn parameters(oids: &[u32]) -> Wire {
        wire(|out| {
            frame::write(out, back::PARAMETER_DESCRIPTION, |out| {
                out.put_slice(&frontend::parameter_types(oids));
            })
        })
    }

    pub fn column(name: &str, type_oid: u32) -> Field {
        Field {
            name: name.as_bytes().to_vec(),
            table: 0,
            column: 0,
            type_oid,
            type_len: -1,
            type_modifier: -1,
        }
    }

    pub fn columns(names: &[&str]) -> Wire {
        let fields: Vec<_> = names.iter().map(|name| column(name, 25)).collect();
        wire(|out| backend::write_fields(out, &fields, &[]))
    }

    /// A row of bytes; `None` is NULL.
    pub fn values(values: &[Option<&[u8]>]) -> Wire {
        wire(|out| backend::write_row(out, values.iter().copied()))
    }

    pub fn row(texts: &[&str]) -> Wire {
        let bytes: Vec<_> = texts.iter().map(|text| Some(text.as_bytes())).collect();
        values(&bytes)
    }

    pub fn complete(command: &str) -> Wire {
        wire(|out| backend::write_command_complete(out, command))
    }

    pub fn error(sqlstate: &'static str, message: &str) -> Wire {
        wire(|out| ErrorResponse::error(sqlstate, message).write(out))
    }

    /// The error that PostgreSQL sends, in some language, if a plan no longer fits its table.
    pub fn stale_plan() -> Wire {
        let mut out = error("0A000", STALE_PLAN);
        // The last byte ends the list of fields.
        out.pop();
        out.put_slice(b"RRevalidateCachedQuery\0\0");
        let len = u32::try_from(out.len() - 1).expect("a short message");
        out[1..5].copy_from_slice(&len.to_be_bytes());
        out
    }

    pub const STALE_PLAN: &str = "gecachter Plan darf den Ergebnistyp nicht \u{e4}ndern";

    pub fn fatal(sqlstate: &'static str, message: &str) -> Wire {
        wire(|out| ErrorResponse::fatal(sqlstate, message).write(out))
    }

    pub fn notice(message: &str) -> Wire {
        let mut out = error("00000", message);
        out[0] = back::NOTICE_RESPONSE;
        out
    }

    pub fn status(name: &str, value: &str) -> Wire {
        wire(|out| backend::write_parameter_status(out, name, value))
    }

    pub fn copy_in() -> Wire {
        wire(|out| frame::write(out, back::COPY_IN_RESPONSE, |out| out.put_slice(&[0, 0, 0])))
    }

    /// `ReadyForQuery` with `I`, `T` or `E`.
    pub fn ready(letter: char) -> Wire {
        let status = match letter {
            'I' => Status::Idle,
            'T' => Status::Transaction,
            _ => Status::Failed,
        };
        wire(|out| status.write(out))
    }
}
