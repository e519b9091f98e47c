//! Requests that Paceline answers without a server.

use super::{ClientSession, Undo};
use crate::local_show::{LocalShow, ShowSource};
use crate::parsed::ClientParse;
use crate::request::{Request, RequestForm};
use crate::template::{Template, Templates, Unparsed};
use bytes::{Bytes, BytesMut};
use paceline_sql::Listening;
use paceline_wire::backend::{Status, tag as back, write_command_complete};
use paceline_wire::frontend::{BindNames, Parse, Target, tag};
use paceline_wire::reader::Reader;
use paceline_wire::{Frame, Frames, frame};
use std::sync::Arc;

impl ClientSession {
    /// The answer to a LISTEN or UNLISTEN that the shared connection has executed, without its ReadyForQuery.
    pub fn answer_listening(&mut self, listening: &Listening, request: &Request) -> BytesMut {
        let mut out = BytesMut::new();
        match request.form {
            RequestForm::Simple => self.statements.close_unnamed(),
            RequestForm::Extended {
                parse, describe, ..
            } => {
                if parse {
                    self.statements.prepare(b"", Arc::clone(&request.template));
                    frame::write_empty(&mut out, back::PARSE_COMPLETE);
                }
                frame::write_empty(&mut out, back::BIND_COMPLETE);
                if describe {
                    frame::write_empty(&mut out, back::NO_DATA);
                }
            }
        }
        write_command_complete(&mut out, listening.command());
        out
    }

    /// Answers a request that only prepares and closes statements, if PostgreSQL accepted all of them earlier (`accepted`).
    /// A server analyses each when the client executes it. Without this answer, a program would wait forever if it prepares
    /// a statement while its other connections hold all servers.
    ///
    /// # Errors
    /// A text must be parsed first.
    pub fn answer_prepare(
        &mut self,
        bytes: &Bytes,
        templates: &Templates,
        accepted: &dyn Fn(&Template) -> bool,
    ) -> Result<Option<BytesMut>, Unparsed> {
        let mut out = BytesMut::new();
        let mut undo = Vec::new();
        for frame in Frames::new(bytes) {
            match frame.tag {
                tag::PARSE => match self.parse_accepted(frame, templates, accepted) {
                    Ok(Some(done)) => {
                        undo.push(done);
                        frame::write_empty(&mut out, back::PARSE_COMPLETE);
                    }
                    other => {
                        undo.into_iter()
                            .rev()
                            .for_each(|done| self.statements.undo(done));
                        return other.map(|_| None);
                    }
                },
                tag::CLOSE => {
                    if let Ok(Target::Statement(name)) = Target::read(frame.body()) {
                        undo.push(self.statements.close(name));
                    }
                    frame::write_empty(&mut out, back::CLOSE_COMPLETE);
                }
                _ => Status::Idle.write(&mut out),
            }
        }
        Ok(Some(out))
    }

    fn parse_accepted(
        &mut self,
        frame: Frame<'_>,
        templates: &Templates,
        accepted: &dyn Fn(&Template) -> bool,
    ) -> Result<Option<Undo>, Unparsed> {
        let Some((parse, text)) = parse_text(frame) else {
            return Ok(None);
        };
        if self.statements.get(parse.name).is_some() || self.statements.is_full() {
            return Ok(None);
        }
        let template = templates.try_prepared(&templates.try_plain(text)?, parse.types)?;
        // A text whose meaning depends on the time of its analysis is parsed by a server now.
        if template.depends_on_parse_time()
            || self.statements.has(template.statement_id)
            || !accepted(&template)
        {
            return Ok(None);
        }
        let client_parse = ClientParse::begun(templates.new_id(), self.settings.id);
        Ok(Some(self.statements.parse(
            parse.name,
            template,
            client_parse,
        )))
    }

    /// Answers a request that only closes statements. Servers keep the statements for other clients.
    pub(super) fn answer_closes(&mut self, bytes: &Bytes) -> BytesMut {
        let mut out = BytesMut::new();
        for frame in Frames::new(bytes) {
            match Target::read(frame.body()) {
                Ok(Target::Statement(name)) if frame.tag == tag::CLOSE => {
                    self.statements.close(name);
                    frame::write_empty(&mut out, back::CLOSE_COMPLETE);
                }
                _ => Status::Idle.write(&mut out),
            }
        }
        out
    }

