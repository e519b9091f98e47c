//! The operating-system user that the server runs as. PostgreSQL refuses to run as root: if this process is root, the
//! server runs as another user, otherwise as the current one. It never gives a process more rights than this one has.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::process;

use crate::error::Error;

/// Users that root runs the server as, in order of preference.
const FALLBACK_USERS: [&str; 2] = ["postgres", "nobody"];

/// The user that the server and the programs around it run as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) name: String,
    pub(crate) uid: u32,
    gid: u32,
    /// This process is root and the account is another user.
    switches_user: bool,
}

impl Account {
    /// Chooses the account for a cluster. Root uses the owner of the cluster, or a fallback user if there is no cluster
    /// or root owns it; every other user runs the server itself.
    pub(crate) fn for_cluster(pgdata: &Path) -> Result<Self, Error> {
        let (uid, gid) = (process::geteuid().as_raw(), process::getegid().as_raw());
        let owner = fs::metadata(pgdata).ok();
        let owner = owner.map(|metadata| (metadata.uid(), metadata.gid()));
        Self::choose(uid, gid, owner, &passwd())
    }

    fn choose(uid: u32, gid: u32, owner: Option<(u32, u32)>, passwd: &str) -> Result<Self, Error> {
        if uid != 0 {
            return Ok(Self {
                switches_user: false,
                gid,
                ..Self::with_id(uid, gid, passwd)
            });
        }
        if let Some((uid, gid)) = owner.filter(|(uid, _)| *uid != 0) {
            return Ok(Self::with_id(uid, gid, passwd));
        }
        let named = |name: &str| {
            let mut accounts = passwd.lines().filter_map(Self::parse);
            accounts.find(|account| account.name == name && account.uid != 0)
        };
        let fallback = FALLBACK_USERS.into_iter().find_map(named);
        fallback.ok_or(Error::NoAccount)
    }

    /// The account with this id; one with the group `gid` if `/etc/passwd` has none.
    fn with_id(uid: u32, gid: u32, passwd: &str) -> Self {
        let mut accounts = passwd.lines().filter_map(Self::parse);
        let known = accounts.find(|account| account.uid == uid);
        known.unwrap_or_else(|| Self {
            name: format!("with id {uid}"),
            uid,
            gid,
            switches_user: true,
        })
    }

    /// Parses one line of `/etc/passwd`: `name:password:uid:gid:…`.
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split(':');
        let name = fields.next()?.to_owned();
        let uid = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        Some(Self {
            name,
            uid,
            gid,
            switches_user: true,
        })
    }

    /// The name of the user of this process, for messages.
    pub(crate) fn own_name() -> String {
        let (uid, gid) = (process::geteuid().as_raw(), process::getegid().as_raw());
        Self::with_id(uid, gid, &passwd()).name
    }

    /// Whether this process is root and the server runs as another user.
    pub(crate) fn switches_user(&self) -> bool {
        self.switches_user
    }

    /// Makes the command run as this account.
    pub(crate) fn run<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        if self.switches_user {
            command.gid(self.gid).uid(self.uid)
        } else {
            command
        }
    }

    /// Creates the folder with access for this account only, unless it exists.
    pub(crate) fn create_private_dir(&self, path: &Path) -> Result<(), Error> {
        match fs::create_dir(path) {
            Err(source) if source.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
            other => other.map_err(Error::io("create", path))?,
        }
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))
            .map_err(Error::io("set permissions of", path))?;
        self.own(path)
    }

    /// Makes the account the owner of one file or folder.
    pub(crate) fn own(&self, path: &Path) -> Result<(), Error> {
        if !self.switches_user {
            return Ok(());
        }
        lchown(path, Some(self.uid), Some(self.gid)).map_err(Error::io("change the owner of", path))
    }

    /// Makes the account the owner of a folder and of everything in it.
    pub(crate) fn own_tree(&self, path: &Path) -> Result<(), Error> {
        self.own(path)?;
        if !fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir()) {
            return Ok(());
        }
        for_each_entry(path, |entry| self.own_tree(entry))
    }

    /// Checks that the account may enter every folder on the way to `path`, and enter or execute `path` itself.
    pub(crate) fn check_reaches(&self, path: &Path) -> Result<(), Error> {
        if !self.switches_user {
            return Ok(());
        }
        let path = fs::canonicalize(path).map_err(Error::io("look at", path))?;
        let mut steps: Vec<&Path> = path.ancestors().collect();
        steps.reverse();
        for step in steps {
            let metadata = fs::metadata(step).map_err(Error::io("look at", step))?;
            if !self.may_pass(&metadata) {
                return Err(Error::Unreachable {
                    blocked_at: step.to_path_buf(),
                    user: self.name.clone(),
                    path,
                });
            }
        }
        Ok(())
    }

    /// Whether the execute bit that applies to the account is set. Supplementary groups do not count: root drops them
    /// when it switches users.
    fn may_pass(&self, metadata: &Metadata) -> bool {
        let bit = match metadata {
            _ if metadata.uid() == self.uid => 0o100,
            _ if metadata.gid() == self.gid => 0o010,
            _ => 0o001,
        };
        metadata.mode() & bit != 0
    }
}

