//! The user's folders for data and for what can be fetched again. It never creates them.

use std::env;
use std::path::{Path, PathBuf};

use crate::account::Account;
use crate::error::Error;

/// A kind of folder: the freedesktop.org variable, what it stands for below the home, and where root keeps the like when
/// the server's user cannot enter root's home.
struct Kind {
    what: &'static str,
    variable: &'static str,
    in_home: &'static str,
    of_system: &'static str,
    name: &'static str,
}

const CACHE: Kind = Kind {
    what: "a fetched PostgreSQL",
    variable: "XDG_CACHE_HOME",
    in_home: ".cache",
    of_system: "/var/cache",
    name: "paceline/postgresql",
};
const DATA: Kind = Kind {
    what: "data",
    variable: "XDG_DATA_HOME",
    in_home: ".local/share",
    of_system: "/var/lib",
    name: "paceline",
};

/// Where fetched releases are kept: `$XDG_CACHE_HOME/paceline/postgresql` or `~/.cache/paceline/postgresql`; for root
/// below `/var/cache` when the server's user cannot enter that.
///
/// # Errors
/// [`Error::NoHome`] when the environment names no home; [`Error::NoAccount`] as for [`crate::Server::start`].
pub fn default_cache_dir() -> Result<PathBuf, Error> {
    CACHE.find()
}

/// A data folder for those who name none: `$XDG_DATA_HOME/paceline` or `~/.local/share/paceline`; for root below
/// `/var/lib` when the server's user cannot enter that.
///
/// # Errors
/// As [`default_cache_dir`].
pub fn default_data_dir() -> Result<PathBuf, Error> {
    DATA.find()
}

impl Kind {
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
        let of_system = account.steps_down().then(|| PathBuf::from(self.of_system));
        let base = base
            .filter(reaches)
            .or(of_system)
            .ok_or(Error::NoHome { what: self.what })?;
        Ok(base.join(self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_home_that_the_servers_user_cannot_enter_is_passed_over() {
        let home = tempfile::tempdir().unwrap();
        let base = home.path().join(".cache");
        let stranger = Account::stranger(true);
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let found = CACHE.choose(Some(base.clone()), &stranger).unwrap();
        assert_eq!(found, base.join("paceline/postgresql"));
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let found = CACHE.choose(Some(base.clone()), &stranger).unwrap();
        assert_eq!(found, Path::new("/var/cache/paceline/postgresql"));
        assert_eq!(
            DATA.choose(Some(base.clone()), &stranger).unwrap(),
            Path::new("/var/lib/paceline")
        );
        let found = CACHE
            .choose(Some(base.clone()), &Account::stranger(false))
            .unwrap();
        assert_eq!(found, base.join("paceline/postgresql"));
    }

    #[test]
    fn no_home_is_an_error_but_for_root() {
        assert!(matches!(
            DATA.choose(None, &Account::stranger(false)),
            Err(Error::NoHome { .. })
        ));
        assert_eq!(
            DATA.choose(None, &Account::stranger(true)).unwrap(),
            Path::new("/var/lib/paceline")
        );
    }
}
