//! The answers of a real PostgreSQL to questions about the catalog and the session, which the simulation does not compute.

use super::value::Type;
use bytes::BytesMut;
use paceline_wire::backend::{self, Field, tag};
use paceline_wire::startup::Startup;
use paceline_wire::{frame, frontend};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// The result of one statement.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// Name and type of each column.
    pub(crate) columns: Vec<(String, u32)>,
    pub(crate) rows: Vec<Vec<Option<String>>>,
    pub(crate) tag: String,
}

impl Answer {
    pub(crate) fn fields(&self) -> Vec<Field> {
        let columns = self.columns.iter();
        columns.map(|(name, oid)| field(name, *oid, None)).collect()
    }

    pub(crate) fn write_rows(&self, out: &mut BytesMut) {
        for row in &self.rows {
            backend::write_row(
                out,
                row.iter().map(|value| value.as_ref().map(String::as_bytes)),
            );
        }
        backend::write_command_complete(out, &self.tag);
    }

    /// The value, if the answer is a single one.
    pub(crate) fn single(&self) -> Option<&str> {
        match self.rows.as_slice() {
            [row] if row.len() == 1 => row[0].as_deref(),
            _ => None,
        }
    }
}

/// A column of a row description. `origin` is the OID of its table and its number there.
pub(crate) fn field(name: &str, oid: u32, origin: Option<(u32, i16)>) -> Field {
    let (table, column) = origin.unwrap_or_default();
    Field {
        name: name.as_bytes().to_vec(),
        table,
        column,
        type_oid: oid,
        type_len: Type::of_oid(oid).size(),
        type_modifier: -1,
    }
}

/// Answers by question.
pub(crate) type Answers = BTreeMap<String, Answer>;

/// A connection to a real PostgreSQL that has the same tables.
pub(crate) struct RealServer {
    stream: UnixStream,
    input: BytesMut,
}

impl RealServer {
    pub(crate) fn connect(socket: &Path, database: &str) -> Self {
        let mut server = Self {
            stream: UnixStream::connect(socket).unwrap(),
            input: BytesMut::new(),
        };
        let mut out = BytesMut::new();
        let named = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let parameters = vec![named("user", "postgres"), named("database", database)];
        Startup {
            minor: 0,
            parameters,
        }
        .write(&mut out);
        server.send(&out);
        let error = server
            .until_ready()
            .into_iter()
            .find(|(kind, _)| *kind == tag::ERROR_RESPONSE);
        assert!(error.is_none(), "{error:?}");
        server
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// The next message.
    pub(crate) fn message(&mut self) -> (u8, Vec<u8>) {
        loop {
            if let Some((kind, message)) = frame::split_message(&mut self.input).unwrap() {
                return (kind, message[frame::HEADER_LEN..].to_vec());
            }
            let mut bytes = [0; 16_384];
            let len = self.stream.read(&mut bytes).unwrap();
            assert!(len > 0, "PostgreSQL has closed the connection");
            self.input.extend_from_slice(&bytes[..len]);
        }
    }

    /// The messages before the next ReadyForQuery.
    pub(crate) fn until_ready(&mut self) -> Vec<(u8, Vec<u8>)> {
        let messages = std::iter::from_fn(|| Some(self.message()));
        messages
            .take_while(|(kind, _)| *kind != tag::READY_FOR_QUERY)
            .collect()
    }

    /// Executes one statement.
    pub(crate) fn ask(&mut self, question: &str) -> Answer {
        let mut out = BytesMut::new();
        frontend::write_query(&mut out, question);
        self.send(&out);
        let mut answer = Answer::default();
        for (kind, body) in self.until_ready() {
            match kind {
                tag::ROW_DESCRIPTION => {
                    let fields = backend::read_fields(&body).unwrap().into_iter();
                    let column =
                        |field: Field| (String::from_utf8(field.name).unwrap(), field.type_oid);
                    answer.columns = fields.map(column).collect();
                }
                tag::DATA_ROW => {
                    let values = backend::row_values(&body).unwrap().into_iter();
                    let text = |value: &[u8]| String::from_utf8(value.to_vec()).unwrap();
                    answer
                        .rows
                        .push(values.map(|value| value.map(text)).collect());
                }
                tag::COMMAND_COMPLETE => {
                    answer.tag = String::from_utf8_lossy(&body[..body.len() - 1]).into_owned();
                }
                tag::ERROR_RESPONSE => {
                    panic!(
                        "PostgreSQL refuses {question}: {}",
                        String::from_utf8_lossy(&body)
                    );
                }
                _ => {}
            }
        }
        answer
    }
}
