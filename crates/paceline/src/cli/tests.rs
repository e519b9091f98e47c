//! Command lines and the commands that they resolve to.

use std::collections::BTreeMap;

#[cfg(feature = "embedded")]
use super::home::Home;
use super::*;
use paceline_config::{Key, Settings};
use std::path::PathBuf;

#[cfg(feature = "embedded")]
mod embedded;

fn process() -> ProcessEnvironment {
    ProcessEnvironment {
        variables: BTreeMap::new(),
        #[cfg(feature = "embedded")]
        home: Home {
            home: Some("/home/rider".into()),
            ..Home::default()
        },
    }
}

fn environment(variables: &[(&str, &str)]) -> BTreeMap<String, String> {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    variables.iter().map(own).collect()
}

pub(super) fn resolve(line: &[&str]) -> Result<Command, String> {
    let arguments = ["paceline"].iter().chain(line).map(OsString::from);
    Command::resolve(arguments, &process()).map_err(|error| error.to_string())
}

fn serve(line: &[&str]) -> Serve {
    match resolve(line) {
        Ok(Command::Serve(serve)) => *serve,
        other => panic!("{line:?}: {other:?}"),
    }
}

pub(super) fn rejected(line: &[&str]) -> String {
    resolve(line).expect_err("should be refused")
}

/// A folder for one test. Dropping it removes the folder.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("paceline-cli-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub(super) fn file(&self, text: &str) -> String {
        let path = self.0.join("paceline.toml");
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_arguments_are_consistent() {
    help::command().debug_assert();
}

#[test]
fn serve_is_the_default_command() {
    let options = [
        "--upstream",
        "postgres://db",
        "--listen",
        "[::1]:7000",
        "--set",
        "pipeline=off",
        "--log-level",
        "debug",
    ];
    for prefix in [&[][..], &["serve"][..]] {
        let serve = serve(&[prefix, &options].concat());
        assert!(serve.config.database("any").is_some());
        assert_eq!(
            serve.config.paceline.listening.listen,
            "[::1]:7000".parse().unwrap()
        );
        assert!(!serve.config.paceline.grouping.pipeline);
        assert_eq!(serve.log_filter.as_deref(), Some("debug"));
    }
}

#[test]
fn a_file_with_databases_needs_no_embedded_server() {
    let folder = Folder::new("file");
    let file =
        folder.file("[paceline]\nworker_threads = 2\n[databases.app]\nprimary = \"postgres://db\"");
    let serve = serve(&["--config", &file, "--set", "default_pool_size=5"]);
    assert_eq!(
        (
            serve.config.paceline.operation.worker_threads,
            serve.config.paceline.pooling.default_pool_size
        ),
        (Some(2), 5)
    );
}

#[test]
fn contradictions_are_rejected() {
    assert!(
        rejected(&["--upstream", "postgres://db", "--config", "x"]).contains("cannot be used with")
    );
    assert!(rejected(&["--pipeline", "check", "x"]).contains("unexpected argument"));
    assert!(rejected(&["check"]).contains("<FILE>"));
}

#[test]
fn errors_of_the_configuration_are_returned() {
    assert!(rejected(&["--upstream", "db"]).contains("--upstream: not a PostgreSQL URL"));
    assert!(rejected(&["--listen", "0.0.0.0:1"]).contains("client login is trust"));
    assert!(rejected(&["--set", "pipline=on"]).contains("did you mean \"pipeline\"?"));
    assert!(
        rejected(&["--config", "/nonexistent/x.toml"]).contains("cannot read /nonexistent/x.toml")
    );
}

#[test]
fn check_summarizes_a_valid_file() {
    let folder = Folder::new("valid");
    let file = folder.file("[databases.app]\nprimary = \"postgres://svc:s3cret@db/shop\"\n[databases.\"*\"]\nprimary = \"postgres://db2\"");
    let Ok(Command::Check {
        file: checked,
        connect: false,
    }) = resolve(&["check", &file])
    else {
        panic!("not check")
    };
    assert_eq!(
        check(&checked).unwrap().summary,
        format!(
            "{file} is valid\nlistens on 127.0.0.1:6432, 10000 clients at most, 20 server connections per pool\n\
             database *: db2:5432 as each client's own user\ndatabase app: db:5432/shop as svc"
        )
    );
}

#[test]
fn check_names_every_host() {
    let folder = Folder::new("hosts");
    let file = folder.file("[databases.app]\nprimary = \"postgres://svc@pg1,[::1]:5433/shop\"");
    let Ok(Command::Check { connect: true, .. }) = resolve(&["check", &file, "--connect"]) else {
        panic!("not check")
    };
    let summary = check(Path::new(&file)).unwrap().summary;
    let expected = "database app: pg1:5432,[::1]:5433/shop as svc";
    assert_eq!(summary.lines().last(), Some(expected));
}