fn passwd() -> String {
    fs::read_to_string("/etc/passwd").unwrap_or_default()
}

/// Applies `change` to every entry of a folder.
pub(crate) fn for_each_entry(
    folder: &Path,
    change: impl Fn(&Path) -> Result<(), Error>,
) -> Result<(), Error> {
    for entry in fs::read_dir(folder).map_err(Error::io("list", folder))? {
        change(&entry.map_err(Error::io("list", folder))?.path())?;
    }
    Ok(())
}

#[cfg(test)]
impl Account {
    /// A user that owns no file, for tests.
    pub(crate) fn unrelated(switches_user: bool) -> Self {
        Self {
            name: "unrelated".to_owned(),
            uid: 4_000_001,
            gid: 4_000_001,
            switches_user,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nbroken line\nnobody:x:65534:65533::/:/bin/false\n\
                          postgres:x:101:104::/:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\n";

    fn choose(uid: u32, owner: Option<(u32, u32)>, passwd: &str) -> (String, u32, u32, bool) {
        let account = Account::choose(uid, 7, owner, passwd).unwrap();
        (
            account.name,
            account.uid,
            account.gid,
            account.switches_user,
        )
    }

    #[test]
    fn root_switches_to_a_fallback_user() {
        assert_eq!(
            choose(0, None, PASSWD),
            ("postgres".to_owned(), 101, 104, true)
        );
        let without = PASSWD.replace("postgres:", "other:");
        assert_eq!(
            choose(0, None, &without),
            ("nobody".to_owned(), 65534, 65533, true)
        );
        assert!(matches!(
            Account::choose(0, 0, None, "root:x:0:0:::\n"),
            Err(Error::NoAccount)
        ));
        let disguised = "postgres:x:0:0::/:/bin/sh\n";
        assert!(matches!(
            Account::choose(0, 0, None, disguised),
            Err(Error::NoAccount)
        ));
    }

    #[test]
    fn root_runs_an_existing_cluster_as_its_owner() {
        assert_eq!(
            choose(0, Some((1000, 5)), PASSWD),
            ("ann".to_owned(), 1000, 1000, true)
        );
        assert_eq!(
            choose(0, Some((4242, 5)), PASSWD),
            ("with id 4242".to_owned(), 4242, 5, true)
        );
        assert_eq!(choose(0, Some((0, 0)), PASSWD).0, "postgres");
    }

    #[test]
    fn other_users_run_the_server_themselves() {
        assert_eq!(
            choose(1000, Some((101, 104)), PASSWD),
            ("ann".to_owned(), 1000, 7, false)
        );
        assert_eq!(
            choose(4242, None, ""),
            ("with id 4242".to_owned(), 4242, 7, false)
        );
    }

    #[test]
    fn the_error_names_the_folder_that_blocks_access() {
        let base = tempfile::tempdir().unwrap();
        let open = base.path().join("open");
        fs::create_dir_all(open.join("inner")).unwrap();
        let unrelated = Account::unrelated(true);
        fs::set_permissions(base.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(open.join("inner"), fs::Permissions::from_mode(0o755)).unwrap();
        unrelated.check_reaches(&open.join("inner")).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o700)).unwrap();
        match unrelated.check_reaches(&open.join("inner")) {
            Err(Error::Unreachable { blocked_at, .. }) => {
                assert_eq!(blocked_at, fs::canonicalize(&open).unwrap())
            }
            other => panic!("{other:?}"),
        }
        Account::unrelated(false)
            .check_reaches(&open.join("inner"))
            .unwrap();
    }
}
