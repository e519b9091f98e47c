//! The Unix socket's folder: short enough for the operating system, and the server's own. It never puts a socket into a
//! folder that another user could have prepared.

use std::collections::hash_map::DefaultHasher;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::hash::{Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::account::Account;
use crate::error::Error;
use crate::folder::Folder;

/// What `sun_path` takes (Linux 108, others 104), less its final zero.
const SOCKET_PATH_BYTES_MAX: usize = if cfg!(target_os = "linux") { 107 } else { 103 };
/// Leaves room for the longest name that PostgreSQL gives a socket.
const FOLDER_BYTES_MAX: usize = SOCKET_PATH_BYTES_MAX - "/.s.PGSQL.65535".len();

/// Creates the socket's folder: the one asked for, else `socket` in the data folder, else one of this cluster's own in
/// the temporary folder when the first would be too long.
pub(crate) fn prepare(
    asked: Option<&Path>,
    folder: &Folder,
    account: &Account,
) -> Result<PathBuf, Error> {
    if let Some(asked) = asked {
        return prepare_asked(asked, account);
    }
    let inside = folder.socket();
    if is_short(&inside) {
        return prepare_own(inside, account);
    }
    let name = temporary_name(folder.root());
    let bases = [env::temp_dir(), PathBuf::from("/tmp")];
    let fits = |base: &&PathBuf| is_short(&base.join(&name)) && account.check_reaches(base).is_ok();
    match bases.iter().find(fits) {
        Some(base) => prepare_own(base.join(&name), account),
        None => Err(too_long(inside)),
    }
}

fn prepare_asked(asked: &Path, account: &Account) -> Result<PathBuf, Error> {
    let missing = !asked.exists();
    fs::create_dir_all(asked).map_err(Error::io("create", asked))?;
    let resolved = fs::canonicalize(asked).map_err(Error::io("look at", asked))?;
    if !is_short(&resolved) {
        return Err(too_long(resolved));
    }
    if missing {
        account.own(&resolved)?;
    }
    account.check_reaches(&resolved)?;
    Ok(resolved)
}

fn prepare_own(path: PathBuf, account: &Account) -> Result<PathBuf, Error> {
    account.create_private_dir(&path)?;
    let metadata = fs::symlink_metadata(&path).map_err(Error::io("look at", &path))?;
    if !metadata.is_dir() {
        return Err(Error::NotAFolder { path });
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

/// Whether the folder is one that [`prepare`] made in the temporary folder.
pub(crate) fn is_temporary(path: &Path, folder: &Folder) -> bool {
    path.file_name() == Some(OsStr::new(&temporary_name(folder.root())))
}

/// The setting `unix_socket_directories` for one folder: a list, hence quoted.
pub(crate) fn setting(path: &Path) -> String {
    format!("\"{}\"", path.display().to_string().replace('"', "\"\""))
}

fn is_short(path: &Path) -> bool {
    AsRef::<OsStr>::as_ref(path).len() <= FOLDER_BYTES_MAX
}

fn too_long(folder: PathBuf) -> Error {
    Error::SocketPathTooLong {
        folder,
        bytes_max: FOLDER_BYTES_MAX,
    }
}

/// Always the same for a data folder, so that starts do not litter the temporary folder.
fn temporary_name(root: &Path) -> String {
    let mut hasher = DefaultHasher::new();
    root.hash(&mut hasher);
    format!("paceline-{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_data_folders_get_a_short_socket_folder() {
        let root = tempfile::tempdir().unwrap();
        let long = root.path().join("x".repeat(120));
        let folder = Folder::open(&long).unwrap();
        let account = Account::for_cluster(&folder.cluster()).unwrap();
        let socket = prepare(None, &folder, &account).unwrap();
        assert!(
            is_short(&socket) && !socket.starts_with(&long),
            "{}",
            socket.display()
        );
        assert_eq!(prepare(None, &folder, &account).unwrap(), socket);
        fs::remove_dir(socket).unwrap();

        let error = prepare(Some(&long), &folder, &account).unwrap_err();
        assert!(matches!(error, Error::SocketPathTooLong { .. }), "{error}");
    }

    #[test]
    fn a_prepared_link_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::open(&root.path().join("data")).unwrap();
        std::os::unix::fs::symlink(root.path(), folder.socket()).unwrap();
        let account = Account::for_cluster(&folder.cluster()).unwrap();
        let error = prepare(None, &folder, &account).unwrap_err();
        assert!(matches!(error, Error::NotAFolder { .. }), "{error}");
    }

    #[test]
    fn the_setting_is_quoted() {
        assert_eq!(setting(Path::new("/a, \"b\"")), "\"/a, \"\"b\"\"\"");
    }
}
