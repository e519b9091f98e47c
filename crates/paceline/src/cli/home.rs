//! Where the data of the embedded PostgreSQL is kept, unless it is said.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Where root keeps the data when the user who must run PostgreSQL cannot reach root's own folder.
const SYSTEM_DATA_FOLDER: &str = "/var/lib/paceline";

/// The permission to pass through a folder, for everybody who is neither its owner nor in its group.
const OTHERS_PASS: u32 = 0o001;

/// The user's folders.
#[derive(Debug, Clone, Default)]
pub(super) struct Home {
    /// `XDG_DATA_HOME`.
    pub(super) data_home: Option<PathBuf>,
    /// `HOME`.
    pub(super) home: Option<PathBuf>,
    /// Whether this process runs as root.
    pub(super) root: bool,
}

impl Home {
    /// Of the user of this process.
    pub(super) fn this() -> Home {
        let said = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        Home {
            data_home: said("XDG_DATA_HOME").map(PathBuf::from),
            home: said("HOME").map(PathBuf::from),
            // The folder of a process in /proc belongs to its effective user.
            root: std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0),
        }
    }

    /// The folder for the embedded PostgreSQL's data; `None` when there is no home folder to put it in.
    pub(super) fn data_folder(&self) -> Option<PathBuf> {
        // As the XDG specification says, a path that is not absolute is ignored.
        let data_home = self.data_home.clone().filter(|folder| folder.is_absolute());
        let home = || self.home.as_ref().filter(|home| home.is_absolute());
        let data_home = data_home.or_else(|| Some(home()?.join(".local/share")));
        if self.root && !data_home.as_deref().is_some_and(others_reach) {
            return Some(PathBuf::from(SYSTEM_DATA_FOLDER));
        }
        Some(data_home?.join("paceline"))
    }
}

/// Whether any user may pass through `folder` and everything above it. What does not exist yet is nobody's obstacle.
fn others_reach(folder: &Path) -> bool {
    folder
        .ancestors()
        .all(|part| match std::fs::metadata(part) {
            Ok(metadata) => metadata.permissions().mode() & OTHERS_PASS != 0,
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        })
}
