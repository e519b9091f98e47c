//! The files about users: read at the start, and again whenever the configuration is. Nobody who logs in waits for a file.

use super::hba::{Elsewhere, Hba};
use super::ident::{self, Maps};
use super::userlist;
use arc_swap::ArcSwap;
use paceline_config::{AuthType, Config, Login};
use paceline_pool::credentials::Users;
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use thiserror::Error;

/// What the files say.
#[derive(Debug, Default)]
pub struct UserFiles {
    /// `auth_file`; `None`: there is none.
    pub(super) users: Option<Arc<Users>>,
    /// `auth_hba_file`.
    pub(super) hba: Hba,
}

/// Why a file cannot be used.
#[derive(Debug, Error)]
pub enum UserFilesError {
    /// It cannot be read at all.
    #[error(
        "cannot read {key} {file}: {reason}; check the path and that the user who runs paceline may read it"
    )]
    Unreadable {
        /// The key that names it.
        key: &'static str,
        /// Its path.
        file: String,
        /// What the operating system said.
        reason: std::io::Error,
    },
    /// A line of it is wrong.
    #[error("{file}:{line}: {why}")]
    Line {
        /// Its path.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong, without repeating a secret.
        why: String,
    },
}

impl UserFiles {
    /// Whether `auth_file` has this user.
    pub fn has_user(&self, user: &str) -> bool {
        let users = self.users.as_ref();
        users.is_some_and(|users| users.contains_key(user))
    }

    /// May a client be asked for a certificate to log in?
    pub fn ask_for_certificates(&self, login: &Login) -> bool {
        match login.auth_type {
            AuthType::Cert => true,
            AuthType::Hba => self.hba.asks_for_certificates(),
            _ => false,
        }
    }

    /// Whether both settings name the same files.
    pub fn are_those_of(one: &Login, other: &Login) -> bool {
        let files = |login: &Login| {
            let Login {
                auth_file,
                auth_hba_file,
                auth_ident_file,
                ..
            } = login;
            [auth_file, auth_hba_file, auth_ident_file].map(Clone::clone)
        };
        files(one) == files(other)
    }

    /// Reads the files that the settings name.
    ///
    /// # Errors
    /// The first thing that is wrong with them.
    pub fn read(login: &Login) -> Result<Self, UserFilesError> {
        let users = read_file("auth_file", login.auth_file.as_deref(), userlist::read)?;
        let maps = read_file(
            "auth_ident_file",
            login.auth_ident_file.as_deref(),
            ident::read,
        )?;
        let maps: Maps = maps.unwrap_or_default();
        let path = login.auth_hba_file.as_deref();
        let beside = path.and_then(Path::parent).unwrap_or(Path::new("/"));
        let elsewhere = Elsewhere {
            maps: &maps,
            file: &|name| std::fs::read_to_string(beside.join(name)),
        };
        let hba = read_file("auth_hba_file", path, |text| Hba::read(text, &elsewhere))?;
        Ok(Self {
            users: users.map(Arc::new),
            hba: hba.unwrap_or_default(),
        })
    }
}

fn read_file<T, W: Display>(
    key: &'static str,
    path: Option<&Path>,
    read: impl FnOnce(&str) -> Result<T, (usize, W)>,
) -> Result<Option<T>, UserFilesError> {
    let Some(path) = path else { return Ok(None) };
    let file = path.display().to_string();
    match std::fs::read_to_string(path) {
        Ok(text) => match read(&text) {
            Ok(files) => Ok(Some(files)),
            Err((line, why)) => Err(UserFilesError::Line {
                file,
                line,
                why: why.to_string(),
            }),
        },
        Err(reason) => Err(UserFilesError::Unreadable { key, file, reason }),
    }
}

/// The files that are in force, and the configuration that they go with: a login goes by both as they were together.
pub(super) struct FilesInForce(ArcSwap<(Arc<Config>, Arc<UserFiles>)>);

impl FilesInForce {
    /// No files have been read for this configuration.
    pub(super) fn new(config: &Arc<Config>) -> Self {
        Self(ArcSwap::from_pointee((Arc::clone(config), Arc::default())))
    }

    /// What a login goes by.
    pub(super) fn now(&self) -> Arc<(Arc<Config>, Arc<UserFiles>)> {
        self.0.load_full()
    }

    /// From now on these are in force.
    pub(super) fn set(&self, config: &Arc<Config>, files: &Arc<UserFiles>) {
        let both = (Arc::clone(config), Arc::clone(files));
        self.0.store(Arc::new(both));
    }
}
