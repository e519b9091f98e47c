//! Databases with several hosts, and with one.

use super::{config, refused, remarks};
use crate::hosts::Host;

#[test]
fn several_hosts_become_a_list() {
    let text = "[databases]\nx = host=db1,::1 port=5432,5433 load_balance_hosts=round-robin target_session_attrs=read-write\n";
    let config = config(text);
    let database = &config.databases["x"];
    assert_eq!(database.primary.host, Host::Tcp("db1".to_owned()));
    let hosts: Vec<_> = database.all_hosts().map(|host| host.to_string()).collect();
    assert_eq!(hosts, ["db1:5432", "[::1]:5433"]);
    let remarks = remarks(text);
    let remarked = |words: &str| remarks.iter().any(|remark| remark.contains(words));
    assert!(remarked("p.ini:5: host names several hosts"), "{remarks:?}");
    assert!(
        remarked("p.ini:5: load_balance_hosts is ignored: clients get the primary"),
        "{remarks:?}"
    );
}

#[test]
fn wrong_lists_of_hosts_are_refused() {
    for (pairs, refusal) in [
        (
            "host=db1,db2, ",
            "p.ini:5: host: the list has an empty name",
        ),
        (
            "host=db1,db2 port=1,2,3",
            "p.ini:5: port: there are neither one nor as many ports as hosts",
        ),
        (
            "host=db1 port=1,2",
            "p.ini:5: port: there are neither one nor",
        ),
        ("host=db1,db2 port=1,x", "p.ini:5: port: it is not a number"),
        ("host=db1,@db2", "p.ini:5: host: abstract Unix sockets"),
        ("host=db1,db1", "p.ini:5: the URL names a host twice"),
        (
            "host=db1,db2 target_session_attrs=prefer-standby",
            "p.ini:5: target_session_attrs: Paceline sends no requests to replicas",
        ),
        (
            "host=db1 target_session_attrs=read-write",
            "p.ini:5: target_session_attrs: Paceline sends no requests to replicas, and does not check whether a single",
        ),
    ] {
        let refused = refused(&format!("[databases]\nx = {pairs}\n"));
        assert!(refused.starts_with(refusal), "{refused}");
    }
}

#[test]
fn a_single_host_leaves_no_choice() {
    let text =
        "[databases]\nx = host=db1 load_balance_hosts=round-robin target_session_attrs=any\n";
    let remarks = remarks(text);
    let remarked = |words: &str| remarks.iter().any(|remark| remark.contains(words));
    assert!(remarked("load_balance_hosts is ignored"), "{remarks:?}");
    for hosts in [",db2", "' ,db2'"] {
        let refusal = refused(&format!("[databases]\nx = host={hosts}\n"));
        assert_eq!(
            refusal,
            "p.ini:5: host: the list begins with an empty name; write the name of the server first"
        );
    }
}
