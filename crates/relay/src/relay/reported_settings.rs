//! Settings that the server reports (ParameterStatus): the values that follow the client.

use super::expect::Expect;
use super::state::{Disposition, RelayContext, RelayState, Untracked};
use crate::server::is_no_setting;
use bytes::Bytes;
use paceline_sql::{SessionChange, set_config_sql};
use paceline_wire::Frame;
use paceline_wire::backend;

impl RelayState {
    /// The server reports a setting.
    pub(super) fn reported(
        &mut self,
        frame: Frame<'_>,
        context: &mut RelayContext<'_>,
    ) -> Disposition {
        let Ok((name, value)) = backend::read_parameter_status(frame.body()) else {
            context.server.note_reported(frame.body());
            return Disposition::Forward;
        };
        let before = context
            .server
            .reported
            .insert(name.to_owned(), value.to_owned());
        if matches!(
            self.expect.front(),
            Some(
                Expect::InjectedQuery
                    | Expect::InjectedDiscardSequences
                    | Expect::InjectedSessionQuery(_)
            )
        ) {
            return Disposition::Swallow;
        }
        self.reported.entry(name.to_owned()).or_insert(before);
        if self.request.taken_away.is_empty() {
            return Disposition::Forward;
        }
        // Paceline sets the value with which the client began, and the server reports again.
        let statuses = &mut self.request.statuses;
        statuses.retain(|(known, _)| known != name);
        statuses.push((name.to_owned(), Bytes::copy_from_slice(frame.bytes)));
        Disposition::Swallow
    }

    /// The text has set it.
    pub(super) fn touches(&mut self, name: &str) {
        if !self.touched.iter().any(|known| known == name) {
            self.touched.push(name.to_owned());
        }
    }

    /// Replaces the text that set a setting by the value that the server reports. PostgreSQL may have read the text relative
    /// to an earlier value (`DateStyle` keeps the parts that the text does not name).
    pub(super) fn take_reported_values(&mut self, context: &mut RelayContext<'_>) {
        for name in std::mem::take(&mut self.touched) {
            let is_set = context.session.settings.sql_of(&name).is_some();
            if let Some(value) = context.server.reports(&name).filter(|_| is_set) {
                let sql = set_config_sql(&name, value);
                context.set_untracked(&SessionChange::Set { name, sql });
            }
        }
    }

    /// Settings that changed untracked, and that the server reports, follow the client.
    pub(super) fn follow_reported(&mut self, context: &mut RelayContext<'_>) {
        while let Some((name, before)) = self.reported.pop_first() {
            let now = context.server.reported.get(&name).cloned();
            let is_set = self.untracked != Untracked::Nothing && !is_no_setting(&name);
            if let Some(now) = now.filter(|now| is_set && before.as_ref() != Some(now)) {
                let name = name.to_ascii_lowercase();
                context.set_untracked(&SessionChange::Set {
                    sql: set_config_sql(&name, &now),
                    name,
                });
            }
        }
    }
}
