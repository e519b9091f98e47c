//! Messages as lines of text, so that a failed comparison can be read.

use paceline_wire::backend::{self, tag as back};
use paceline_wire::frontend::{BindNames, Parse, Target, tag as front};
use paceline_wire::reader::Reader;
use paceline_wire::{Frame, Frames};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn cstr(body: &[u8]) -> String {
    text(Reader::new(body).cstr().expect("a string"))
}

fn lines(bytes: &[u8], line: impl Fn(Frame<'_>) -> String) -> Vec<String> {
    let mut frames = Frames::new(bytes);
    let lines = frames.by_ref().map(line).collect();
    assert!(
        frames.rest().is_empty(),
        "half a message is left: {:?}",
        frames.rest()
    );
    lines
}

/// Messages to a server as text.
pub fn to_server(bytes: &[u8]) -> Vec<String> {
    lines(bytes, to_server_line)
}

fn to_server_line(frame: Frame<'_>) -> String {
    let body = frame.body();
    match frame.tag {
        front::QUERY => format!("Query {}", cstr(body)),
        front::PARSE => {
            let parse = Parse::read(body).expect("a Parse");
            format!("Parse {}: {}", name(parse.name), text(parse.text))
        }
        front::BIND => {
            let names = BindNames::read(body).expect("a Bind");
            match names.portal {
                b"" => format!("Bind {}", name(names.statement)),
                portal => format!("Bind {} to {}", name(names.statement), text(portal)),
            }
        }
        front::DESCRIBE => format!("Describe {}", target(body)),
        front::CLOSE => format!("Close {}", target(body)),
        front::EXECUTE => format!("Execute {}", cstr(body)).trim_end().to_owned(),
        front::SYNC => "Sync".to_owned(),
        front::FLUSH => "Flush".to_owned(),
        front::COPY_DATA => format!("CopyData {}", text(body)),
        front::COPY_DONE => "CopyDone".to_owned(),
        front::COPY_FAIL => "CopyFail".to_owned(),
        other => panic!("no client sends {:?}", char::from(other)),
    }
}

fn name(name: &[u8]) -> String {
    match name {
        b"" => "unnamed".to_owned(),
        name => text(name),
    }
}

fn target(body: &[u8]) -> String {
    match Target::read(body).expect("a statement or portal") {
        Target::Statement(statement) => name(statement),
        Target::Portal(portal) => format!("portal {}", text(portal)).trim_end().to_owned(),
    }
}

/// Messages to a client as text.
pub fn to_client(bytes: &[u8]) -> Vec<String> {
    lines(bytes, to_client_line)
}

fn to_client_line(frame: Frame<'_>) -> String {
    let body = frame.body();
    let field = |code| backend::error_field(body, code).unwrap_or_default();
    match frame.tag {
        back::PARSE_COMPLETE => "parsed".to_owned(),
        back::BIND_COMPLETE => "bound".to_owned(),
        back::CLOSE_COMPLETE => "closed".to_owned(),
        back::NO_DATA => "no data".to_owned(),
        back::EMPTY_QUERY_RESPONSE => "empty query".to_owned(),
        back::PORTAL_SUSPENDED => "suspended".to_owned(),
        back::COPY_IN_RESPONSE => "copy in".to_owned(),
        back::PARAMETER_DESCRIPTION => {
            format!(
                "parameters {:?}",
                backend::read_parameter_types(body).expect("types")
            )
        }
        back::ROW_DESCRIPTION => format!("columns {}", columns(body)),
        back::DATA_ROW => format!("row {}", row(body)),
        back::COMMAND_COMPLETE => cstr(body),
        back::ERROR_RESPONSE => format!("{} {}: {}", field(b'S'), field(b'C'), field(b'M')),
        back::NOTICE_RESPONSE => format!("notice {}", field(b'M')),
        back::PARAMETER_STATUS => {
            let (name, value) = backend::read_parameter_status(body).expect("a status");
            format!("status {name}={value}")
        }
        back::READY_FOR_QUERY => format!("ready {}", text(body)),
        other => panic!("no server sends {:?}", char::from(other)),
    }
}

/// Names, each with `:b` when its values are binary.
fn columns(body: &[u8]) -> String {
    let fields = backend::read_fields(body).expect("fields");
    let mut formats = Vec::new();
    let mut reader = Reader::new(body);
    reader.count().expect("a count");
    for _ in &fields {
        reader
            .cstr()
            .and_then(|_| reader.bytes(16))
            .expect("a field");
        formats.push(reader.i16().expect("a format"));
    }
    let column = |(field, format): (&backend::Field, i16)| match format {
        0 => text(&field.name),
        _ => text(&field.name) + ":b",
    };
    fields
        .iter()
        .zip(formats)
        .map(column)
        .collect::<Vec<_>>()
        .join(",")
}

fn row(body: &[u8]) -> String {
    let values = backend::row_values(body).expect("values");
    let value = |value: &Option<&[u8]>| value.map_or("NULL".to_owned(), text);
    values.iter().map(value).collect::<Vec<_>>().join(",")
}
