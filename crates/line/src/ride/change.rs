//! What the client's statements change in its session, as they complete.

use super::keep::Keeping;
use super::{Desk, Expect, Portal, Ride};
use crate::ride::inward::Pass;
use crate::ride::repeat::Repeat;
use crate::settings::Settings;
use crate::template::Template;
use bytes::{Bytes, BytesMut};
use paceline_sql::{Effect, Hints, Kept, Named, SessionChange, set_config_sql, set_to};
use paceline_wire::Frame;
use paceline_wire::backend::{self, Status};
use paceline_wire::frontend::{self, BindValues};
use std::collections::HashMap;
use std::sync::Arc;

/// Room for so many portals is kept for the next transaction: to clear more would cost each of them.
const PORTALS_KEPT_MAX: usize = 64;

/// What may have changed the session since it was idle, without the text telling how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Unseen {
    /// Nothing.
    #[default]
    Nothing,
    /// Functions were called.
    Called,
    /// The text itself may have done anything.
    Anything,
}

/// Parameters that a server reports and no client sets by their name.
const NOT_SET: [&str; 6] = [
    "server_version",
    "server_encoding",
    "integer_datetimes",
    "in_hot_standby",
    "is_superuser",
    "session_authorization",
];

/// Might the client have let go of something by this command?
fn may_let_go(command: &[u8]) -> bool {
    let ends = [
        &b"COMMIT\0"[..],
        b"ROLLBACK\0",
        b"PREPARE TRANSACTION\0",
        b"UNLISTEN\0",
        b"DISCARD TEMP\0",
    ];
    ends.contains(&command)
        || [&b"DROP "[..], b"CLOSE CURSOR", b"DEALLOCATE"]
            .iter()
            .any(|head| command.starts_with(head))
}

impl Ride {
    /// A statement has completed with `command`.
    pub(super) fn change(
        &mut self,
        command: &[u8],
        changes: &[SessionChange],
        desk: &mut Desk<'_>,
        to_client: &mut BytesMut,
    ) {
        for change in changes {
            self.apply(change, desk, to_client);
        }
        let to_savepoint = |c: &SessionChange| matches!(c, SessionChange::RollbackTo { .. });
        match command {
            b"COMMIT\0" | b"PREPARE TRANSACTION\0" => self.journal.commit(),
            b"ROLLBACK\0" if !changes.iter().any(to_savepoint) => {
                desk.put_in_force(self.journal.roll_back());
            }
            _ => {}
        }
        if !self.kept.is_empty() && may_let_go(command) {
            self.unit.lets_go = true;
        }
    }

    fn apply(&mut self, change: &SessionChange, desk: &mut Desk<'_>, to_client: &mut BytesMut) {
        match change {
            SessionChange::Pin(kept) => self.keep(*kept, desk, to_client),
            SessionChange::LetGo => self.unit.lets_go = true,
            SessionChange::Taint | SessionChange::Called => self.goes_unseen(change, desk),
            SessionChange::Deallocate { name } => desk.server.forget_name(name),
            SessionChange::DeallocateAll => self.lose_all(desk),
            SessionChange::DiscardAll => self.discard_all(desk),
            // On another server it would be missing.
            SessionChange::Set { .. } if desk.session.settings.are_too_many_with(change) => {
                self.keep(Kept::Setting, desk, to_client);
            }
            SessionChange::Set { .. } | SessionChange::Reset { .. } | SessionChange::ResetAll => {
                self.set(change, desk);
            }
            // What is in force after a rollback to it is the server's to know.
            SessionChange::Savepoint { .. } if self.journal.is_full() => {
                self.keep(Kept::Setting, desk, to_client);
            }
            SessionChange::Savepoint { name } => {
                self.journal.savepoint(name, &desk.session.settings);
            }
            SessionChange::Release { name } => self.journal.release(name),
            SessionChange::RollbackTo { name } => {
                desk.put_in_force(self.journal.roll_back_to(name));
            }
            SessionChange::SetTo { .. } | SessionChange::Next => {}
        }
    }

    fn goes_unseen(&mut self, change: &SessionChange, desk: &mut Desk<'_>) {
        desk.server.tainted = true;
        desk.server.strewn |= *change == SessionChange::Taint;
        self.unseen = self.unseen.max(match change {
            SessionChange::Taint => Unseen::Anything,
            _ => Unseen::Called,
        });
    }

    fn set(&mut self, change: &SessionChange, desk: &mut Desk<'_>) {
        let session = &mut *desk.session;
        // Each change makes a copy of them all.
        self.work += session.settings.len();
        self.journal.changes(&session.settings);
        // The server went back to its own default, not to the client's.
        self.unit.taken_away.extend(session.base.taken_away(change));
        let settings = desk.book.after(&session.settings, &session.base, change);
        desk.put_in_force(Some(settings));
        // These were sent before the change was known, and parsed after it.
        let parses = self.expect.take_parses();
        parses.for_each(|key| desk.server.retire(key));
    }

