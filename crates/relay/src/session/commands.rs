//! Commands without parameters and columns that a client executes by the extended protocol, and that Paceline answers: the BEGIN and
//! the end of a transaction that no server needs to know.

use super::ClientSession;
use crate::template::Templates;
use bytes::BytesMut;
use paceline_wire::backend::{tag as back, write_command_complete};
use paceline_wire::frontend::{BindNames, Parse, Target, tag};
use paceline_wire::{Frames, frame};

/// Maximum number of bytes of a `Parse` that Paceline examines.
const PARSE_BYTES_MAX: usize = 512;

/// The types of no parameters in the format of [`Parse::types`] and of `ParameterDescription`.
const NO_TYPES: [u8; 2] = [0, 0];

/// `[Parse] [Describe statement] Bind [Describe portal] Execute` of the unnamed portal, without parameters.
struct Command<'a> {
    parse: Option<Parse<'a>>,
    /// The name of the statement.
    name: &'a [u8],
    /// Number of bytes of the messages.
    len: usize,
}

impl<'a> Command<'a> {
    /// Reads the messages at the beginning of `bytes`.
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut frames = Frames::new(bytes);
        let mut frame = frames.next()?;
        let mut parse = None;
        if frame.tag == tag::PARSE && frame.bytes.len() <= PARSE_BYTES_MAX {
            let read = Parse::read(frame.body()).ok()?;
            if read.types != NO_TYPES {
                return None;
            }
            parse = Some(read);
            frame = frames.next()?;
        }
        let mut described = None;
        if frame.tag == tag::DESCRIBE {
            described = Some(Target::read(frame.body()).ok()?);
            frame = frames.next()?;
        }
        if frame.tag != tag::BIND {
            return None;
        }
        let bind = BindNames::read(frame.body()).ok()?;
        let name = bind.statement;
        frame = frames.next()?;
        if frame.tag == tag::DESCRIBE {
            if Target::read(frame.body()) != Ok(Target::Portal(b"")) {
                return None;
            }
            frame = frames.next()?;
        }
        // PostgreSQL executes a command as a whole, whatever the row limit.
        let executes = frame.tag == tag::EXECUTE && matches!(frame.body(), [0, _, _, _, _]);
        let fits = executes
            && bind.portal.is_empty()
            && binds_nothing(bind.rest)
            && described.is_none_or(|target| target == Target::Statement(name))
            && parse.is_none_or(|parse| parse.name == name);
        fits.then(|| Self {
            parse,
            name,
            len: bytes.len() - frames.rest().len(),
        })
    }
}

/// Whether a `Bind` has no parameters. Its result formats do not matter, because there are no columns.
fn binds_nothing(rest: &[u8]) -> bool {
    matches!(rest, [0, 0, 0, 0, 0, 0] | [0, 0, 0, 0, 0, 1, _, _])
}

impl ClientSession {
    /// Recognizes the text of the command that the first messages of a client execute. Also returns the number of bytes of these
    /// messages.
    pub fn first_command<T>(
        &self,
        bytes: &[u8],
        recognize: impl FnOnce(&str) -> Option<T>,
    ) -> Option<(usize, T)> {
        let command = Command::read(bytes)?;
        let known = self.statements.get(command.name);
        let recognized = match command.parse {
            // PostgreSQL reports the error.
            Some(parse) if !parse.name.is_empty() && known.is_some() => None,
            Some(_) if self.statements.is_full() => None,
            Some(parse) => recognize(std::str::from_utf8(parse.text).ok()?),
            None => recognize(&known?.text),
        };
        Some((command.len, recognized?))
    }

