//! A password that the server takes no more, when a pool already has connections.

use super::cluster;
use crate::harness::message::query;
use crate::harness::paceline::Paceline;
use crate::harness::raw::RawClient;
use crate::harness::until;

#[test]
fn a_password_that_is_refused_later_is_logged() {
    let Some(cluster) = cluster() else { return };
    let mut admin = cluster.client("postgres");
    admin.ok("CREATE ROLE later LOGIN PASSWORD 'first'");
    let upstream = format!("postgres://later:first@127.0.0.1:{}", cluster.port());
    let paceline = Paceline::start(&upstream)
        .set("default_pool_size=2")
        .spawn();
    let connect = || {
        RawClient::connect(
            paceline.port(),
            &[("user", "any"), ("database", "postgres")],
        )
    };
    let (mut first, mut second) = (connect(), connect());
    first.ok("BEGIN");
    admin.ok("ALTER ROLE later PASSWORD 'second'");
    second.send(&query("SELECT 'served'"));
    until("it is logged", || paceline.logged("28P01"));
    assert!(paceline.logged("keeps the connections that it has"));
    first.ok("COMMIT");
    assert_eq!(second.reply().value(), "served");
}
