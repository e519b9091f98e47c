//! A request: the messages of a client up to the point where it waits for an answer. One `Query`, or messages of the extended
//! protocol up to `Sync`. `scanner` finds its end.

mod scanner;

pub use scanner::{
    Boundary, LONG_HEAD_BYTES, PART_BYTES_MAX, REQUEST_BYTES_MAX, RequestScanner, is_long,
};

use crate::parsed::ClientParse;
use crate::settings::SessionSettings;
use crate::template::Template;
use bytes::{Bytes, BytesMut};
use paceline_sql::{Literal, SequenceUse, depends_on_parse_time};
use paceline_wire::backend;
use paceline_wire::frontend::{self, BindValues, tag};
use paceline_wire::reader::Reader;
use paceline_wire::{Frames, frame};
use std::sync::Arc;

/// The protocol of a request. The answer uses the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RequestForm {
    /// `Query`.
    Simple,
    /// `[Parse] Bind [Describe portal] Execute Sync`.
    Extended {
        /// The request has a `Parse`.
        parse: bool,
        /// The request has a `Describe` of the portal.
        describe: bool,
        /// The row limit of `Execute`. 0 is none, as for a statement that returns no rows: a limit has no effect on it.
        row_limit: u32,
    },
}

impl RequestForm {
    /// Whether an answer describes its columns, or states that it has none.
    pub fn is_described(self, has_columns: bool) -> bool {
        match self {
            Self::Simple => has_columns,
            Self::Extended { describe, .. } => describe,
        }
    }

    /// Whether the request executes a statement that was prepared earlier. Its columns may have been described to the client
    /// then.
    pub fn relies_on_parsed(self) -> bool {
        matches!(self, Self::Extended { parse: false, .. })
    }

    /// The row limit of `Execute`. 0 is none.
    pub fn row_limit(self) -> u32 {
        match self {
            Self::Simple => 0,
            Self::Extended { row_limit, .. } => row_limit,
        }
    }

    /// Writes the answer to the client's own `Parse`, if the request has one.
    pub fn write_parsed(self, out: &mut BytesMut) {
        if let Self::Extended { parse: true, .. } = self {
            frame::write_empty(out, backend::tag::PARSE_COMPLETE);
        }
    }
}

/// The values of a request's parameters.
#[derive(Debug, Clone)]
pub enum Values {
    /// As bound. The ranges refer to the bytes of the request.
    Bound(BindValues),
    /// Literals of a simple query.
    Literals(Vec<Literal>),
}

/// A request of one statement that may join a group.
#[derive(Debug, Clone)]
pub struct Request {
    /// The client's messages.
    pub bytes: Bytes,
    /// The protocol.
    pub form: RequestForm,
    /// The statement.
    pub template: Arc<Template>,
    /// The values of its parameters.
    pub values: Values,
    /// The client's settings.
    pub settings: Arc<SessionSettings>,
    /// Whether the statement may change the session in a way that its text does not show.
    pub may_change_session: bool,
    /// The client's `Parse` of the statement, if it came earlier. `None` if the statement is parsed with the request.
    pub client_parse: Option<ClientParse>,
    /// The use of sequences by the statement, as far as known.
    pub sequences: SequenceUse,
}

impl Request {
    /// A simple query of a client that has changed nothing in its session, for `paceline explain`.
    pub fn of_query(
        sql: &str,
        template: Arc<Template>,
        literals: Vec<Literal>,
        settings: Arc<SessionSettings>,
    ) -> Self {
        let mut bytes = BytesMut::new();
        frontend::write_query(&mut bytes, sql);
        Self {
            bytes: bytes.freeze(),
            form: RequestForm::Simple,
            sequences: template.sequences(),
            values: Values::Literals(literals),
            template,
            settings,
            may_change_session: false,
            client_parse: None,
        }
    }

    /// Whether PostgreSQL executes the statement as a whole although the request has a row limit: all statements with changes in their text
    /// (`PORTAL_ONE_RETURNING`, `PORTAL_ONE_MOD_WITH`). Others stop at the limit, and do not call functions for later rows.
    pub fn is_executed_whole(&self) -> bool {
        let statement = self.template.statement.as_ref();
        self.form.row_limit() == 0 || statement.is_some_and(|s| !s.targets.is_empty())
    }

    /// Records the duration (microseconds) of the execution, alone, and the length (bytes) of the answer for later requests of the template,
    /// unless it has stopped at a row limit: without one, it may take longer.
    pub fn record_pace(&self, micros: u32, bytes: u32) {
        if self.is_executed_whole() {
            self.template.pace.record(micros, bytes);
        }
    }

    /// Whether these parameters have the same format, so that they can form one array.
    pub fn is_even(&self, numbers: &[u32]) -> bool {
        let mut formats = numbers
            .iter()
            .map(|number| self.parameter(*number).map(|(binary, _)| binary));
        let first = formats.next();
        formats.all(|format| Some(format) == first)
    }

    /// The bytes of parameter `number` (from 1), and whether they are binary. `None` if there is no such parameter.
    pub fn parameter(&self, number: u32) -> Option<(bool, Option<&[u8]>)> {
        let index = (number as usize).checked_sub(1)?;
        match &self.values {
            Values::Bound(bound) => {
                let range = bound.values.get(index)?;
                let binary = bound.binary.get(index).copied()?;
                Some((binary, range.clone().and_then(|r| self.bytes.get(r))))
            }
            Values::Literals(literals) => {
                let literal = literals.get(index)?;
                Some((false, Some(literal.text.as_bytes())))
            }
        }
    }

    /// All parameters: whether binary, and the bytes.
    pub fn parameters(&self) -> Vec<(bool, Option<&[u8]>)> {
        (1..).map_while(|number| self.parameter(number)).collect()
    }

    /// Whether a value may mean the time at which PostgreSQL reads it (`$1::timestamptz` of `now`), alone or in an array or a document.
    /// Texts have the same bytes in both formats.
    pub fn names_moment(&self) -> bool {
        let mut values = self.parameters().into_iter();
        values.any(|(_, value)| value.is_some_and(depends_on_parse_time))
    }

    /// The result formats as bound: none, one for all columns, or one per column.
    pub fn result_formats(&self) -> &[i16] {
        match &self.values {
            Values::Bound(bound) => &bound.result_formats,
            Values::Literals(_) => &[],
        }
    }

    /// The same request for another server, on another table. `text`: that of a simple query there. In the extended protocol, the
    /// template has the text.
    #[must_use]
    pub fn on_other_table(
        &self,
        template: Arc<Template>,
        settings: Arc<SessionSettings>,
        text: &str,
    ) -> Self {
        let bytes = match self.form {
            RequestForm::Simple => {
                let mut out = BytesMut::new();
                frontend::write_query(&mut out, text);
                out.freeze()
            }
            RequestForm::Extended { .. } => self.bytes.clone(),
        };
        Self {
            bytes,
            template,
            settings,
            ..self.clone()
        }
    }

    /// The text of a simple query; `None` in the extended protocol.
    pub fn query(&self) -> Option<&str> {
        let query = self
            .frames()
            .next()
            .filter(|frame| frame.tag == tag::QUERY)?;
        Reader::new(query.body()).str().ok()
    }

    /// The messages.
    pub fn frames(&self) -> Frames<'_> {
        Frames::new(&self.bytes)
    }
}

/// The beginning of a group's answer, for the member that takes over the server connection.
#[derive(Debug)]
pub struct PartialAnswer {
    /// The protocol of the member's request.
    pub form: RequestForm,
    /// The messages that have arrived so far. All of them are complete.
    pub answer: BytesMut,
}