    /// All statements are gone. (Those of a portal's client went when it was sent: see [`Ride::drops_all`].)
    fn lose_all(&mut self, desk: &mut Desk<'_>) {
        if let Some(Expect::Query { .. }) = self.expect.front() {
            desk.session.close_all();
            desk.server.forget_all();
        }
    }

    fn discard_all(&mut self, desk: &mut Desk<'_>) {
        self.lose_all(desk);
        let base = Arc::clone(&desk.session.base);
        let taken_away = base.taken_away(&SessionChange::DiscardAll);
        self.unit.taken_away = taken_away.into_iter().collect();
        desk.put_in_force(Some(base));
        desk.server.spent |= self.kept.iter().any(|kept| !kept.can_be_discarded());
        self.kept.clear();
    }

    /// What fails may leave something behind.
    pub(super) fn leave_behind(&mut self, desk: &mut Desk<'_>) {
        let Some(front) = self.expect.front() else {
            return;
        };
        for change in front.may_leave().to_vec() {
            match change {
                SessionChange::Pin(kept) => {
                    desk.server.tainted = true;
                    desk.server.spent |= !kept.can_be_discarded();
                    // No rollback frees a lock of the session.
                    if kept == Kept::AdvisoryLock && desk.state.keeping == Keeping::Pin {
                        self.pin(kept);
                    }
                }
                SessionChange::Taint | SessionChange::Called => self.goes_unseen(&change, desk),
                _ => {}
            }
        }
    }

    /// The server is ready: what a transaction that has ended did to settings holds, or never was.
    pub(super) fn settle_settings(&mut self, desk: &mut Desk<'_>) {
        if self.status != Status::Idle {
            return;
        }
        match self.unit.failed {
            true => desk.put_in_force(self.journal.roll_back()),
            false => self.journal.commit(),
        }
    }

    /// Gives the client back what it began with, where its RESET went to the server's own defaults. True: the server is
    /// being told.
    pub(super) fn restore(&mut self, desk: &mut Desk<'_>, to_server: &mut BytesMut) -> bool {
        let undone = self.unit.failed && self.status == Status::Idle;
        if self.unit.taken_away.is_empty() || undone || self.status == Status::Failed {
            return false;
        }
        let wanted = |name: &str| self.unit.taken_away.contains(name);
        let sql = desk.session.settings.sql_where(wanted);
        if sql.is_empty() {
            return false;
        }
        frontend::write_query(to_server, &sql);
        desk.server.unnamed = None;
        self.expect.push_front(Expect::Restoring);
        true
    }

    /// The unit is over, and its client knows.
    pub(super) fn settle(&mut self, desk: &mut Desk<'_>, to_server: &mut BytesMut) {
        let unit = std::mem::take(&mut self.unit);
        self.status_before = self.status;
        self.wrap = super::Wrap::No;
        self.repeat = Repeat::No;
        if self.status != Status::Idle {
            return;
        }
        match self.portals.capacity() > PORTALS_KEPT_MAX {
            true => self.portals = HashMap::new(),
            false => self.portals.clear(),
        }
        self.follow_reported(desk);
        self.ask(&unit, desk, to_server);
        self.unseen = Unseen::Nothing;
    }

    /// The server reports a setting.
    pub(super) fn reported(&mut self, frame: Frame<'_>, desk: &mut Desk<'_>) -> Pass {
        let Ok((name, value)) = backend::read_parameter_status(frame.body()) else {
            return Pass::Forward;
        };
        let before = desk
            .server
            .reported
            .insert(name.to_owned(), value.to_owned());
        if matches!(
            self.expect.front(),
            Some(Expect::OwnQuery | Expect::Asking(_))
        ) {
            return Pass::Swallow;
        }
        self.reported.entry(name.to_owned()).or_insert(before);
        if self.unit.taken_away.is_empty() {
            return Pass::Forward;
        }
        // Not the last word: what the client began with is put in force again.
        let statuses = &mut self.unit.statuses;
        statuses.retain(|(known, _)| known != name);
        statuses.push((name.to_owned(), Bytes::copy_from_slice(frame.bytes)));
        Pass::Swallow
    }

    /// What was set unseen, and the server reports, follows the client, too.
    fn follow_reported(&mut self, desk: &mut Desk<'_>) {
        for (name, before) in std::mem::take(&mut self.reported) {
            let now = desk.server.reported.get(&name).cloned();
            let is_set = self.unseen != Unseen::Nothing && !NOT_SET.contains(&name.as_str());
            if let Some(now) = now.filter(|now| is_set && before.as_ref() != Some(now)) {
                let name = name.to_ascii_lowercase();
                desk.set_unseen(&SessionChange::Set {
                    sql: set_config_sql(&name, &now),
                    name,
                });
            }
        }
    }

    /// The client bound values to a statement.
    pub(super) fn open_portal(&mut self, name: &[u8], values: &[u8], template: &Arc<Template>) {
        let by_value = |c: &&SessionChange| matches!(c, SessionChange::SetTo { .. });
        let sets = match template.effect() {
            Some(Effect::Session(changes)) => changes.iter().filter(by_value).collect(),
            _ => Vec::new(),
        };
        let portal = Portal {
            template: Arc::clone(template),
            sets: with_values(&sets, values),
        };
        self.portals.insert(name.into(), portal);
    }

