//! Statements of Paceline's own on a connection.

use super::{ServerConn, ServerError};
use bytes::BytesMut;
use paceline_cluster::SystemId;
use paceline_wire::backend::{self, Field, tag};
use paceline_wire::{WireError, frame, frontend};

/// PostgreSQL's description of a statement.
#[derive(Debug, Default)]
pub struct Description {
    /// OIDs of its parameters.
    pub parameters: Vec<u32>,
    /// Columns of its result.
    pub fields: Vec<Field>,
    /// Whether PostgreSQL raised a NOTICE or WARNING when it parsed the statement.
    pub warned: bool,
}

/// Rows of one result, as text.
pub type ResultRows = Vec<Vec<Option<String>>>;

impl ServerConn {
    /// Runs statements of Paceline's own in one transaction, and returns the rows of each. Parameters are passed as text.
    ///
    /// # Errors
    /// The server answers with an error, or the connection is lost.
    pub async fn ask(
        &mut self,
        statements: &[(&str, &[&str])],
    ) -> Result<Vec<ResultRows>, ServerError> {
        let mut out = BytesMut::new();
        for (text, parameters) in statements {
            frontend::Parse {
                name: b"",
                text: text.as_bytes(),
                types: frontend::NO_PARAMETER_TYPES,
            }
            .write(&mut out);
            let parameters: Vec<_> = parameters
                .iter()
                .map(|text| (false, Some(text.as_bytes())))
                .collect();
            frontend::write_bind(&mut out, b"", &parameters, &[]);
            frontend::write_execute(&mut out);
        }
        frontend::write_sync(&mut out);
        self.results(&mut out).await
    }

    /// Runs statements of Paceline's own in one simple query, and returns the rows of each.
    ///
    /// # Errors
    /// The server answers with an error, or the connection is lost.
    pub async fn query(&mut self, sql: &str) -> Result<Vec<ResultRows>, ServerError> {
        let mut out = BytesMut::new();
        frontend::write_query(&mut out, sql);
        self.results(&mut out).await
    }

    /// The single value that a query of the monitor returns; `None` if it is null, or if the user may not ask (class 42 of the
    /// SQLSTATEs).
    ///
    /// # Errors
    /// Another rejection, for example a time-out, says nothing about the value. Or the connection is lost.
    pub(crate) async fn value(&mut self, question: &str) -> Result<Option<String>, ServerError> {
        let answer = match self.query(question).await {
            Err(error)
                if error
                    .sqlstate()
                    .is_some_and(|state| state.starts_with("42")) =>
            {
                return Ok(None);
            }
            other => other?,
        };
        let mut rows = answer.into_iter().flatten();
        Ok(rows.next().and_then(|row| row.into_iter().next()?))
    }

    /// The system identifier of the server; `None` if the user may not ask. To be asked once per connection: the function waits while
    /// the server writes its control file, which may take long on a busy disk.
    ///
    /// # Errors
    /// As for [`ServerConn::value`].
    pub(crate) async fn system(&mut self) -> Result<Option<SystemId>, ServerError> {
        const WHICH: &str = "SELECT s.system_identifier FROM pg_catalog.pg_control_system() s";
        let system = self.value(WHICH).await?;
        Ok(system.and_then(|text| text.parse().ok()).map(SystemId))
    }

    /// Sends messages and reads their rows up to ReadyForQuery.
    async fn results(&mut self, out: &mut BytesMut) -> Result<Vec<ResultRows>, ServerError> {
        self.side.unnamed = None;
        self.stream.write_all(out).await?;
        let (mut results, mut rows, mut refused) = (Vec::new(), ResultRows::new(), None);
        loop {
            let (kind, message) = self.message().await?;
            let body = message.get(frame::HEADER_LEN..).unwrap_or_default();
            match kind {
                tag::DATA_ROW => rows.push(read_row(body)?),
                tag::COMMAND_COMPLETE => results.push(std::mem::take(&mut rows)),
                tag::ERROR_RESPONSE => refused = Some(message),
                tag::READY_FOR_QUERY => break,
                _ => {}
            }
        }
        refused.map_or(Ok(results), |error| Err(ServerError::Refused(error)))
    }

    /// Asks PostgreSQL to describe a statement.
    ///
    /// # Errors
    /// The server answers with an error, or the connection is lost.
    pub async fn describe(&mut self, text: &str, types: &[u8]) -> Result<Description, ServerError> {
        let mut out = BytesMut::new();
        frontend::Parse {
            name: b"",
            text: text.as_bytes(),
            types,
        }
        .write(&mut out);
        frontend::Target::Statement(b"").write(&mut out, frontend::tag::DESCRIBE);
        frontend::write_sync(&mut out);
        self.side.unnamed = None;
        self.stream.write_all(&mut out).await?;
        let (mut description, mut refused) = (Description::default(), None);
        loop {
            let (kind, message) = self.message().await?;
            let body = message.get(frame::HEADER_LEN..).unwrap_or_default();
            match kind {
                tag::PARAMETER_DESCRIPTION => {
                    description.parameters = backend::read_parameter_types(body)?;
                }
                tag::ROW_DESCRIPTION => description.fields = backend::read_fields(body)?,
                tag::NOTICE_RESPONSE => description.warned = true,
                tag::ERROR_RESPONSE => refused = Some(message),
                tag::READY_FOR_QUERY => break,
                _ => {}
            }
        }
        if let Some(columns) = &self.side.primary_columns {
            for field in &mut description.fields {
                let place = columns.place(field.table, field.column);
                (field.table, field.column) = place.unwrap_or_default();
            }
        }
        refused.map_or(Ok(description), |error| Err(ServerError::Refused(error)))
    }
}

fn read_row(body: &[u8]) -> Result<Vec<Option<String>>, WireError> {
    let values = backend::row_values(body)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(values.into_iter().map(|value| value.map(text)).collect())
}
