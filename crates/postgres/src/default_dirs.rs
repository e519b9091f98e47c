//! The default folders for data and for the cache. It never creates them.

use std::env;
use std::path::{Path, PathBuf};

use crate::account::Account;
use crate::error::Error;

/// A default folder as freedesktop.org defines it. If this process is root and the user of the server cannot enter root's
/// home, the folder is below the system directory.
struct DefaultDir {
    what: &'static str,
    variable: &'static str,
    in_home: &'static str,
    of_system: &'static str,
    name: &'static str,
}

const CACHE: DefaultDir = DefaultDir {
    what: "a fetched PostgreSQL",
    variable: "XDG_CACHE_HOME",
    in_home: ".cache",
    of_system: "/var/cache",
    name: "paceline/postgresql",
};
const DATA: DefaultDir = DefaultDir {
    what: "data",
    variable: "XDG_DATA_HOME",
    in_home: ".local/share",
    of_system: "/var/lib",
    name: "paceline",
};

/// The folder for fetched releases: `$XDG_CACHE_HOME/paceline/postgresql` or `~/.cache/paceline/postgresql`. For root it is
/// below `/var/cache` if the user of the server cannot enter the former.
///
/// # Errors
/// [`Error::NoHome`] if the environment has no home directory; [`Error::NoAccount`] as for [`crate::Server::start`].
pub fn default_cache_dir() -> Result<PathBuf, Error> {
    CACHE.find()
}

/// The default data folder: `$XDG_DATA_HOME/paceline` or `~/.local/share/paceline`. For root it is below `/var/lib` if the
/// user of the server cannot enter the former.
///
/// # Errors
/// As [`default_cache_dir`].
pub fn default_data_dir() -> Result<PathBuf, Error> {
    DATA.find()
}

impl DefaultDir {
    fn find(&self) -> Result<PathBuf, Error> {
        let folder = |name| {
            env::var_os(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let base = folder(self.variable).or_else(|| Some(folder("HOME")?.join(self.in_home)));
        self.choose(base, &Account::for_cluster(Path::new(""))?)
    }

    fn choose(&self, base: Option<PathBuf>, account: &Account) -> Result<PathBuf, Error> {
        let reaches = |base: &PathBuf| {
            let existing = base.ancestors().find(|path| path.exists());
            existing.is_some_and(|path| account.check_reaches(path).is_ok())
        };
        let of_system = account
            .switches_user()
            .then(|| PathBuf::from(self.of_system));
        let base = base
            .filter(reaches)
            .or(of_system)
            .ok_or(Error::NoHome(self.what))?;
        Ok(base.join(self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_home_that_the_user_of_the_server_cannot_enter_is_skipped() {
        let home = tempfile::tempdir().unwrap();
        let base = home.path().join(".cache");
        let unrelated = Account::unrelated(true);
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let found = CACHE.choose(Some(base.clone()), &unrelated).unwrap();
        assert_eq!(found, base.join("paceline/postgresql"));
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let found = CACHE.choose(Some(base.clone()), &unrelated).unwrap();
        assert_eq!(found, Path::new("/var/cache/paceline/postgresql"));
        assert_eq!(
            DATA.choose(Some(base.clone()), &unrelated).unwrap(),
            Path::new("/var/lib/paceline")
        );
        let found = CACHE
            .choose(Some(base.clone()), &Account::unrelated(false))
            .unwrap();
        assert_eq!(found, base.join("paceline/postgresql"));
    }

    #[test]
    fn no_home_is_an_error_unless_the_process_is_root() {
        assert!(matches!(
            DATA.choose(None, &Account::unrelated(false)),
            Err(Error::NoHome { .. })
        ));
        assert_eq!(
            DATA.choose(None, &Account::unrelated(true)).unwrap(),
            Path::new("/var/lib/paceline")
        );
    }
}