    /// The answer to messages that [`ClientSession::first_command`] has recognized. `command` is the command tag.
    pub fn answer_command(
        &mut self,
        bytes: &[u8],
        templates: &Templates,
        command: &str,
    ) -> BytesMut {
        let mut out = BytesMut::new();
        for frame in Frames::new(bytes) {
            match frame.tag {
                tag::PARSE => {
                    if let Ok(parse) = Parse::read(frame.body()) {
                        let text = String::from_utf8_lossy(parse.text);
                        let template = templates.prepared(&text, parse.types);
                        self.statements.prepare(parse.name, template);
                    }
                    frame::write_empty(&mut out, back::PARSE_COMPLETE);
                }
                tag::BIND => frame::write_empty(&mut out, back::BIND_COMPLETE),
                tag::DESCRIBE => {
                    if let Ok(Target::Statement(_)) = Target::read(frame.body()) {
                        frame::write(&mut out, back::PARAMETER_DESCRIPTION, |out| {
                            out.extend(NO_TYPES);
                        });
                    }
                    frame::write_empty(&mut out, back::NO_DATA);
                }
                _ => write_command_complete(&mut out, command),
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::SettingsInterner;
    use paceline_wire::frontend::{
        parameter_types, write_bind, write_describe_portal, write_execute, write_execute_of,
        write_sync,
    };

    const BEGIN: &str = "BEGIN READ ONLY";

    fn parsed(name: &[u8], types: &[u32]) -> BytesMut {
        let mut out = BytesMut::new();
        let parse = Parse {
            name,
            text: BEGIN.as_bytes(),
            types: &parameter_types(types),
        };
        parse.write(&mut out);
        out
    }

    fn bound(mut out: BytesMut, statement: &[u8]) -> BytesMut {
        write_bind(&mut out, statement, &[], &[]);
        out
    }

    fn executed(mut out: BytesMut) -> BytesMut {
        write_execute(&mut out);
        out
    }

    fn session() -> ClientSession {
        ClientSession::new(SettingsInterner::default().none())
    }

    fn recognized(session: &ClientSession, bytes: &[u8]) -> Option<usize> {
        let found = session.first_command(bytes, |text| (text == BEGIN).then_some(()));
        found.map(|(len, ())| len)
    }

    #[test]
    fn a_command_is_recognized_before_the_rest_of_its_request() {
        let session = session();
        let mut described = bound(parsed(b"", &[]), b"");
        write_describe_portal(&mut described);
        let mut first = parsed(b"s", &[]);
        Target::Statement(b"s").write(&mut first, tag::DESCRIBE);
        let mut formats = parsed(b"", &[]);
        write_bind(&mut formats, b"", &[], &[1]);
        for begin in [
            bound(parsed(b"", &[]), b""),
            described,
            bound(first, b"s"),
            formats,
        ] {
            let mut bytes = executed(begin);
            let len = bytes.len();
            assert_eq!(recognized(&session, &bytes), Some(len));
            write_sync(&mut bytes);
            assert_eq!(recognized(&session, &bytes), Some(len));
            assert_eq!(recognized(&session, &bytes[..len - 1]), None);
        }
    }

    #[test]
    fn other_messages_are_not_recognized() {
        let mut session = session();
        let mut portal = parsed(b"", &[]);
        let names = BindNames {
            portal: b"p",
            statement: b"",
            rest: &[0; 6],
        };
        names.write(&mut portal);
        write_execute_of(&mut portal, b"p");
        let mut value = parsed(b"", &[]);
        write_bind(&mut value, b"", &[(false, None)], &[]);
        let mut other = parsed(b"", &[]);
        Target::Statement(b"other").write(&mut other, tag::DESCRIBE);
        let mut junk = parsed(b"", &[]);
        let names = BindNames {
            portal: b"",
            rest: &[0; 7],
            ..names
        };
        names.write(&mut junk);
        for bytes in [
            portal,
            executed(value),
            executed(bound(other, b"")),
            executed(junk),
            executed(bound(parsed(b"", &[23]), b"")),
            executed(bound(parsed(b"s", &[]), b"")),
            executed(bound(BytesMut::new(), b"")),
            executed(parsed(b"", &[])),
        ] {
            assert_eq!(recognized(&session, &bytes), None);
        }
        let named = executed(bound(parsed(b"s", &[]), b"s"));
        let bind = executed(bound(BytesMut::new(), b"s"));
        assert_eq!(recognized(&session, &bind), None);
        assert_eq!(recognized(&session, &named), Some(named.len()));
        session.answer_command(&named, &Templates::default(), "BEGIN");
        assert_eq!(recognized(&session, &named), None, "the name is in use");
        assert_eq!(recognized(&session, &bind), Some(bind.len()));
    }
}
