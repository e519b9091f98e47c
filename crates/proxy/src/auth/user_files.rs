//! The files of users and rules: read at the start and by each reload, never during a login.

use super::hba::{Hba, HbaReferences};
use super::ident::{self, Maps};
use super::userlist;
use arc_swap::ArcSwap;
use paceline_config::{AuthType, Config, Login};
use paceline_pool::credentials::Users;
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use thiserror::Error;

/// The contents of the files.
#[derive(Debug, Default)]
pub struct UserFiles {
    /// `auth_file`; `None` without one.
    pub(super) users: Option<Arc<Users>>,
    /// `auth_hba_file`.
    pub(super) hba: Hba,
}

/// The reason why a file cannot be used.
#[derive(Debug, Error)]
pub enum UserFilesError {
    /// The file cannot be read.
    #[error(
        "cannot read {key} {file}: {reason}; check the path and that the user who runs paceline may read it"
    )]
    Unreadable {
        /// The configuration key of the file.
        key: &'static str,
        /// The path of the file.
        file: String,
        /// The error of the operating system.
        reason: std::io::Error,
    },
    /// A line is invalid.
    #[error("{file}:{line}: {why}")]
    Line {
        /// The path of the file.
        file: String,
        /// The number of the line, from 1.
        line: usize,
        /// The reason, without any secret.
        why: String,
    },
}

impl UserFiles {
    /// Whether `auth_file` has this user.
    pub fn has_user(&self, user: &str) -> bool {
        let users = self.users.as_ref();
        users.is_some_and(|users| users.contains_key(user))
    }

    /// Whether a login may need a certificate of the client.
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
    /// The first error in them.
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
        let references = HbaReferences {
            maps: &maps,
            file: &|name| std::fs::read_to_string(beside.join(name)),
        };
        let hba = read_file("auth_hba_file", path, |text| Hba::read(text, &references))?;
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

/// The files in force with their configuration. A login uses both as they were together.
pub(super) struct FilesInForce(ArcSwap<(Arc<Config>, Arc<UserFiles>)>);

impl FilesInForce {
    /// Creates the state for a configuration whose files have not been read.
    pub(super) fn new(config: &Arc<Config>) -> Self {
        Self(ArcSwap::from_pointee((Arc::clone(config), Arc::default())))
    }

    /// The configuration and files for a login.
    pub(super) fn now(&self) -> Arc<(Arc<Config>, Arc<UserFiles>)> {
        self.0.load_full()
    }

    /// Replaces both.
    pub(super) fn set(&self, config: &Arc<Config>, files: &Arc<UserFiles>) {
        let both = (Arc::clone(config), Arc::clone(files));
        self.0.store(Arc::new(both));
    }
}
