//! Portals: statements with values bound to them, and their execution.

use super::effects::uncertain;
use super::expect::Expect;
use super::not_yet::NotYet;
use super::portal_map::Portal;
use super::state::{RelayContext, RelayState};
use crate::server::StatementKey;
use crate::template::Template;
use bytes::BytesMut;
use paceline_sql::{ArgumentType, Bound, Effect, Hints, PinReason, SequenceUse, SessionChange};
use paceline_wire::Frame;
use paceline_wire::frontend::{BindNames, BindValues};
use paceline_wire::reader::Reader;
use std::sync::Arc;

impl RelayState {
    /// Processes the client's `Execute`.
    ///
    /// # Errors
    /// The message cannot be processed now. The caller passes it again later.
    pub(super) fn execute(
        &mut self,
        frame: Frame<'_>,
        context: &mut RelayContext<'_>,
        out: &mut BytesMut,
    ) -> Result<(), NotYet> {
        let portal = Reader::new(frame.body()).cstr().unwrap_or_default();
        let bound = self.portals.get(portal);
        let (template, done) = match bound {
            Some(bound) => (Some(Arc::clone(&bound.template)), bound.done),
            None => (None, false),
        };
        let template = template.as_deref();
        self.await_listening(template, context)?;
        if let Some(why) = self.listen_refusal(template, context) {
            self.refuse_message(why, out);
            return Ok(());
        }
        self.notes_writes(portal, template);
        let (mut changes, hints) = self.portal_effects(portal, template, context);
        self.add_effects_of_others(portal, template, &mut changes, context);
        if let Some(template) = template
            && self.portal_by_name(portal, (template, done), &changes, context, out)?
        {
            return Ok(());
        }
        self.request.may_have_begun |= template.is_none_or(Template::may_begin);
        if let Some(template) = template {
            if let Some(database) = template.exclusive() {
                self.exclusive = Some(database.to_owned());
            }
            self.prepare_under_own_names(template, context, out);
        }
        self.note_draws(self.sequences_of(portal, template), context);
        self.discards_sequences(&changes, false, context);
        context.meet_temporaries(&changes, &self.pinned_for);
        let drops = changes.iter().any(SessionChange::drops_statements);
        self.marks_listening(&changes, context, out);
        self.pass(frame, Expect::Execute((changes, hints).into()), out);
        if drops {
            self.close_all_at_execute(context);
        }
        Ok(())
    }

    /// The client has bound values to a statement.
    pub(super) fn open_portal(
        &mut self,
        bind: &BindNames<'_>,
        values: &[u8],
        template: &Arc<Template>,
        key: Option<StatementKey>,
    ) {
        let by_value = |c: &SessionChange| matches!(c, SessionChange::SetTo(_));
        let sets = match template.effect() {
            Some(Effect::Session(changes)) if changes.iter().any(by_value) => {
                with_values(changes, values, template)
            }
            _ => Vec::new(),
        };
        let portal = Portal {
            template: Arc::clone(template),
            statement: bind.statement.into(),
            key,
            sets,
            done: false,
        };
        self.portals.bind(bind.portal, portal);
    }

    /// The portals that the execution of this one may also execute.
    fn others<'a>(
        &'a self,
        executed: &'a [u8],
        template: Option<&Template>,
    ) -> impl Iterator<Item = &'a Portal> {
        let fetches = template.is_some_and(Template::fetches);
        self.portals.also(executed, fetches)
    }

    /// Adds the possible changes by the portals that the execution of this one may also execute.
    pub(super) fn add_effects_of_others(
        &mut self,
        executed: &[u8],
        template: Option<&Template>,
        changes: &mut Vec<SessionChange>,
        context: &RelayContext<'_>,
    ) {
        let fetches = template.is_some_and(Template::fetches);
        self.work += self.portals.read_by_also(executed, fetches);
        let effects = |portal: &Portal| uncertain(context.effects(Some(&portal.template)).0);
        changes.extend(self.others(executed, template).flat_map(effects));
        let fetches = template.is_none_or(Template::fetches);
        if self.may_execute_forgotten(executed, template) {
            changes.push(SessionChange::Anything);
            changes.extend(fetches.then_some(SessionChange::Pin(PinReason::Setting)));
        }
    }

    fn may_execute_forgotten(&self, executed: &[u8], template: Option<&Template>) -> bool {
        let is_named = !executed.is_empty() || template.is_none_or(Template::fetches);
        is_named && self.portals.are_forgotten()
    }

    fn executes_others(&self, executed: &[u8], template: Option<&Template>) -> bool {
        self.may_execute_forgotten(executed, template)
            || self.others(executed, template).next().is_some()
    }

    /// The possible use of sequences by the text, and by the portals that its execution may also execute.
    pub(super) fn sequences_of(&self, executed: &[u8], template: Option<&Template>) -> SequenceUse {
        match self.executes_others(executed, template) {
            true => SequenceUse::ANY,
            false => template.map_or(SequenceUse::ANY, Template::sequences),
        }
    }

    /// Whether the text, and the portals that its execution may also execute, only read.
    pub(super) fn only_reads(&self, executed: &[u8], template: Option<&Template>) -> bool {
        template.is_some_and(Template::only_reads) && !self.executes_others(executed, template)
    }

    /// The changes by the execution of a portal, and its hints.
    fn portal_effects(
        &self,
        portal: &[u8],
        template: Option<&Template>,
        context: &RelayContext<'_>,
    ) -> (Vec<SessionChange>, Hints) {
        let (mut changes, hints) = context.effects(template);
        let by_value = |change: &SessionChange| matches!(change, SessionChange::SetTo(_));
        if changes.iter().any(by_value)
            && let Some(portal) = self.portals.get(portal)
            && !portal.sets.is_empty()
        {
            changes.retain(|change| !by_value(change));
            changes.extend(portal.sets.iter().cloned());
        }
        (changes, hints)
    }
}

/// The types whose values have the bytes of a text; 0 and `unknown` become the type of the argument.
const TEXT_OIDS: [u32; 4] = [0, 25, 705, 1043];

const BOOL_OID: u32 = 16;

/// The changes, with the values of the bound parameters.
fn with_values(changes: &[SessionChange], rest: &[u8], template: &Template) -> Vec<SessionChange> {
    let is_of_type = |number: usize, wanted: ArgumentType| {
        let declared = declared_type(&template.types, number);
        TEXT_OIDS.contains(&declared) || declared == BOOL_OID && wanted == ArgumentType::Boolean
    };
    let values = BindValues::read(rest, 0).map(|bound| bound.values);
    let values = values.unwrap_or_default();
    let value = |number: usize, wanted: ArgumentType| -> Option<Bound<'_>> {
        if !is_of_type(number, wanted) {
            return None;
        }
        match values.get(number.checked_sub(1)?)? {
            None => Some(None),
            Some(range) => rest.get(range.clone()).map(Some),
        }
    };
    let calls = changes.iter().filter_map(|change| match change {
        SessionChange::SetTo(call) => Some(call.with(&value)),
        _ => None,
    });
    calls.flatten().collect()
}

/// The declared type of a parameter; 0 if there is none.
fn declared_type(types: &[u8], number: usize) -> u32 {
    let at = 2 + 4 * number.saturating_sub(1);
    let oid = types.get(at..).and_then(|rest| rest.first_chunk());
    oid.map_or(0, |oid| u32::from_be_bytes(*oid))
}