    /// Answers a request if each of its messages is about a `SHOW` command that Paceline answers.
    pub(super) fn answer_locally(
        &mut self,
        bytes: &Bytes,
        templates: &Templates,
        show_source: &dyn ShowSource,
    ) -> Result<Option<BytesMut>, Unparsed> {
        let show = Frames::new(bytes).next().and_then(|f| self.asked(f));
        let table = show.as_ref().and_then(|show| show.answer(show_source));
        let (Some(show), Some(table)) = (show, table) else {
            return Ok(None);
        };
        if !self.is_only_about(&show, bytes) {
            return Ok(None);
        }
        let mut out = BytesMut::new();
        for frame in Frames::new(bytes) {
            match frame.tag {
                tag::BIND => frame::write_empty(&mut out, back::BIND_COMPLETE),
                tag::DESCRIBE => {
                    if let Ok(Target::Statement(_)) = Target::read(frame.body()) {
                        frame::write(&mut out, back::PARAMETER_DESCRIPTION, |out| {
                            out.extend([0, 0])
                        });
                    }
                    table.write_columns(&mut out);
                }
                tag::EXECUTE => table.write_rows(&mut out),
                tag::SYNC => Status::Idle.write(&mut out),
                // There is only one `Parse`.
                tag::PARSE => {
                    if let Some((parse, text)) = parse_text(frame) {
                        self.statements
                            .prepare(parse.name, templates.try_prepared(text, parse.types)?);
                    }
                    frame::write_empty(&mut out, back::PARSE_COMPLETE);
                }
                _ => return Ok(None),
            }
        }
        Ok(Some(out))
    }

    /// The command of a request, if Paceline may answer it.
    pub fn local_command(&self, bytes: &[u8]) -> Option<LocalShow> {
        let first = Frames::new(bytes).next()?;
        match first.tag {
            tag::QUERY => LocalShow::parse(Reader::new(first.body()).str().ok()?),
            _ => self.asked(first),
        }
    }

    /// The `SHOW` command of the first message.
    fn asked(&self, first: Frame<'_>) -> Option<LocalShow> {
        match first.tag {
            tag::PARSE => LocalShow::parse(parse_text(first)?.1),
            tag::BIND => self.local_show_of(BindNames::read(first.body()).ok()?.statement),
            tag::DESCRIBE => match Target::read(first.body()).ok()? {
                Target::Statement(name) => self.local_show_of(name),
                Target::Portal(_) => None,
            },
            _ => None,
        }
    }

    /// Whether each message of the request is about one statement, and that statement is `show`.
    fn is_only_about(&self, show: &LocalShow, bytes: &Bytes) -> bool {
        let mut parsed: Option<&[u8]> = None;
        let known = |parsed: Option<&[u8]>, name: &[u8]| {
            parsed == Some(name) || self.local_show_of(name).as_ref() == Some(show)
        };
        Frames::new(bytes).all(|frame| match frame.tag {
            tag::PARSE => parse_text(frame).is_some_and(|(parse, text)| {
                let first = parsed.replace(parse.name).is_none();
                let free = parse.name.is_empty() || self.statements.get(parse.name).is_none();
                first && free && LocalShow::parse(text).as_ref() == Some(show)
            }),
            tag::BIND => {
                BindNames::read(frame.body()).is_ok_and(|names| known(parsed, names.statement))
            }
            tag::DESCRIBE => Target::read(frame.body()).is_ok_and(|target| match target {
                Target::Statement(name) => known(parsed, name),
                Target::Portal(_) => true,
            }),
            tag::EXECUTE | tag::SYNC => true,
            _ => false,
        })
    }

    fn local_show_of(&self, name: &[u8]) -> Option<LocalShow> {
        let template = self.statements.get(name).filter(|t| t.is_local_show())?;
        LocalShow::parse(&template.text)
    }
}

/// A `Parse` and its text, if that is UTF-8.
fn parse_text(frame: Frame<'_>) -> Option<(Parse<'_>, &str)> {
    let parse = Parse::read(frame.body()).ok()?;
    Some((parse, std::str::from_utf8(parse.text).ok()?))
}
