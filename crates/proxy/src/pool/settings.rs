//! The settings in force for a pool, with the part that the relay reads in the relay's own types.

use paceline_config::{ListenMode, PoolSettings, SessionState};
use paceline_relay::relay::{self, Keeping, StatePolicy};
use std::ops::Deref;

/// What the configuration says of a pool, in force until the next reload.
#[derive(Debug, Clone)]
pub(crate) struct SettingsInForce {
    settings: PoolSettings,
    /// What the relay does about the session state of clients.
    pub(crate) state: StatePolicy,
}

impl From<PoolSettings> for SettingsInForce {
    fn from(settings: PoolSettings) -> SettingsInForce {
        let state = StatePolicy {
            keeping: match settings.state.session_state {
                SessionState::Track => Keeping::Track,
                SessionState::Warn => Keeping::Warn,
                SessionState::Error => Keeping::Refuse,
                SessionState::Pin => Keeping::Pin,
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
