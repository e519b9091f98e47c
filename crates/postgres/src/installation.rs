//! Server binaries on this machine. It searches the usual folders and runs each server with `--version`; it never installs
//! or fetches anything.

use std::collections::HashSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;
use crate::version::Version;

/// Debian and its derivatives install PostgreSQL in `VERSION/bin` of this folder.
const DEBIAN_ROOT: &str = "/usr/lib/postgresql";

/// A folder with a server's programs (`postgres`, `initdb`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installation {
    /// The folder that holds the programs, with links resolved.
    pub bin_dir: PathBuf,
    /// The version that `postgres --version` prints.
    pub version: Version,
}

impl Installation {
    /// The installation in this folder.
    pub(crate) fn at(bin_dir: &Path) -> Result<Self, Error> {
        let refuse = |reason: String| Error::NotAnInstallation {
            bin_dir: bin_dir.to_path_buf(),
            reason,
        };
        let resolved =
            resolve(bin_dir).ok_or_else(|| refuse("postgres or initdb is missing".to_owned()))?;
        let version = ask_version(&resolved).map_err(refuse)?;
        Ok(Self {
            bin_dir: resolved,
            version,
        })
    }

    /// The path of a program in the installation.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.bin_dir.join(name)
    }
}

/// Finds the installations on PATH, in the folder that `pg_config --bindir` prints and below `/usr/lib/postgresql`. The
/// newest is first, each appears once. Folders without a working `postgres` and `initdb` are skipped.
pub fn find_installations() -> Vec<Installation> {
    let on_path = env::var_os("PATH")
        .map(|path| env::split_paths(&path).collect())
        .unwrap_or_default();
    newest_first(
        candidates(on_path, pg_config_bin_dir(), Path::new(DEBIAN_ROOT)),
        |bin_dir| ask_version(bin_dir).ok(),
    )
}

/// The folders to search. Of equal versions, the earlier folder has precedence.
fn candidates(
    on_path: Vec<PathBuf>,
    pg_config: Option<PathBuf>,
    debian_root: &Path,
) -> Vec<PathBuf> {
    let versions = fs::read_dir(debian_root)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join("bin"));
    on_path
        .into_iter()
        .chain(pg_config)
        .chain(versions)
        .collect()
}

/// Resolves links, drops duplicates and folders without a server, and sorts by version. Equal versions keep their order.
fn newest_first(
    folders: Vec<PathBuf>,
    ask_version: impl Fn(&Path) -> Option<Version>,
) -> Vec<Installation> {
    let mut seen = HashSet::new();
    let mut found: Vec<Installation> = folders
        .iter()
        .filter_map(|folder| resolve(folder))
        .filter(|bin_dir| seen.insert(bin_dir.clone()))
        .filter_map(|bin_dir| {
            ask_version(&bin_dir).map(|version| Installation { bin_dir, version })
        })
        .collect();
    found.sort_by(|a, b| b.version.cmp(&a.version));
    found
}

/// Resolves a folder that holds both programs, or links to them, to the folder of the server itself. The server finds its
/// libraries relative to that folder.
fn resolve(folder: &Path) -> Option<PathBuf> {
    let server = fs::canonicalize(folder.join("postgres")).ok()?;
    let bin_dir = server.parent()?;
    let complete = bin_dir.join("postgres").is_file() && bin_dir.join("initdb").is_file();
    complete.then(|| bin_dir.to_path_buf())
}

fn pg_config_bin_dir() -> Option<PathBuf> {
    let output = Command::new("pg_config").arg("--bindir").output().ok()?;
    let bin_dir = String::from_utf8(output.stdout).ok()?;
    output
        .status
        .success()
        .then(|| PathBuf::from(bin_dir.trim()))
}

fn ask_version(bin_dir: &Path) -> Result<Version, String> {
    let output = Command::new(bin_dir.join("postgres"))
        .arg("--version")
        .output();
    let output = output.map_err(|error| format!("postgres does not run: {error}"))?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        return Err(format!(
            "postgres --version ended with {}: {}",
            output.status,
            message.trim()
        ));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Version::parse(&text).ok_or_else(|| format!("postgres --version printed {:?}", text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// Creates a folder with the two programs; the files are empty, because the tests do not run them.
    fn install(root: &Path, name: &str) -> PathBuf {
        let bin_dir = root.join(name).join("bin");
        fs::create_dir_all(&bin_dir).unwrap();
        fs::write(bin_dir.join("postgres"), "").unwrap();
        fs::write(bin_dir.join("initdb"), "").unwrap();
        fs::canonicalize(bin_dir).unwrap()
    }

    /// The version in the name of the folder.
    fn version_by_name(bin_dir: &Path) -> Option<Version> {
        Version::parse(bin_dir.parent()?.file_name()?.to_str()?)
    }

    #[test]
    fn the_newest_is_first_and_each_appears_once() {
        let root = tempfile::tempdir().unwrap();
        let on_path = install(root.path(), "15.2");
        let configured = install(root.path(), "9.6");
        let debian = root.path().join("debian");
        let newest = install(&debian, "18");
        let middle = install(&debian, "17.4");
        let links = root.path().join("links");
        fs::create_dir_all(&links).unwrap();
        symlink(middle.join("postgres"), links.join("postgres")).unwrap();
        let missing = root.path().join("missing");

        let folders = candidates(
            vec![missing, on_path.clone(), links, on_path.clone()],
            Some(configured.clone()),
            &debian,
        );
        let found: Vec<_> = newest_first(folders, version_by_name)
            .into_iter()
            .map(|one| one.bin_dir)
            .collect();
        assert_eq!(found, [newest, middle, on_path, configured]);
    }

    #[test]
    fn incomplete_and_broken_installations_are_skipped() {
        let root = tempfile::tempdir().unwrap();
        let half = install(root.path(), "18");
        fs::remove_file(half.join("initdb")).unwrap();
        let broken = install(root.path(), "broken");
        assert!(newest_first(vec![half, broken], version_by_name).is_empty());
    }

    #[test]
    fn of_equal_versions_the_earlier_folder_has_precedence() {
        let root = tempfile::tempdir().unwrap();
        let (first, second) = (
            install(root.path(), "a/15.2"),
            install(root.path(), "b/15.2"),
        );
        let found = newest_first(vec![second.clone(), first], version_by_name);
        assert_eq!(found.first().unwrap().bin_dir, second);
    }

    #[test]
    fn a_folder_without_a_server_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let error = Installation::at(root.path()).unwrap_err();
        assert!(matches!(error, Error::NotAnInstallation { .. }), "{error}");
        assert!(error.to_string().contains("missing"), "{error}");
    }
}
