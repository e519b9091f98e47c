//! Starts that must fail with an error that names the cause.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use paceline_postgres::{Error, Options, Server, find_installations};

use crate::support::{Scratch, is_root};

fn refused(options: Options) -> (Error, String) {
    let error = Server::start(options)
        .map(|server| server.pid())
        .unwrap_err();
    let text = error.to_string();
    (error, text)
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_folder_in_use_is_refused() {
    let scratch = Scratch::new();
    let server = Server::start(scratch.options()).unwrap();
    let (error, text) = refused(scratch.options());
    assert!(
        matches!(error, Error::InUse { pid, .. } if pid == server.pid()),
        "{text}"
    );
    assert!(
        text.contains(&server.pid().to_string()) && text.contains("in use"),
        "{text}"
    );
}

#[test]
fn a_file_in_place_of_the_folder_is_refused() {
    let scratch = Scratch::new();
    let file = scratch.path().join("file");
    fs::write(&file, "").unwrap();
    for path in [file.clone(), file.join("below")] {
        let (error, text) = refused(Options::new(&path));
        assert!(matches!(error, Error::NotAFolder { .. }), "{text}");
        assert!(text.contains(path.to_str().unwrap()), "{text}");
    }
}

/// Root may write to any folder; for root the test blocks the user of the server instead.
#[test]
fn a_folder_that_is_not_writable_is_refused() {
    let scratch = Scratch::new();
    let (parent, folder) = (
        scratch.path().join("closed"),
        scratch.path().join("closed/data"),
    );
    fs::create_dir(&parent).unwrap();
    set_mode(&scratch.path(), 0o755);
    set_mode(&parent, if is_root() { 0o700 } else { 0o500 });
    let (error, text) = refused(Options::new(&folder));
    assert!(text.contains(folder.to_str().unwrap()), "{text}");
    if is_root() {
        let parent = fs::canonicalize(&parent).unwrap();
        assert!(
            matches!(error, Error::Unreachable { blocked_at, .. } if blocked_at == parent),
            "{text}"
        );
    } else {
        assert!(matches!(error, Error::NotWritable { .. }), "{text}");
        let existing = parent.as_path();
        let (error, text) = refused(Options::new(existing));
        assert!(matches!(error, Error::NotWritable { .. }), "{text}");
    }
    set_mode(&parent, 0o700);
}

#[test]
fn a_cluster_of_another_major_version_is_refused() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path().join("pgdata")).unwrap();
    fs::write(scratch.path().join("pgdata/PG_VERSION"), "7\n").unwrap();
    let mut options = scratch.options();
    options.bin_dir = find_installations().first().map(|one| one.bin_dir.clone());
    let (error, text) = refused(options);
    assert!(
        matches!(error, Error::OtherMajor { cluster: 7, .. }),
        "{text}"
    );
    assert!(
        text.contains("PostgreSQL 7") && text.contains("pg_upgrade"),
        "{text}"
    );
    assert_eq!(
        fs::read_to_string(scratch.path().join("pgdata/PG_VERSION")).unwrap(),
        "7\n"
    );
}

#[test]
fn a_port_in_use_is_refused() {
    let scratch = Scratch::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap().port();
    let mut options = scratch.options();
    options.port = Some(taken);
    let (error, text) = refused(options.clone());
    assert!(
        matches!(error, Error::PortTaken { port } if port == taken),
        "{text}"
    );
    assert!(text.contains(&taken.to_string()), "{text}");
    drop(listener);
    assert_eq!(Server::start(options).unwrap().port(), taken);
}

#[test]
fn a_cluster_folder_with_other_files_is_refused() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path().join("pgdata")).unwrap();
    fs::write(scratch.path().join("pgdata/holiday.jpg"), "").unwrap();
    let (error, text) = refused(scratch.options());
    assert!(matches!(error, Error::NotACluster { .. }), "{text}");
}

#[test]
fn a_foreign_cluster_is_refused() {
    let scratch = Scratch::new();
    fs::write(scratch.path().join("PG_VERSION"), "15\n").unwrap();
    let (error, text) = refused(scratch.options());
    assert!(matches!(error, Error::ForeignCluster { .. }), "{text}");
}

#[test]
fn an_unknown_setting_is_refused_with_the_end_of_the_log() {
    let scratch = Scratch::new();
    let mut options = scratch.options();
    options
        .settings
        .push(("no_such_setting".to_owned(), "1".to_owned()));
    let (error, text) = refused(options);
    assert!(matches!(error, Error::StartFailed { .. }), "{text}");
    assert!(
        text.contains("no_such_setting"),
        "the end of the log is missing: {text}"
    );
    Server::start(scratch.options()).unwrap();
}

#[test]
fn reserved_settings_and_folders_without_binaries_are_refused() {
    let scratch = Scratch::new();
    let mut options = scratch.options();
    options
        .settings
        .push(("fsync".to_owned(), "off".to_owned()));
    let (error, text) = refused(options);
    assert!(matches!(error, Error::ReservedSetting { .. }), "{text}");

    let mut options = scratch.options();
    options.bin_dir = Some(scratch.path());
    let (error, text) = refused(options);
    assert!(matches!(error, Error::NotAnInstallation { .. }), "{text}");
}
