//! Selects the installation that runs a cluster: one on the machine, otherwise one in the cache, otherwise one that it
//! fetches. It never selects another major version than that of the cluster.

use std::path::{Path, PathBuf};

use crate::account::Account;
use crate::default_dirs::default_cache_dir;
use crate::error::Error;
use crate::fetch::{cached, fetch_major};
use crate::installation::{Installation, find_installations};

/// Selects the installation for a cluster of major version `cluster` (`None`: a new cluster).
pub(crate) fn select(
    forced: Option<&Path>,
    cluster: Option<u32>,
    pgdata: &Path,
    account: &Account,
) -> Result<Installation, Error> {
    if let Some(bin_dir) = forced {
        let installation = Installation::at(bin_dir)?;
        account.check_reaches(&installation.program("postgres"))?;
        return pick(vec![installation], cluster, pgdata);
    }
    let cache = default_cache_dir();
    let in_cache = cache
        .as_ref()
        .map(|cache| cached(cache))
        .unwrap_or_default();
    let mut candidates: Vec<_> = find_installations().into_iter().chain(in_cache).collect();
    candidates.retain(|one| account.check_reaches(&one.program("postgres")).is_ok());
    if candidates.is_empty() {
        fetch_major(&cache?, cluster)
    } else {
        pick(candidates, cluster, pgdata)
    }
}

/// The first candidate that has the major version of the cluster; for a new cluster, the first candidate.
fn pick(
    candidates: Vec<Installation>,
    cluster: Option<u32>,
    pgdata: &Path,
) -> Result<Installation, Error> {
    let fits = |one: &Installation| cluster.is_none_or(|cluster| one.version.major == cluster);
    let newest = candidates.first().cloned();
    match (candidates.into_iter().find(fits), newest, cluster) {
        (Some(fitting), _, _) => Ok(fitting),
        (None, Some(Installation { bin_dir, version }), Some(cluster)) => Err(Error::OtherMajor {
            folder: pgdata.to_path_buf(),
            cluster,
            server: version,
            bin_dir,
        }),
        (None, _, _) => Err(Error::NotAnInstallation {
            bin_dir: PathBuf::new(),
            reason: "none was found".to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::Version;

    fn candidates() -> Vec<Installation> {
        let one = |text: &str| Installation {
            bin_dir: text.into(),
            version: Version::parse(text).unwrap(),
        };
        vec![one("18.1"), one("17.4"), one("15.2")]
    }

    #[test]
    fn the_major_version_matches_the_cluster() {
        let picked = |cluster| {
            pick(candidates(), cluster, Path::new("/data"))
                .unwrap()
                .version
                .text
        };
        assert_eq!(picked(None), "18.1");
        assert_eq!(picked(Some(17)), "17.4");
    }

    #[test]
    fn without_a_match_the_error_names_both_versions() {
        let error = pick(candidates(), Some(14), Path::new("/data")).unwrap_err();
        assert!(matches!(error, Error::OtherMajor { cluster: 14, .. }));
        let text = error.to_string();
        assert!(
            text.contains("PostgreSQL 14") && text.contains("version 18"),
            "{text}"
        );
    }
}
