//! The folder of the Unix socket: its path is short enough for the operating system, and the user of the server owns it. It
//! never uses a folder that another user could have prepared.

use std::collections::hash_map::DefaultHasher;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::hash::{Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::account::Account;
use crate::data_dir::DataDir;
use crate::error::Error;

/// The size of `sun_path` (108 on Linux, 104 elsewhere) without the terminating zero.
const SOCKET_PATH_BYTES_MAX: usize = if cfg!(target_os = "linux") { 107 } else { 103 };
/// The rest is for the longest name that PostgreSQL gives a socket.
const FOLDER_BYTES_MAX: usize = SOCKET_PATH_BYTES_MAX - "/.s.PGSQL.65535".len();

/// Creates the folder of the socket: `socket` in the data folder or, if that path is too long, a folder for this cluster in the
/// temporary folder.
pub(crate) fn prepare(folder: &DataDir, account: &Account) -> Result<PathBuf, Error> {
    if is_short(&folder.socket) {
        return prepare_own(folder.socket.clone(), account);
    }
    let name = temporary_name(&folder.root);
    let bases = [env::temp_dir(), PathBuf::from("/tmp")];
    let fits = |base: &&PathBuf| is_short(&base.join(&name)) && account.check_reaches(base).is_ok();
    match bases.iter().find(fits) {
        Some(base) => prepare_own(base.join(&name), account),
        None => Err(Error::SocketPathTooLong {
            folder: folder.socket.clone(),
            bytes_max: FOLDER_BYTES_MAX,
        }),
    }
}

fn prepare_own(path: PathBuf, account: &Account) -> Result<PathBuf, Error> {
    account.create_private_dir(&path)?;
    let metadata = fs::symlink_metadata(&path).map_err(Error::io("look at", &path))?;
    if !metadata.is_dir() {
        return Err(Error::NotAFolder(path));
    }
    if metadata.uid() != account.uid {
        return Err(Error::WrongOwner {
            folder: path,
            owner: metadata.uid(),
            user: account.name.clone(),
        });
    }
    Ok(path)
}

/// Whether [`prepare`] created the folder in the temporary folder.
pub(crate) fn is_temporary(path: &Path, folder: &DataDir) -> bool {
    path.file_name() == Some(OsStr::new(&temporary_name(&folder.root)))
}

/// The value of `unix_socket_directories` for one folder. It is quoted because the setting is a list.
pub(crate) fn setting(path: &Path) -> String {
    format!("\"{}\"", path.display().to_string().replace('"', "\"\""))
}

fn is_short(path: &Path) -> bool {
    AsRef::<OsStr>::as_ref(path).len() <= FOLDER_BYTES_MAX
}

/// The name depends only on the data folder, so that repeated starts use the same folder.
fn temporary_name(root: &Path) -> String {
    let mut hasher = DefaultHasher::new();
    root.hash(&mut hasher);
    format!("paceline-{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_data_folder_has_a_short_socket_folder() {
        let root = tempfile::tempdir().unwrap();
        let long = root.path().join("x".repeat(120));
        let folder = DataDir::open(&long).unwrap();
        let account = Account::for_cluster(&folder.cluster).unwrap();
        let socket = prepare(&folder, &account).unwrap();
        assert!(
            is_short(&socket) && !socket.starts_with(&long),
            "{}",
            socket.display()
        );
        assert_eq!(prepare(&folder, &account).unwrap(), socket);
        fs::remove_dir(socket).unwrap();
    }

    #[test]
    fn a_link_in_place_of_the_folder_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let folder = DataDir::open(&root.path().join("data")).unwrap();
        std::os::unix::fs::symlink(root.path(), &folder.socket).unwrap();
        let account = Account::for_cluster(&folder.cluster).unwrap();
        let error = prepare(&folder, &account).unwrap_err();
        assert!(matches!(error, Error::NotAFolder { .. }), "{error}");
    }

    #[test]
    fn the_setting_is_quoted() {
        assert_eq!(setting(Path::new("/a, \"b\"")), "\"/a, \"\"b\"\"\"");
    }
}
