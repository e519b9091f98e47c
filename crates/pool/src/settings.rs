//! The settings of a pool, with the relay's settings in the relay's own types.
//!
//! `Settings` has the keys of `[paceline]`, and [`PoolSettings`] the same with the overrides for the pool's database and user.
//! [`SettingsInForce`] dereferences to [`PoolSettings`]; its field `state` has the values for the relay, which does not know the
//! configuration. `PoolConfig` holds it together with the server's address, the grouping policy and the limits of the line.

use paceline_config::{ListenMode, PoolSettings, SessionState};
use paceline_relay::relay::{self, SessionStateMode, StatePolicy};
use std::ops::Deref;

/// The settings of a pool, in force until the next reload.
#[derive(Debug, Clone)]
pub struct SettingsInForce {
    settings: PoolSettings,
    /// The relay's treatment of the session state of clients.
    pub state: StatePolicy,
}

impl From<PoolSettings> for SettingsInForce {
    fn from(settings: PoolSettings) -> SettingsInForce {
        let state = StatePolicy {
            session_state: match settings.state.session_state {
                SessionState::Track => SessionStateMode::Track,
                SessionState::Warn => SessionStateMode::Warn,
                SessionState::Error => SessionStateMode::Refuse,
                SessionState::Pin => SessionStateMode::Pin,
            },
            extra: settings.asked_parameters.clone(),
            listen_mode: match settings.state.listen_mode {
                ListenMode::Session => relay::ListenMode::Session,
                ListenMode::Shared => relay::ListenMode::Shared,
            },
        };
        SettingsInForce { settings, state }
    }
}

impl Deref for SettingsInForce {
    type Target = PoolSettings;

    fn deref(&self) -> &PoolSettings {
        &self.settings
    }
}
