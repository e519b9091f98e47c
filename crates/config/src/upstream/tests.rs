//! Upstream URLs, good and bad.

use proptest::prelude::*;

use super::*;

fn tcp(host: &str, port: u16) -> Upstream {
    Upstream {
        host: Host::Tcp(host.to_owned()),
        port,
        user: None,
        password: None,
        dbname: None,
        tls: UpstreamTls::default(),
    }
}

fn written(password: &str) -> Option<PasswordSource> {
    let password = Secret::new(password.to_owned());
    Some(PasswordSource::Written(password))
}

fn read(url: &str) -> Upstream {
    Upstream::from_url(url).unwrap_or_else(|error| panic!("{url}: {error}"))
}

fn refused(url: &str) -> String {
    match Upstream::from_url(url) {
        Ok(upstream) => panic!("{url} was read as {upstream:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn every_part_is_read() {
    let expected = Upstream {
        host: Host::Tcp("db.example".to_owned()),
        port: 5433,
        user: Some("app".to_owned()),
        password: written("s3cret"),
        dbname: Some("shop".to_owned()),
        tls: UpstreamTls::default(),
    };
    assert_eq!(read("postgres://app:s3cret@db.example:5433/shop"), expected);
    assert_eq!(
        read("postgresql://app:s3cret@db.example:5433/shop"),
        expected
    );
    assert_eq!(
        read("postgres:///?host=db.example&port=5433&user=app&password=s3cret&dbname=shop"),
        expected
    );
}

#[test]
fn missing_parts_of_a_url_are_none() {
    assert_eq!(read("postgres://db"), tcp("db", 5432));
    assert_eq!(read("postgres://db/"), tcp("db", 5432));
    assert_eq!(read("postgres://db:/?"), tcp("db", 5432));
    assert_eq!(read("postgres://app@db").user.as_deref(), Some("app"));
    assert_eq!(read("postgres://app@db").password, None);
}

#[test]
fn percent_encoding_is_taken_out() {
    let upstream = read("postgres://a%40b:p%3A%2F%3f%25@db/my%20shop");
    assert_eq!(upstream.user.as_deref(), Some("a@b"));
    assert_eq!(upstream.password, written("p:/?%"));
    assert_eq!(upstream.dbname.as_deref(), Some("my shop"));
    for url in [
        "postgres://db/%",
        "postgres://db/%4",
        "postgres://db/%zz",
        "postgres://db/a%00b",
        "postgres://db/%ff",
    ] {
        assert!(
            refused(url).contains("the database of the URL is not percent-encoded"),
            "{url}"
        );
    }
}

#[test]
fn ipv6_is_in_brackets() {
    assert_eq!(read("postgres://[::1]:5433"), tcp("::1", 5433));
    assert_eq!(read("postgres://[2001:db8::7]"), tcp("2001:db8::7", 5432));
    assert_eq!(
        read("postgres://[fe80::1%25eth0]"),
        tcp("fe80::1%eth0", 5432)
    );
    for url in [
        "postgres://::1",
        "postgres://fe80::1:5432/app",
        "postgres://[::1",
        "postgres://[db]",
        "postgres://[::1]5432",
    ] {
        assert!(refused(url).contains("in brackets such as [::1]"), "{url}");
    }
}

#[test]
fn a_folder_is_a_unix_socket() {
    let folder = Host::Unix(PathBuf::from("/run/postgresql"));
    for url in [
        "postgres:///app?host=/run/postgresql",
        "postgres:///app?host=%2Frun%2Fpostgresql",
        "postgres://%2Frun%2Fpostgresql/app",
        "postgres://ignored/app?host=/run/postgresql",
    ] {
        let upstream = read(url);
        assert_eq!(
            (upstream.host, upstream.port, upstream.dbname.as_deref()),
            (folder.clone(), 5432, Some("app")),
            "{url}"
        );
    }
    assert_eq!(read("postgres://%2Frun%2Fpostgresql:5433").port, 5433);
}

#[test]
fn the_host_must_be_said_once() {
    assert!(refused("postgres://").contains("names no host"));
    assert!(refused("postgres:///app").contains("names no host"));
    assert!(refused("postgres://app@/app").contains("names no host"));
    assert!(refused("postgres://one,two/app").contains("several hosts"));
}

fn several(url: &str) -> (Upstream, HostList) {
    Upstream::with_hosts(url).unwrap_or_else(|error| panic!("{url}: {error}"))
}

/// The addresses of all hosts.
fn addresses(url: &str) -> Vec<String> {
    let (upstream, hosts) = several(url);
    let first = ServerHost {
        host: upstream.host,
        port: upstream.port,
    };
    let all = [first].into_iter().chain(hosts.others);
    all.map(|host| host.to_string()).collect()
}

#[test]
fn several_hosts_are_read_as_libpq_reads_them() {
    for (url, expected) in [
        (
            "postgres://app@pg1,pg2:5433,pg3/app",
            vec!["pg1:5432", "pg2:5433", "pg3:5432"],
        ),
        (
            "postgres://[::1]:1,%2Frun%2Fpg,10.0.0.1",
            vec!["[::1]:1", "/run/pg:5432", "10.0.0.1:5432"],
        ),
        (
            "postgres:///app?host=pg1,pg2&port=1,2",
            vec!["pg1:1", "pg2:2"],
        ),
        (
            "postgres:///app?host=pg1,pg2&port=7",
            vec!["pg1:7", "pg2:7"],
        ),
        (
            "postgres:///app?host=/run/a,/run/b",
            vec!["/run/a:5432", "/run/b:5432"],
        ),
        (
            "postgres://pg1,pg2:5433/?port=1,",
            vec!["pg1:1", "pg2:5432"],
        ),
    ] {
        assert_eq!(addresses(url), expected, "{url}");
    }
}

#[test]
fn clients_get_the_primary_of_several_hosts() {
    let plain = several("postgres://app:pw@pg1,pg2/shop");
    for word in ["any", "read-write", "primary", ""] {
        let url = format!("postgres://app:pw@pg1,pg2/shop?target_session_attrs={word}");
        assert_eq!(several(&url), plain, "{word}");
    }
    for word in ["read-only", "standby", "prefer-standby"] {
        let url = format!("postgres://pg1,pg2?target_session_attrs={word}");
        let message = refused(&url);
        let what = format!("target_session_attrs={word} asks for replicas, and Paceline sends no");
        assert!(message.starts_with(&what), "{message}");
    }
    let (_, single) = several("postgres://app:pw@pg1/shop");
    assert_eq!(single, HostList::default());
}

#[test]
fn a_wrong_list_is_refused() {
    let refused = |url: &str| Upstream::with_hosts(url).unwrap_err().to_string();
    for (url, what) in [
        ("postgres://pg1,,pg2", "empty name"),
        ("postgres://pg1,", "empty name"),
        ("postgres://pg1,pg2,pg1:5432", "a host twice"),
        ("postgres://pg1,pg2?port=1,2,3", "3 ports for 2 hosts"),
        ("postgres://pg1?port=1,2", "1 to 65535"),
        ("postgres://pg1,pg2:0", "1 to 65535"),
        ("postgres://pg1,::1", "in brackets such as [::1]"),
        (
            "postgres://pg1,pg2?target_session_attrs=master",
            "write any, read-write, primary",
        ),
        (
            "postgres://pg1,pg2?load_balance_hosts=random",
            "unknown key \"load_balance_hosts\" in the URL; remove it: clients get the primary",
        ),
        ("postgres://pg1,pg2?zone=a,b", "unknown key \"zone\""),
    ] {
        assert!(refused(url).contains(what), "{url}: {}", refused(url));
    }
    let many: Vec<String> = (0..=HOSTS_MAX)
        .map(|number| format!("pg{number}"))
        .collect();
    assert!(refused(&format!("postgres://{}", many.join(","))).contains("more than 32"));
}

#[test]
fn a_single_host_has_no_choice() {
    for parameter in ["target_session_attrs=any", "load_balance_hosts=disable"] {
        let message = refused(&format!("postgres://pg1?{parameter}"));
        let (key, _) = parameter.split_once('=').unwrap();
        assert!(
            message.contains(&format!("unknown key \"{key}\"")) && message.contains("remove it"),
            "{message}"
        );
    }
}

#[test]
fn tls_is_read() {
    for mode in [
        "disable",
        "allow",
        "prefer",
        "require",
        "verify-ca",
        "verify-full",
    ] {
        let read = read(&format!("postgres://db?sslmode={mode}"));
        assert_eq!(read.tls.sslmode.map(SslMode::name), Some(mode));
    }
    let files = read("postgres://db?sslrootcert=/ca.pem&sslcert=/own.pem&sslkey=%2Fown.key");
    let expected = UpstreamTls {
        sslmode: None,
        ca_file: Some("/ca.pem".into()),
        cert_file: Some("/own.pem".into()),
        key_file: Some("/own.key".into()),
    };
    assert_eq!(files.tls, expected);
    assert_eq!(read("postgres://db?sslcert="), tcp("db", 5432));
    assert!(refused("postgres://db?sslmode=requires").contains("does not exist"));
    assert!(refused("postgres://db?sslrootcert=system").contains("not an absolute path"));
}

#[test]
fn an_unknown_key_gets_advice() {
    assert!(refused("postgres://db?usr=app").contains("did you mean \"user\"?"));
    assert!(refused("postgres://db?sslmod=allow").contains("did you mean \"sslmode\"?"));
    assert!(refused("postgres://db?connect_timeout=3").contains("server_connect_timeout"));
    assert!(refused("postgres://db?application_name=x").contains("remove it"));
    assert!(refused("postgres://db?colour=red").contains("there are host, port"));
    assert!(refused("postgres://db?sslmode").contains("wants key=value"));
}

#[test]
fn other_texts_are_no_url() {
    for text in [
        "",
        "db",
        "db:5432",
        "host=db dbname=app",
        "mysql://db",
        "Postgres//db",
    ] {
        assert!(refused(text).contains("not a PostgreSQL URL"), "{text}");
    }
}

#[test]
fn a_port_is_a_port() {
    for port in ["0", "65536", "-1", "x", "5432x"] {
        assert!(
            refused(&format!("postgres://db:{port}/app")).contains("1 to 65535"),
            "{port}"
        );
    }
}

#[test]
fn a_password_is_never_shown() {
    let upstream = read("postgres://app:s3cret@db/app");
    assert!(format!("{upstream:?}").contains("***"));
    assert!(!format!("{upstream:?} {upstream}").contains("s3cret"));
    // The separators of a URL, bare in a password, move its end to where other parts are read.
    for end in ["/x", "?x", "?x=y", "%x"] {
        let message = refused(&format!("postgres://app:s3cret{end}@db/app"));
        assert!(
            !message.contains("s3cret") && !message.contains(end),
            "{message}"
        );
    }
}

#[test]
fn an_address_is_shown_without_its_user() {
    assert_eq!(
        read("postgres://app:pw@db:5433/shop").to_string(),
        "db:5433/shop"
    );
    assert_eq!(read("postgres://app@[::1]").to_string(), "[::1]:5432");
    assert_eq!(
        read("postgres:///shop?host=/run/postgresql").to_string(),
        "/run/postgresql:5432/shop"
    );
}

fn encode(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

proptest! {
    #![proptest_config(paceline_testing::cases(256))]

    #[test]
    fn what_is_encoded_is_read_back(user in "[^\0]{1,8}", password in "[^\0]{1,8}", dbname in "[^\0]{1,8}", port in 1u16..) {
        let url = format!("postgres://{}:{}@db:{port}/{}", encode(&user), encode(&password), encode(&dbname));
        let upstream = Upstream::from_url(&url);
        let expected = Upstream {
            user: Some(user),
            password: written(&password),
            dbname: Some(dbname),
            ..tcp("db", port)
        };
        prop_assert_eq!(upstream, Ok(expected));
    }

    #[test]
    fn no_text_panics(text in "[a-z:/?@%&=,.0-9é\\[\\]]{0,24}") {
        let _ = Upstream::from_url(&format!("postgres://{text}"));
    }
}
