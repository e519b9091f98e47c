//! The files about users: read at the start, and again whenever the configuration is. A file that has become unreadable leaves
//! what was read before: an operator's slip must not lock everybody out.

use super::hba::{Elsewhere, Hba};
use super::ident::{self, Maps};
use super::userlist::{self, Users};
use crate::config::{Config, Login};
use std::fmt::Display;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use thiserror::Error;

/// What the files say.
#[derive(Debug, Default)]
pub(super) struct Records {
    /// `auth_file`; `None`: there is none.
    pub(super) users: Option<Users>,
    /// `auth_hba_file`.
    pub(super) hba: Hba,
}

/// Why a file cannot be used.
#[derive(Debug, Error)]
pub(crate) enum RecordsError {
    /// It cannot be read at all.
    #[error(
        "cannot read {key} {file}: {source}; check the path and that the user who runs paceline may read it"
    )]
    Unreadable {
        /// The key that names it.
        key: &'static str,
        /// Its path.
        file: String,
        /// What the operating system said.
        source: std::io::Error,
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

impl Records {
    /// Reads the files that the settings name.
    ///
    /// # Errors
    /// The first thing that is wrong with them.
    pub(super) fn read(login: &Login) -> Result<Self, RecordsError> {
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
            users,
            hba: hba.unwrap_or_default(),
        })
    }
}

fn read_file<T, W: Display>(
    key: &'static str,
    path: Option<&Path>,
    read: impl FnOnce(&str) -> Result<T, (usize, W)>,
) -> Result<Option<T>, RecordsError> {
    let Some(path) = path else { return Ok(None) };
    let file = path.display().to_string();
    match std::fs::read_to_string(path) {
        Ok(text) => match read(&text) {
            Ok(records) => Ok(Some(records)),
            Err((line, why)) => Err(RecordsError::Line {
                file,
                line,
                why: why.to_string(),
            }),
        },
        Err(source) => Err(RecordsError::Unreadable { key, file, source }),
    }
}

/// The records that go with a configuration.
#[derive(Default)]
pub(super) struct Archive {
    read: Mutex<Option<(Arc<Config>, Arc<Records>)>>,
}

impl Archive {
    /// Reads the files of a configuration.
    ///
    /// # Errors
    /// What is wrong with them; then everything stays as it is.
    pub(super) fn open(&self, config: &Arc<Config>) -> Result<(), RecordsError> {
        let records = Arc::new(Records::read(&config.paceline.login)?);
        *self.lock() = Some((Arc::clone(config), records));
        Ok(())
    }

    /// What the files of this configuration say. They are read again when it is not the one of the last time, though it may say
    /// the same.
    pub(super) fn records(&self, config: &Arc<Config>) -> Arc<Records> {
        let mut read = self.lock();
        if let Some((of, records)) = read.as_ref()
            && Arc::ptr_eq(of, config)
        {
            return Arc::clone(records);
        }
        let before = read.take().map(|(_, records)| records);
        let records = match Records::read(&config.paceline.login) {
            Ok(records) => Arc::new(records),
            Err(error) => {
                tracing::error!(%error, "what was known of users before still counts");
                before.unwrap_or_default()
            }
        };
        *read = Some((Arc::clone(config), Arc::clone(&records)));
        records
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<(Arc<Config>, Arc<Records>)>> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    struct Folder(PathBuf);

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn config(path: &Path) -> Arc<Config> {
        let mut config = Config::default();
        config
            .set(&format!("auth_file={}", path.display()))
            .unwrap();
        Arc::new(config)
    }

    fn names(records: &Records) -> Vec<&str> {
        let users = records.users.as_ref().unwrap();
        users.keys().map(String::as_str).collect()
    }

    #[test]
    fn files_are_read_again_with_the_configuration_and_a_slip_changes_nothing() {
        let name = format!("paceline-records-{}", std::process::id());
        let folder = Folder(std::env::temp_dir().join(name));
        std::fs::create_dir_all(&folder.0).unwrap();
        let path = folder.0.join("userlist.txt");
        let archive = Archive::default();
        std::fs::write(&path, "\"one\" \"p\"").unwrap();
        let first = config(&path);
        archive.open(&first).unwrap();
        std::fs::write(&path, "\"two\" \"p\"").unwrap();
        assert_eq!(names(&archive.records(&first)), ["one"]);
        let second = config(&path);
        assert_eq!(names(&archive.records(&second)), ["two"]);
        std::fs::write(&path, "three").unwrap();
        let third = config(&path);
        assert!(archive.open(&third).is_err());
        assert_eq!(names(&archive.records(&third)), ["two"]);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(names(&archive.records(&config(&path))), ["two"]);
    }
}
