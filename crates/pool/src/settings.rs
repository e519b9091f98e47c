//! The settings in force for a pool, with the part that the relay reads in the relay's own types.

use paceline_config::{ListenMode, PoolSettings, SessionState};
use paceline_relay::relay::{self, SessionStateMode, StatePolicy};
use std::ops::Deref;

/// What the configuration says of a pool, in force until the next reload.
#[derive(Debug, Clone)]
pub struct SettingsInForce {
    settings: PoolSettings,
    /// What the relay does about the session state of clients.
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
