//! The default folder for the data of the embedded PostgreSQL.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The folder for root, if the user who runs PostgreSQL cannot reach root's own folder.
const SYSTEM_DATA_FOLDER: &str = "/var/lib/paceline";

/// The permission of other users to pass through a folder.
const OTHERS_PASS: u32 = 0o001;

/// The user's folders.
#[derive(Debug, Clone, Default)]
pub(super) struct Home {
    /// `XDG_DATA_HOME`.
    pub(super) data_home: Option<PathBuf>,
    /// `HOME`.
    pub(super) home: Option<PathBuf>,
    /// Does this process run as root?
    pub(super) root: bool,
}

impl Home {
    /// Reads the folders of the user of this process.
    pub(super) fn read() -> Home {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        Home {
            data_home: variable("XDG_DATA_HOME").map(PathBuf::from),
            home: variable("HOME").map(PathBuf::from),
            // The effective user of a process owns its folder in /proc.
            root: std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0),
        }
    }

    /// The folder for the data of the embedded PostgreSQL; `None` if there is no home folder.
    pub(super) fn data_folder(&self) -> Option<PathBuf> {
        // The XDG specification ignores relative paths.
        let data_home = self.data_home.clone().filter(|folder| folder.is_absolute());
        let home = || self.home.as_ref().filter(|home| home.is_absolute());
        let data_home = data_home.or_else(|| Some(home()?.join(".local/share")));
        if self.root && !data_home.as_deref().is_some_and(others_reach) {
            return Some(PathBuf::from(SYSTEM_DATA_FOLDER));
        }
        Some(data_home?.join("paceline"))
    }
}

/// Can every user pass through `folder` and the folders above it? Folders that do not exist yet do not count.
fn others_reach(folder: &Path) -> bool {
    folder
        .ancestors()
        .all(|part| match std::fs::metadata(part) {
            Ok(metadata) => metadata.permissions().mode() & OTHERS_PASS != 0,
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        })
}
