//! The rule that matches a client, and rules that are errors.

use super::*;
use crate::auth::ident;
use crate::testing::tcp_peer;

fn tcp(address: &str) -> LoginPeer {
    LoginPeer {
        peer: tcp_peer(address),
        encrypted: false,
        certified_names: Vec::new(),
        end_point: None,
    }
}

fn unix() -> LoginPeer {
    LoginPeer {
        peer: Peer::Unix {
            process: 1,
            user: 0,
        },
        ..tcp("127.0.0.1")
    }
}

fn tls(address: &str) -> LoginPeer {
    LoginPeer {
        encrypted: true,
        ..tcp(address)
    }
}

fn to(database: &str) -> LoginTarget<'_> {
    LoginTarget {
        database,
        replication: None,
    }
}

fn try_read(text: &str) -> Result<Hba, (usize, String)> {
    let maps = ident::read("staff root postgres").unwrap();
    let references = HbaReferences {
        maps: &maps,
        file: &|name| match name {
            "names" => Ok("alice, bob # comment\n\n@more\n".to_owned()),
            "more" => Ok("\"@names\"\n".to_owned()),
            "loop" => Ok("@loop".to_owned()),
            "roles" => Ok("+staff".to_owned()),
            _ => Err(io::ErrorKind::NotFound.into()),
        },
    };
    Hba::read(text, &references)
}

fn read(text: &str) -> Hba {
    try_read(text).unwrap_or_else(|error| panic!("{error:?}"))
}

#[test]
fn names_may_be_in_included_files() {
    let hba = read("local all carol,@names trust");
    for user in ["alice", "bob", "carol", "@names"] {
        assert!(hba.method(&unix(), to("app"), user).is_some(), "{user}");
    }
    assert!(hba.method(&unix(), to("app"), "@more").is_none());
    for line in ["local all @loop trust", "local @roles all trust"] {
        assert_eq!(try_read(line).expect_err(line).0, 1);
    }
}

#[test]
fn the_first_rule_that_fits_counts() {
    let hba = read(
        "# TYPE DATABASE USER ADDRESS METHOD\n\
         local all postgres peer map=staff\n\
         local all all md5\n\
         host replication all all trust\n\
         host app,\"other app\" alice,bob 10.0.0.0/8 reject\n\
         host app all 10.1.0.0 255.255.0.0 scram-sha-256 # comment\n\
         hostssl all all all cert\n\
         hostnossl sameuser all ::/0 password\n\
         host \"all\" all 0.0.0.0/0 trust\n",
    );
    let map = ident::read("staff root postgres").unwrap()["staff"].clone();
    for (peer, database, user, expected) in [
        (unix(), "app", "postgres", Some(Method::Peer(Some(map)))),
        (unix(), "app", "alice", Some(Method::Md5)),
        (tcp("10.9.9.9"), "app", "alice", Some(Method::Reject)),
        (tcp("10.9.9.9"), "other app", "bob", Some(Method::Reject)),
        (tcp("10.1.9.9"), "app", "carol", Some(Method::Scram)),
        (tcp("10.2.9.9"), "app", "carol", None),
        (tls("10.2.9.9"), "app", "carol", Some(Method::Cert(None))),
        (tcp("::1"), "carol", "carol", Some(Method::Plain)),
        (tcp("::1"), "app", "carol", None),
        (tls("::1"), "carol", "carol", Some(Method::Cert(None))),
        // In quotes it is a name.
        (tcp("10.2.9.9"), "all", "carol", Some(Method::Trust)),
        (tcp("10.2.9.9"), "replication", "carol", None),
    ] {
        let found = hba.method(&peer, to(database), user);
        assert_eq!(found, expected.as_ref(), "{peer:?} {database} {user}");
    }
}

/// A logical replication connection matches the rules for its database.
#[test]
fn only_the_word_replication_is_for_physical_replication() {
    let hba = read(
        "local \"replication\" all reject\n\
         local replication bob md5\n\
         local all all trust\n\
         local sameuser all trust\n\
         local replication,app alice scram-sha-256\n",
    );
    let method = |replication, user| {
        let target = LoginTarget {
            database: "app",
            replication,
        };
        hba.method(&unix(), target, user).cloned()
    };
    let (physical, logical) = (Some(Replication::Physical), Some(Replication::Logical));
    assert_eq!(method(physical, "bob"), Some(Method::Md5));
    assert_eq!(method(physical, "alice"), Some(Method::Scram));
    assert_eq!(method(physical, "app"), None);
    for kind in [logical, None] {
        assert_eq!(method(kind, "bob"), Some(Method::Trust));
    }
    let named = hba.method(&unix(), to("replication"), "bob");
    assert_eq!(named, Some(&Method::Reject));
}

#[test]
fn networks_match_by_their_mask() {
    for (rule, inside, outside) in [
        ("10.0.0.0/8", "10.255.0.1", "11.0.0.1"),
        ("10.0.0.1/32", "10.0.0.1", "10.0.0.2"),
        ("0.0.0.0/0", "203.0.113.9", "::1"),
        ("::1/128", "::1", "::2"),
        ("fd00::/9", "fd7f::1", "fd80::1"),
        ("::/0", "2001:db8::1", "10.0.0.1"),
        ("10.0.0.0 255.0.255.0", "10.7.0.9", "10.7.1.9"),
    ] {
        let hba = read(&format!("host all all {rule} trust"));
        assert!(
            hba.method(&tcp(inside), to("d"), "u").is_some(),
            "{rule} {inside}"
        );
        assert!(
            hba.method(&tcp(outside), to("d"), "u").is_none(),
            "{rule} {outside}"
        );
    }
}

#[test]
fn unsupported_lines_are_errors() {
    for line in [
        "nonsense",
        "hostgssenc all all all trust",
        "local all",
        "local all all",
        "local all all ident",
        "local samerole all trust",
        "local all +staff trust",
        "local @file all trust",
        "local /^app all trust",
        "local all all trust trust",
        "local all all peer map=nobody",
        "local all all md5 map=staff",
        "local all all cert clientname=DN",
        "local \"all all trust",
        "host all all trust",
        "host all all localhost trust",
        "host all all samehost trust",
        "host all all 10.0.0.0/33 trust",
        "host all all ::/129 trust",
        "host all all 10.0.0.0/x trust",
        "host all all 10.0.0.0 ::ff trust",
        "host all all 10.0.0.0 trust",
        "host all all 10.0.0.0/8,11.0.0.0/8 trust",
    ] {
        let error = try_read(&format!("local all all trust\n\n{line}\n"));
        assert_eq!(error.expect_err(line).0, 3, "{line}");
    }
}

#[test]
fn a_disconnected_client_matches_no_rule() {
    let hba = read("local all all trust\nhost all all all trust");
    let gone = LoginPeer {
        peer: Peer::Disconnected,
        ..tcp("127.0.0.1")
    };
    assert_eq!(hba.method(&gone, to("app"), "alice"), None);
    assert_eq!(
        hba.method(&unix(), to("app"), "alice"),
        Some(&Method::Trust)
    );
}