    /// What the execution of a portal changes, and its hints.
    pub(super) fn what_portal_does(
        &self,
        portal: &[u8],
        desk: &Desk<'_>,
    ) -> (Vec<SessionChange>, Hints) {
        let Some(portal) = self.portals.get(portal) else {
            return desk.what_it_does(None);
        };
        let (mut changes, hints) = desk.what_it_does(Some(&portal.template));
        if !portal.sets.is_empty() {
            changes.retain(|change| !matches!(change, SessionChange::SetTo { .. }));
            changes.extend(portal.sets.iter().cloned());
        }
        (changes, hints)
    }
}

/// Settings by parameter, with the values that were bound to them.
fn with_values(changes: &[&SessionChange], rest: &[u8]) -> Vec<SessionChange> {
    if changes.is_empty() {
        return Vec::new();
    }
    let bound = BindValues::read(rest, 0).ok();
    let values = bound.as_ref().map_or(&[][..], |bound| &bound.values);
    let with_value = |change: &&SessionChange| {
        let SessionChange::SetTo { name, parameter } = *change else {
            return vec![SessionChange::clone(change)];
        };
        let place = parameter.checked_sub(1);
        match place.and_then(|place| values.get(place)) {
            Some(None) => set_to(name, None),
            Some(Some(range)) => match rest.get(range.clone()).map(std::str::from_utf8) {
                Some(Ok(text)) => set_to(name, Some(text)),
                _ => vec![SessionChange::Pin(Kept::Setting)],
            },
            None => vec![SessionChange::Pin(Kept::Setting)],
        }
    };
    changes.iter().flat_map(with_value).collect()
}

impl Desk<'_> {
    /// These settings are the client's now, and in force on its server.
    fn put_in_force(&mut self, settings: Option<Arc<Settings>>) {
        if let Some(settings) = settings {
            self.server.settings = Arc::clone(&settings);
            self.session.settings = settings;
        }
    }

    /// A setting whose change the text did not tell.
    pub(super) fn set_unseen(&mut self, change: &SessionChange) {
        let session = &self.session;
        let settings = self.book.after(&session.settings, &session.base, change);
        self.put_in_force(Some(settings));
    }

    /// What a statement changes in the session, and its hints. An unknown one may change anything.
    pub(super) fn what_it_does(&self, template: Option<&Template>) -> (Vec<SessionChange>, Hints) {
        let Some(template) = template else {
            return (vec![SessionChange::Taint], Hints::default());
        };
        let mut changes = self.what_it_says(template);
        let Some(Named::Execute { runs: true, .. }) = template.named() else {
            return (changes, template.hints());
        };
        let Some(target) = self.executed(template) else {
            // One that only its server has: nobody has seen its text.
            changes.push(SessionChange::Taint);
            return (changes, template.hints());
        };
        // The statement's own arguments and table come first.
        changes.extend(
            self.what_it_says(&target)
                .into_iter()
                .map(|change| match change {
                    SessionChange::SetTo { .. } => SessionChange::Pin(Kept::Setting),
                    other => other,
                }),
        );
        (changes, target.hints())
    }

    /// What a statement changes by its own text.
    fn what_it_says(&self, template: &Template) -> Vec<SessionChange> {
        let mut changes = match template.effect() {
            Some(Effect::Session(changes)) => changes.clone(),
            Some(_) => Vec::new(),
            // Its triggers may do what functions do.
            None if template.is_bulk() => vec![SessionChange::Called],
            // Another server would have to be told.
            None if template.may_set_unseen() => {
                vec![SessionChange::Taint, SessionChange::Pin(Kept::Setting)]
            }
            None => vec![SessionChange::Taint],
        };
        if (self.taints)(template) {
            changes.insert(0, SessionChange::Called);
        }
        if self.may_make_temporaries(template) {
            changes.insert(0, SessionChange::Taint);
        }
        changes
    }

    /// Might it make something in the session's temporary schema without naming that?
    fn may_make_temporaries(&self, template: &Template) -> bool {
        let makes = match template.effect() {
            Some(Effect::Read | Effect::Write) => false,
            Some(Effect::Session(changes)) => !matches!(
                changes.as_slice(),
                [SessionChange::Deallocate { .. } | SessionChange::DeallocateAll]
            ),
            Some(Effect::Other) | None => true,
        };
        makes && (self.session.settings.name_temporaries() || self.server.names_temporaries())
    }

    /// The statement of the client that this one executes by name.
    pub(super) fn executed(&self, template: &Template) -> Option<Arc<Template>> {
        let Named::Execute { name, .. } = template.named()? else {
            return None;
        };
        let target = self.session.statement(name.as_bytes())?;
        // A statement that executes itself by name is PostgreSQL's to refuse.
        let is_last = !matches!(target.named(), Some(Named::Execute { .. }));
        is_last.then(|| Arc::clone(target))
    }
}
