//! Long messages: the relay reads the beginning, and the caller forwards the rest as it arrives.

use super::expect::Expect;
use super::not_yet::NotYet;
use super::portals::Run;
use super::refusal::RelayRefusal;
use super::state::{Extended, RelayContext, RelayState};
use crate::session::ClientSession;
use bytes::{BufMut, BytesMut};
use paceline_wire::Frame;
use paceline_wire::frontend::{BindNames, tag};

impl RelayState {
    /// Processes the beginning of a message of `len` bytes, see [`is_long`](crate::request::is_long). If the result is true,
    /// the caller forwards the rest to the server, else it discards the rest.
    ///
    /// # Errors
    /// The message cannot be processed now. The caller passes the same beginning again later.
    pub fn long_message(
        &mut self,
        head: Frame<'_>,
        len: usize,
        context: &mut RelayContext<'_>,
        out: &mut BytesMut,
    ) -> Result<bool, NotYet> {
        if self.is_describing() {
            return Err(NotYet::Describing);
        }
        if self.extended == Extended::Skipping {
            return Ok(false);
        }
        match BindNames::read(head.body()) {
            Ok(bind) if head.tag == tag::BIND => {
                if self.extended == Extended::No {
                    self.begins_messages(context, out);
                    self.message_shows_idle_timeout(head, context, out)?;
                    self.extended = Extended::Open;
                }
                if self.is_session_pooling() {
                    self.note_bind(&bind, &[], context);
                    let (key, described) = (None, true);
                    self.pass(head, Expect::Bind { key, described }, out);
                    return Ok(true);
                }
                let before = head.bytes.len() - bind.rest.len();
                let (known, expect) = self.bind_to(&bind, &[], context, out)?;
                let BindNames { portal, rest, .. } = bind;
                let bind = BindNames {
                    portal,
                    statement: &known.name,
                    rest,
                };
                bind.write_head(len.saturating_sub(before), out);
                out.put_slice(rest);
                self.expect.push_back(expect);
            }
            _ => {
                self.extended = Extended::No;
                self.close_unnamed(context);
                let template = context.templates.long(beginning(head));
                self.await_listening(Some(&template), context)?;
                self.notes_writes(Run::Text(&template), context);
                self.uses_sequences(template.sequences(), context, out);
                let (changes, hints) = context.effects(Some(&template));
                if let Some(reason) = self.refused(&changes, context) {
                    self.refuse_query(RelayRefusal::Unmovable(reason), out);
                    return Ok(false);
                }
                context.meet_temporaries(&changes, self);
                out.put_slice(head.bytes);
                self.expect.push_back(Expect::query((changes, hints)));
            }
        }
        Ok(true)
    }

    /// Whether a message with this beginning must change an exact number of rows.
    pub fn is_long_targeted(head: Frame<'_>, session: &ClientSession) -> bool {
        let hints = match BindNames::read(head.body()) {
            Ok(bind) if head.tag == tag::BIND => {
                let template = session.statements.get(bind.statement);
                template.map(|template| template.hints())
            }
            _ => Some(paceline_sql::leading_hints(beginning(head))),
        };
        hints.is_some_and(|hints| hints.target_affect_row.is_some())
    }
}

/// The valid UTF-8 at the beginning of the text.
fn beginning(head: Frame<'_>) -> &str {
    match std::str::from_utf8(head.body()) {
        Ok(text) => text,
        Err(error) => {
            let valid = head.body().get(..error.valid_up_to()).unwrap_or_default();
            std::str::from_utf8(valid).unwrap_or_default()
        }
    }
}
