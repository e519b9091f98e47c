//! Options, mappings and configuration: the address of a server, and the logins of roles.

use super::*;
use crate::shards::coordinator::ForeignServer;

fn server(options: &[(&str, &str)]) -> ForeignServer {
    let options = options.iter();
    let options = options.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    ForeignServer {
        name: "s".to_owned(),
        options: options.collect(),
    }
}

fn configured() -> ShardServer {
    ShardServer {
        server: "s".to_owned(),
        hosts: None,
        ports: None,
        dbname: None,
        user: None,
        password: None,
    }
}

fn tcp(name: &str) -> Host {
    Host::Tcp(name.to_owned())
}

const WHOLE: [(&str, &str); 3] = [("host", "db1"), ("port", "7000"), ("dbname", "d")];

/// The place of a server that has one host.
fn place(
    server: &ForeignServer,
    configured: Option<&ShardServer>,
    coordinator: &Host,
) -> Result<Upstream, ServerProblem> {
    let mut places = places(server, configured, coordinator)?;
    assert_eq!(places.len(), 1, "{places:?}");
    Ok(places.remove(0))
}

#[test]
fn options_say_where_a_server_is() {
    let found = place(&server(&WHOLE), None, &tcp("pg")).unwrap();
    assert_eq!((found.host, found.port), (tcp("db1"), 7000));
    assert_eq!(found.dbname.as_deref(), Some("d"));
    let [host, _, dbname] = WHOLE;
    let usual = [host, dbname, ("sslmode", "require"), ("fetch_size", "9")];
    let found = place(&server(&usual), None, &tcp("pg")).unwrap();
    assert_eq!(
        (found.port, found.tls.sslmode),
        (5432, Some(SslMode::Require))
    );
}

#[test]
fn a_server_may_have_several_hosts() {
    let [.., dbname] = WHOLE;
    let found = |ports: &str| {
        let options = [("host", "a, b"), ("port", ports), dbname];
        let options = [&options[..], &[("target_session_attrs", "read-write")]].concat();
        let server = server(&options);
        let found = places(&server, None, &tcp("pg")).unwrap().into_iter();
        let found: Vec<_> = found.map(|place| (place.host, place.port)).collect();
        (found, shown(&server, None))
    };
    for (ports, first, second, text) in [
        ("7000,7001", 7000, 7001, "a:7000,b:7001/d"),
        ("7000", 7000, 7000, "a:7000,b:7000/d"),
        ("7000,", 7000, 5432, "a:7000,b:5432/d"),
    ] {
        let (found, shown) = found(ports);
        assert_eq!(found, [(tcp("a"), first), (tcp("b"), second)]);
        assert_eq!(shown, text);
    }
}

#[test]
fn the_configuration_takes_the_place_of_options() {
    let own = ShardServer {
        hosts: Some(vec![tcp("outside")]),
        ports: Some(vec![1]),
        dbname: Some("other".to_owned()),
        ..configured()
    };
    for options in [&WHOLE[..], &[], &[("host", "localhost")]] {
        let found = place(&server(options), Some(&own), &tcp("pg")).unwrap();
        assert_eq!((found.host, found.port), (tcp("outside"), 1));
        assert_eq!(shown(&server(options), Some(&own)), "outside:1/other");
    }
}

#[test]
fn a_place_that_is_not_certain_is_none() {
    let [host, port, dbname] = WHOLE;
    let problem = |options: &[(&str, &str)]| place(&server(options), None, &tcp("pg")).unwrap_err();
    assert_eq!(problem(&[port, dbname]), ServerProblem::NoOption("host"));
    assert_eq!(problem(&[host, port]), ServerProblem::NoOption("dbname"));
    for (name, value) in [
        ("options", "-c x=y"),
        ("service", "s"),
        ("hostaddr", "10.0.0.1"),
    ] {
        let unknown = ServerProblem::UnknownOption(name.to_owned());
        assert_eq!(problem(&[host, dbname, (name, value)]), unknown);
    }
    for (host, port) in [("", "1"), ("a,", "1"), ("a,b", "1,2,3"), ("a", "x")] {
        let options = [("host", host), ("port", port), dbname];
        let found = places(&server(&options), None, &tcp("pg"));
        assert!(
            matches!(found, Err(ServerProblem::NoOption(_))),
            "{host} {port}"
        );
    }
    let reads = ("target_session_attrs", "prefer-standby");
    let unknown = ServerProblem::UnknownOption(reads.0.to_owned());
    assert_eq!(problem(&[host, dbname, reads]), unknown);
    for own in ["localhost", "127.0.0.2", "::1", "/run/postgresql"] {
        let loopback = ServerProblem::Loopback(own.to_owned());
        assert_eq!(problem(&[("host", own), dbname]), loopback);
        // Paceline is on the same machine.
        for coordinator in [tcp("127.0.0.1"), Host::Unix("/run".into())] {
            assert!(place(&server(&[("host", own), dbname]), None, &coordinator).is_ok());
        }
    }
}

#[test]
fn only_a_role_with_a_mapping_has_a_login() {
    let mapping = |role: Option<&str>, options: Option<&[(&str, &str)]>| UserMapping {
        server: "s".to_owned(),
        role: role.map(str::to_owned),
        options: options.map(|options| server(options).options),
    };
    let answer = |mappings| CoordinatorAnswer {
        servers: vec![server(&WHOLE)],
        mappings,
        ..CoordinatorAnswer::default()
    };
    let user = |answer: &CoordinatorAnswer, configured: &[ShardServer], role: &str| {
        let reached = reached(answer, configured, &tcp("pg"));
        reached[0].upstream(role).and_then(|upstream| upstream.user)
    };
    let without = ("password_required", "false");
    let own = answer(vec![mapping(Some("app"), Some(&[("user", "u"), without]))]);
    assert_eq!(user(&own, &[], "app").as_deref(), Some("u"));
    assert_eq!(user(&own, &[], "other"), None);
    let no_password = answer(vec![mapping(Some("app"), Some(&[("user", "u")]))]);
    assert_eq!(user(&no_password, &[], "app"), None);
    let public = answer(vec![
        mapping(None, Some(&[("user", "all"), without])),
        mapping(Some("app"), Some(&[("user", "u"), ("password", "p")])),
    ]);
    assert_eq!(user(&public, &[], "app").as_deref(), Some("u"));
    assert_eq!(user(&public, &[], "other").as_deref(), Some("all"));
    let hidden = answer(vec![mapping(Some("app"), None)]);
    assert_eq!(user(&hidden, &[], "app"), None);
    // As for postgres_fdw, the mapping of a role takes the place of that for PUBLIC, whatever its options are.
    let all = || mapping(None, Some(&[("user", "all"), without]));
    for options in [None, Some(&[("user", "u")][..]), Some(&[("password", "p")])] {
        let own = answer(vec![all(), mapping(Some("app"), options)]);
        assert_eq!(user(&own, &[], "app"), None);
        assert_eq!(user(&own, &[], "other").as_deref(), Some("all"));
        let monitored = reached(&own, &[], &tcp("pg"))[0].monitored().unwrap();
        assert_eq!(monitored[0].user.as_deref(), Some("all"));
    }
    let problem = reached(&hidden, &[], &tcp("pg"))[0].monitored();
    assert_eq!(problem.unwrap_err(), ServerProblem::NoLogin);
    let written = ShardServer {
        user: Some("owner".to_owned()),
        ..configured()
    };
    let written = [written];
    assert_eq!(user(&hidden, &written, "app").as_deref(), Some("owner"));
    assert_eq!(user(&hidden, &written, "other"), None);
}
