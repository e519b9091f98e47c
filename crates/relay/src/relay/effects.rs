//! The changes of the session by a statement: by its text, its functions and the statements that it executes by name.

use super::state::RelayContext;
use crate::template::Template;
use paceline_sql::{Effect, Hints, Named, PinReason, SessionChange};
use std::sync::Arc;

/// The changes of a statement of which it is not known whether it is executed, and when. If it changes settings, the client is pinned.
pub(super) fn uncertain(mut changes: Vec<SessionChange>) -> Vec<SessionChange> {
    use SessionChange::{Anything, FunctionsCalled, LocalSettings, Pin};
    let is_plain = |change: &SessionChange| {
        matches!(change, FunctionsCalled | Pin(_) | Anything | LocalSettings)
    };
    if !changes.iter().all(is_plain) {
        changes.retain(is_plain);
        changes.extend([Anything, Pin(PinReason::Setting)]);
    }
    changes
}

impl RelayContext<'_> {
    /// The changes of the session by a statement, and its hints. An unknown statement may change anything.
    pub(super) fn effects(&self, template: Option<&Template>) -> (Vec<SessionChange>, Hints) {
        let Some(template) = template else {
            return (vec![SessionChange::Anything], Hints::default());
        };
        let mut changes = self.effects_of_text(template);
        match template.named() {
            Some(Named::Execute { runs: true, .. }) => {}
            Some(Named::Execute { runs: false, .. }) => {
                let target = self.executed(template);
                let calls = target.is_none_or(|target| (self.may_change_session)(&target));
                changes.extend(calls.then_some(SessionChange::FunctionsCalled));
                return (changes, template.hints());
            }
            Some(Named::Uses {
                names,
                executes: true,
            }) => {
                // Noted with the first statement of the text: a later one may fail after a COMMIT.
                let names = names.iter();
                let may = names.flat_map(|name| self.possible_effects(name));
                let changes = may.chain(changes).collect();
                return (changes, template.hints());
            }
            _ => return (changes, template.hints()),
        }
        let Some(target) = self.executed(template) else {
            // Only the server has this statement, so its text is unknown.
            changes.push(SessionChange::Anything);
            return (changes, template.hints());
        };
        // The changes of the EXECUTE itself come first.
        changes.extend(self.effects_of_text(&target).into_iter().filter_map(
            |change| match change {
                SessionChange::SetTo(call) => call.unbound(),
                other => Some(other),
            },
        ));
        (changes, target.hints())
    }

    /// The possible changes by a text of several statements, or a DO, if it executes the statement with this name. Whether it does so, and
    /// when, is unknown. If the statement changes settings, the client is pinned.
    fn possible_effects(&self, name: &str) -> Vec<SessionChange> {
        use SessionChange::Anything;
        let Some(target) = self.session.statements.get(name.as_bytes()) else {
            // Only the server has this statement, or there is none.
            return vec![Anything];
        };
        uncertain(self.effects_of_text(target))
    }

    /// The changes of the session by the statement's own text.
    fn effects_of_text(&self, template: &Template) -> Vec<SessionChange> {
        let mut changes = match template.effect() {
            Some(Effect::Session(changes)) => changes.clone(),
            Some(_) => Vec::new(),
            // Its triggers may do the same as functions.
            None if template.is_bulk() => vec![SessionChange::FunctionsCalled],
            // No other server would get the setting.
            None if template.may_set_untracked() => {
                vec![
                    SessionChange::Anything,
                    SessionChange::Pin(PinReason::Setting),
                ]
            }
            None => vec![SessionChange::Anything],
        };
        if (self.may_change_session)(template) {
            let single = template
                .statement
                .as_ref()
                .is_some_and(|s| s.statements == 1);
            // A function may set the path of a later statement of the text.
            if !single && template.may_create() {
                changes.insert(0, SessionChange::Anything);
            }
            changes.insert(0, SessionChange::FunctionsCalled);
        }
        if self.may_make_temporaries(template) {
            changes.insert(0, SessionChange::Anything);
        }
        changes
    }

    /// Whether the statement may create objects in the temporary schema without naming it.
    fn may_make_temporaries(&self, template: &Template) -> bool {
        let makes = match template.effect() {
            Some(Effect::Read | Effect::Write) => false,
            Some(Effect::Session(changes)) => !matches!(
                changes.as_slice(),
                [SessionChange::Deallocate { .. } | SessionChange::DeallocateAll]
            ),
            Some(Effect::Other) | None => true,
        };
        let is_named = self.session.settings.name_temporaries() || self.server.names_temporaries();
        makes && is_named || self.server.path_unknown && template.may_create()
    }

    /// Whether the text may fetch from a portal as from a cursor, also by a statement that it executes by name.
    pub(super) fn may_fetch(&self, template: &Template) -> bool {
        let may = |name: &String| {
            let target = self.session.statements.get(name.as_bytes());
            target.is_none_or(|target| target.fetches() || target.named().is_some())
        };
        template.fetches()
            || match template.named() {
                Some(Named::Execute {
                    name, runs: true, ..
                }) => may(name),
                Some(Named::Uses {
                    names,
                    executes: true,
                }) => names.iter().any(may),
                _ => false,
            }
    }

    /// The client's statement that this one executes by name.
    pub(super) fn executed(&self, template: &Template) -> Option<Arc<Template>> {
        let Named::Execute { name, .. } = template.named()? else {
            return None;
        };
        let target = self.session.statements.get(name.as_bytes())?;
        // PostgreSQL rejects a statement that executes itself.
        let is_last = !matches!(target.named(), Some(Named::Execute { .. }));
        is_last.then(|| Arc::clone(target))
    }
}