#[test]
fn check_rejects_an_invalid_file() {
    let folder = Folder::new("wrong");
    let file = folder.file("[paceline]\nlisten_port = 1\nhotspot = 2");
    let message = check(Path::new(&file)).err().expect("wrong").to_string();
    assert_eq!(message.lines().count(), 2, "{message}");
    assert!(
        message.starts_with(&format!(
            "{file}:2: unknown key \"listen_port\" in [paceline]"
        )),
        "{message}"
    );
}

#[test]
fn check_reads_the_named_files() {
    let folder = Folder::new("named");
    for (text, wrong) in [
        (
            "client_tls_sslmode = \"require\"",
            "needs client_tls_cert_file",
        ),
        ("auth_file = \"/nowhere/users\"", "cannot read auth_file"),
    ] {
        let file = folder.file(&format!("[paceline]\n{text}"));
        let message = check(Path::new(&file)).err().expect("wrong").to_string();
        assert!(message.contains(wrong), "{message}");
    }
}

#[test]
fn the_help_fits_on_a_screen() {
    for option in ["--help", "-h"] {
        let help = rejected(&[option]);
        assert!(help.lines().count() <= 40, "{help}");
        for command in ["serve", "check", "import", "explain", "help"] {
            assert!(help.contains(&format!("\n  {command} ")), "{help}");
        }
    }
    assert_eq!(help(&[]), rejected(&["--help"]));
    for command in [
        "serve",
        "check",
        "import",
        "schema",
        "explain",
        "help",
        "completions",
    ] {
        let usage = format!("Usage: paceline {command}");
        assert!(rejected(&[command, "--help"]).contains(&usage), "{command}");
    }
    assert_eq!(
        rejected(&["--version"]).trim(),
        format!("paceline {}", env!("CARGO_PKG_VERSION"))
    );
}

/// The text of `paceline help TOPIC…`.
fn help(topic: &[&str]) -> String {
    let mut line = vec!["help"];
    line.extend(topic);
    match resolve(&line) {
        Ok(Command::Help(text)) => text,
        other => panic!("{other:?}"),
    }
}

fn mentions(text: &str, key: &Key) -> bool {
    let default = key.show(&Settings::default());
    text.contains(&format!("  {}={}", key.name, default.trim_matches('"')))
}

#[test]
fn the_help_lists_every_setting_with_its_default() {
    let all = help(&["settings"]);
    let some = help(&["settings", "Pool-Size"]);
    for key in paceline_config::keys() {
        assert!(mentions(&all, key), "{}", key.name);
        let expected = key.name.contains("pool_size");
        assert_eq!(mentions(&some, key), expected, "{}", key.name);
    }
}

#[test]
fn the_help_of_a_command_has_its_options_and_examples() {
    assert!(help(&["explain"]).contains("--upstream <URL>"));
    let example = "paceline --upstream postgres://app:secret@10.0.0.5:5432/app";
    assert!(help(&["serve"]).contains(example));
    for unknown in [
        &["nothing"][..],
        &["explain", "nothing"],
        &["settings", "no_such_key"],
        &["settings", "pool", "size"],
        &["man-pages"],
    ] {
        let mut line = vec!["help"];
        line.extend(unknown);
        let error = rejected(&line);
        assert!(error.contains(&unknown.join(" ")), "{error}");
    }
}

#[test]
fn every_command_has_a_man_page() {
    let folder = Folder::new("man");
    let pages = man::write_pages(&folder.0).unwrap();
    let names = pages.iter().map(|page| page.file_name().unwrap());
    let names: Vec<&str> = names.map(|name| name.to_str().unwrap()).collect();
    for command in ["serve", "check", "import", "schema", "explain"] {
        let page = format!("paceline-{command}.1");
        assert!(names.contains(&page.as_str()), "{names:?}");
    }
    let read = |name| std::fs::read_to_string(folder.0.join(name)).unwrap();
    assert!(read("paceline.1").contains(".SH SYNOPSIS"));
    let settings = read("paceline.toml.5");
    for key in paceline_config::keys() {
        let name = key.name.replace('-', r"\-");
        assert!(settings.contains(&format!("\\fB{name}\\fR = ")), "{name}");
    }
}

#[test]
fn the_shells_complete_commands() {
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let script = String::from_utf8(completions(shell)).unwrap();
        assert!(
            script.contains("explain") && script.contains("upstream"),
            "{script}"
        );
    }
}

