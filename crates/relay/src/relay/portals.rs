//! Portals: statements with values bound to them, and their execution.

use super::effects::uncertain;
use super::expect::{Execution, Expect};
use super::not_yet::NotYet;
use super::portal_map::{Others, Portal};
use super::state::{RelayContext, RelayState};
use super::targeted_portal::TargetedPortal;
use crate::server::StatementKey;
use crate::template::Template;
use bytes::BytesMut;
use paceline_sql::{ArgumentType, Bound, Effect, Hints, PinReason, SequenceUse, SessionChange};
use paceline_wire::Frame;
use paceline_wire::frontend::{BindNames, BindValues};
use paceline_wire::reader::Reader;
use std::sync::Arc;

/// The text, or the portal, that is about to be executed.
#[derive(Clone, Copy)]
pub(super) enum Run<'a> {
    Text(&'a Template),
    /// The portal with this name. Without a template, its statement is not known.
    Portal(&'a [u8], Option<&'a Template>),
}

impl<'a> Run<'a> {
    fn template(self) -> Option<&'a Template> {
        match self {
            Run::Text(template) => Some(template),
            Run::Portal(_, template) => template,
        }
    }
}

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
        let targeted = bound.and_then(|bound| bound.targeted.clone());
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
        let run = Run::Portal(portal, template);
        self.notes_writes(run, context);
        let (mut changes, hints) = self.portal_effects(portal, template, context);
        self.add_effects_of_others(run, &mut changes, context);
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
        self.note_draws(self.sequences_of(run, context), context);
        self.discards_sequences(&changes, false, context);
        context.meet_temporaries(&changes, self);
        let drops = changes.iter().any(SessionChange::drops_statements);
        self.marks_listening(&changes, context, out);
        let mut execution = Execution::from((changes, hints));
        let targeted = targeted.map(|portal| portal.execute(frame, out));
        match targeted.and_then(Result::ok) {
            Some(targeted) => {
                execution.targeted = Some(Box::new(targeted));
                self.expect.push_back(Expect::Execute(execution));
            }
            None => self.pass(frame, Expect::Execute(execution), out),
        }
        if drops {
            self.close_all_at_execute(context);
        }
        Ok(())
    }

    /// A `Bind` of the statement is about to be sent. PostgreSQL plans the statement then, and calls functions that are declared IMMUTABLE or
    /// STABLE, also if the client does not execute it.
    pub(super) fn note_planning(&mut self, template: &Template, context: &mut RelayContext<'_>) {
        if (context.may_change_session)(template) {
            let change = SessionChange::FunctionsCalled;
            self.note_untracked(&change, context);
            context.hide_settings(&[change]);
        }
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
            targeted: (template.hints().target_affect_row).map(|_| TargetedPortal::default()),
        };
        self.portals.bind(bind.portal, portal);
    }

    /// The portals that the execution may also execute.
    fn others<'a>(&self, run: Run<'a>, context: &RelayContext<'_>) -> Others<'a> {
        let cursors = run.template().is_none_or(|t| context.may_fetch(t));
        let former_of = match run {
            Run::Portal(b"", _) if self.portals.replaces_unnamed() => None,
            Run::Portal(name, _) => Some(name),
            Run::Text(_) => None,
        };
        Others { former_of, cursors }
    }

    /// Adds the possible changes by the portals that the execution may also execute.
    pub(super) fn add_effects_of_others(
        &mut self,
        run: Run<'_>,
        changes: &mut Vec<SessionChange>,
        context: &RelayContext<'_>,
    ) {
        let others = self.others(run, context);
        self.work += self.portals.read_by_also(others);
        let effects = |portal: &Portal| uncertain(context.effects(Some(&portal.template)).0);
        changes.extend(self.portals.also(others).flat_map(effects));
        if self.portals.are_forgotten(others) {
            changes.push(SessionChange::Anything);
            let pins = others.cursors || others.former_of == Some(b"");
            changes.extend(pins.then_some(SessionChange::Pin(PinReason::Setting)));
        }
    }

    fn executes_others(&self, run: Run<'_>, context: &RelayContext<'_>) -> bool {
        let others = self.others(run, context);
        self.portals.are_forgotten(others) || self.portals.also(others).next().is_some()
    }

    /// The possible use of sequences by the execution, and by that of the portals that it may also execute.
    pub(super) fn sequences_of(&self, run: Run<'_>, context: &RelayContext<'_>) -> SequenceUse {
        match self.executes_others(run, context) {
            true => SequenceUse::ANY,
            false => run.template().map_or(SequenceUse::ANY, Template::sequences),
        }
    }

    /// Whether the execution, and that of the portals that it may also execute, only reads.
    pub(super) fn only_reads(&self, run: Run<'_>, context: &RelayContext<'_>) -> bool {
        let reads = run.template().is_some_and(Template::only_reads);
        reads && !self.executes_others(run, context)
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