#[test]
fn explain_resolves_statement_server_and_settings() {
    let line = [
        "explain",
        "SELECT 1",
        "--upstream",
        "postgres://app@db/shop",
        "--set",
        "hotspot_for_autocommit=on",
        "-v",
    ];
    let Ok(Command::Explain(explain)) = resolve(&line) else {
        panic!("not explain")
    };
    assert_eq!((explain.sql.as_str(), explain.verbose), ("SELECT 1", true));
    let upstream = explain.upstream.unwrap();
    assert_eq!(upstream.dbname.as_deref(), Some("shop"));
    assert!(explain.settings.grouping.hotspot_for_autocommit);
    assert!(rejected(&["explain"]).contains("<SQL>"));
    assert!(rejected(&["explain", "SELECT 1", "--set", "x=1"]).contains("unknown key"));
    assert!(
        rejected(&["explain", "SELECT 1", "--upstream", "db"]).contains("not a PostgreSQL URL")
    );
}

fn explain(line: &[&str]) -> Explain {
    let line = [&["explain", "SELECT 1"], line].concat();
    match resolve(&line) {
        Ok(Command::Explain(explain)) => *explain,
        other => panic!("{line:?}: {other:?}"),
    }
}

const SHOP: &str = "[paceline]\nhotspot = false\n[[group]]\nfunction = \"buy\"
    [databases.shop]\nprimary = \"postgres://svc@db/app\"
    [databases.shop.users.svc]\nhotspot_for_autocommit = true
    [databases.shop.users.web]\nhotspot_for_autocommit = false\n";
const ANY: &str =
    "[databases.\"*\"]\nprimary = \"postgres://any\"\nhotspot_for_autocommit = true\n";

#[test]
fn explain_reads_the_configuration_of_serve() {
    let folder = Folder::new("explain");
    let file = folder.file(SHOP);
    let config = ["--config", &file];
    let asked = explain(&config);
    let upstream = asked.upstream.unwrap();
    assert_eq!(
        (upstream.to_string().as_str(), upstream.user.as_deref()),
        ("db:5432/app", Some("svc"))
    );
    assert_eq!(asked.declared.len(), 1);
    assert!(!asked.settings.grouping.hotspot && asked.settings.grouping.hotspot_for_autocommit);
    // Another client user: the user of the URL logs in.
    let asked = explain(&[&config[..], &["--user", "web", "--set", "hotspot=on"]].concat());
    assert_eq!(asked.upstream.unwrap().user.as_deref(), Some("svc"));
    assert!(asked.settings.grouping.hotspot && !asked.settings.grouping.hotspot_for_autocommit);
    // Another server with the same switches and functions.
    let asked = explain(&[&config[..], &["--upstream", "postgres://me@here"]].concat());
    assert_eq!(asked.upstream.unwrap().to_string(), "here:5432");
    assert!(asked.settings.grouping.hotspot_for_autocommit && asked.declared.len() == 1);
}

#[test]
fn explain_needs_a_database_if_the_file_names_several() {
    let folder = Folder::new("which");
    let file = folder.file(&format!("{SHOP}{ANY}"));
    let only = explain(&["--config", &file]).upstream.unwrap();
    assert_eq!(only.to_string(), "db:5432/app");
    let line = ["--config", &file, "--database", "other", "--user", "web"];
    let other = explain(&line);
    assert!(other.settings.grouping.hotspot_for_autocommit);
    let upstream = other.upstream.unwrap();
    assert_eq!(
        (upstream.to_string().as_str(), upstream.user.as_deref()),
        ("any:5432/other", Some("web"))
    );
    let error =
        |more: &[&str]| rejected(&[&["explain", "SELECT 1", "--config", &file], more].concat());
    folder.file(ANY);
    assert!(error(&[]).ends_with(
        "names no database by its name; add --database NAME to say which one clients ask for"
    ));
    let second = SHOP.replace("shop", "store").replace(
        "[paceline]\nhotspot = false\n[[group]]\nfunction = \"buy\"",
        "",
    );
    folder.file(&format!("{SHOP}{second}"));
    assert!(error(&[]).contains("names several databases; add --database NAME"));
    assert!(error(&["--database", "x"]).contains("has no database x"));
    // With --upstream, the database is not needed.
    let line = ["--config", &file, "--upstream", "postgres://me@here"];
    assert!(!explain(&line).settings.grouping.hotspot_for_autocommit);
    folder.file("[[group]]\nfunction = \"buy\"");
    let embedded = explain(&["--config", &file]);
    assert!(embedded.upstream.is_none() && embedded.declared.len() == 1);
    folder.file("[paceline]\nhotspt = true");
    assert!(error(&[]).contains("did you mean \"hotspot\"?"));
    assert!(rejected(&["explain", "SELECT 1", "--database", "x"]).contains("--config"));
}

/// Resolves a command line with these environment variables.
fn serve_in(variables: &[(&str, &str)], line: &[&str]) -> Result<Serve, String> {
    let mut process = process();
    process.variables = environment(variables);
    let arguments = ["paceline"].iter().chain(line).map(OsString::from);
    match Command::resolve(arguments, &process) {
        Ok(Command::Serve(serve)) => Ok(*serve),
        Ok(other) => panic!("{line:?}: {other:?}"),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn the_environment_may_name_the_databases() {
    let upstream = ("PACELINE_UPSTREAM", "postgres://of-environment");
    let host = |serve: Serve| {
        serve
            .config
            .database("app")
            .map(|(database, _)| database.primary.to_string())
    };
    assert_eq!(
        serve_in(&[upstream], &[]).map(host),
        Ok(Some("of-environment:5432".to_owned()))
    );
    let given = serve_in(
        &[upstream, ("PACELINE_CONFIG", "x")],
        &["--upstream", "postgres://given"],
    );
    assert_eq!(given.map(host), Ok(Some("given:5432".to_owned())));
    let error = |variables: &[(&str, &str)], line: &[&str]| serve_in(variables, line).unwrap_err();
    assert_eq!(
        error(&[upstream, ("PACELINE_CONFIG", "x")], &[]),
        "PACELINE_CONFIG and PACELINE_UPSTREAM are both set; unset one of the two"
    );
    let secret = error(&[("PACELINE_UPSTREAM", "postgres://me:s3cret@db:x")], &[]);
    assert!(secret.starts_with("PACELINE_UPSTREAM: ") && !secret.contains("s3cret"));
    assert!(
        error(&[("PACELINE_HOTSPOT", "x")], &[])
            .starts_with("PACELINE_HOTSPOT: hotspot: x is not a switch")
    );
}

#[test]
fn check_reads_both_formats() {
    let folder = Folder::new("kinds");
    let file =
        folder.file("[pgbouncer]\nlisten_addr = 127.0.0.1\nauth_type = trust\npkt_buf = 1\n[databases]\na = host=a\n");
    let ini = file.replace(".toml", ".ini");
    std::fs::rename(file, &ini).unwrap();
    let summary = check(Path::new(&ini)).unwrap().summary;
    assert!(
        summary.contains("listens on 127.0.0.1:6432, 100 clients at most"),
        "{summary}"
    );
    assert!(
        summary.contains(&format!("\n{ini}:4: pkt_buf is ignored: ")),
        "{summary}"
    );
    std::fs::write(
        &ini,
        "[pgbouncer]\nauth_type = trust\nmax_client_conn = many\n[databases]\n* = host=a",
    )
    .unwrap();
    let error = check(Path::new(&ini)).err().unwrap().to_string();
    assert_eq!(
        error,
        format!("{ini}:3: max_client_conn: many is not a whole number; write digits only")
    );
}

/// The remark that nothing is grouped depends on the resulting configuration, not on the file alone.
#[test]
fn pooling_only_sessions_is_remarked() {
    let folder = Folder::new("sessions");
    let remarked = |settings: &str, parameters: &str, variables: &[(&str, &str)], set: &[&str]| {
        let file = folder.0.join("p.ini");
        let text = format!(
            "[pgbouncer]\nauth_type = trust\nlisten_addr = 127.0.0.1\n{settings}\n[databases]\nx = host=db {parameters}\n"
        );
        std::fs::write(&file, text).unwrap();
        let mut process = process();
        process.variables = environment(variables);
        let line = ["paceline", "--config", file.to_str().unwrap()];
        let line = line.iter().chain(set).map(OsString::from);
        let Ok(Command::Serve(serve)) = Command::resolve(line, &process) else {
            panic!("{settings} {parameters}");
        };
        let remarks = serve.remarks.iter().map(ToString::to_string);
        remarks
            .filter(|remark| remark.contains("no requests are grouped"))
            .count()
    };
    let transaction = [("PACELINE_POOL_MODE", "transaction")];
    let session = [("PACELINE_POOL_MODE", "session")];
    assert_eq!(remarked("", "", &[], &[]), 1);
    assert_eq!(remarked("pool_mode = session", "", &session, &[]), 1);
    assert_eq!(remarked("", "", &transaction, &[]), 0);
    assert_eq!(remarked("", "", &[], &["--set", "pool_mode=statement"]), 0);
    assert_eq!(remarked("pool_mode = transaction", "", &[], &[]), 0);
    assert_eq!(remarked("", "pool_mode=transaction", &[], &[]), 0);
    assert_eq!(remarked("", "pool_mode=session", &transaction, &[]), 0);
}
