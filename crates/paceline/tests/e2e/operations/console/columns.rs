//! The columns of every table are PgBouncer 1.25's (with 1.26's count of logins), in its order and of its types; Paceline's own columns
//! follow.

use super::{operator, row, stage};
use crate::harness::Stage;
use crate::harness::reply::{Message, Reply};

const SOCKET: &str = "type user database replication state addr port local_addr local_port connect_time request_time \
    wait wait_us close_needed ptr link remote_pid tls application_name prepared_statements id";
const SOCKET_TYPES: &str = "ssssssisissiiississii";

/// The answers of PgBouncer 1.25 (and 1.26's count of logins): the command, its columns, and a letter for the type of each.
fn pgbouncer() -> Vec<(&'static str, String, String)> {
    let debug = "recv_pos pkt_pos pkt_remain send_pos send_remain pkt_avail send_avail";
    let mut all = vec![
        ("clients", SOCKET.to_owned(), SOCKET_TYPES.to_owned()),
        ("servers", SOCKET.to_owned(), SOCKET_TYPES.to_owned()),
    ];
    for sockets in ["sockets", "active_sockets"] {
        let types = format!("{SOCKET_TYPES}iiiiiii");
        all.push((sockets, format!("{SOCKET} {debug}"), types));
    }
    let others = [
        (
            "stats",
            "database total_server_assignment_count total_xact_count total_query_count total_received total_sent \
             total_xact_time total_query_time total_wait_time total_client_parse_count total_server_parse_count \
             total_bind_count total_client_login_count avg_server_assignment_count avg_xact_count avg_query_count avg_recv avg_sent \
             avg_xact_time avg_query_time avg_wait_time avg_client_parse_count avg_server_parse_count avg_bind_count \
             avg_client_login_count",
            "sNNNNNNNNNNNNNNNNNNNNNNNN",
        ),
        (
            "stats_totals",
            "database server_assignment_count xact_count query_count bytes_received bytes_sent xact_time query_time \
             wait_time client_parse_count server_parse_count bind_count client_login_count",
            "sNNNNNNNNNNNN",
        ),
        (
            "stats_averages",
            "database server_assignment_count xact_count query_count bytes_received bytes_sent xact_time query_time \
             wait_time avg_client_parse_count avg_server_parse_count avg_bind_count avg_client_login_count",
            "sNNNNNNNNNNNN",
        ),
        ("totals", "name value", "sN"),
        (
            "pools",
            "database user cl_active cl_waiting cl_active_cancel_req cl_waiting_cancel_req sv_active sv_active_cancel \
             sv_being_canceled sv_idle sv_used sv_tested sv_login maxwait maxwait_us pool_mode load_balance_hosts",
            "ssiiiiiiiiiiiiiss",
        ),
        (
            "databases",
            "name host port database force_user pool_size min_pool_size reserve_pool_size server_lifetime pool_mode \
             load_balance_hosts max_connections current_connections max_client_connections \
             current_client_connections paused disabled",
            "ssissiiiissiiiiii",
        ),
        (
            "users",
            "name pool_size reserve_pool_size pool_mode max_user_connections current_connections \
             max_user_client_connections current_client_connections",
            "ssssiiii",
        ),
        ("lists", "list items", "si"),
        ("config", "key value default changeable", "ssss"),
        ("mem", "name size used free memtotal", "siiii"),
        ("state", "key value", "ss"),
        ("version", "version", "s"),
        ("peers", "peer_id host port pool_size", "isii"),
        (
            "peer_pools",
            "peer_id cl_active_cancel_req cl_waiting_cancel_req sv_active_cancel sv_login",
            "iiiii",
        ),
        ("dns_hosts", "hostname ttl addrs", "sqs"),
        ("dns_zones", "zonename serial count", "sqi"),
    ];
    all.extend(others.map(|(show, names, types)| (show, names.to_owned(), types.to_owned())));
    all
}

/// Names, and types as PgBouncer's letters.
#[track_caller]
fn described(reply: &Reply) -> (Vec<String>, String) {
    let message = reply.0.iter().find(|message| message.tag == b'T');
    let message = message.unwrap_or_else(|| panic!("{reply:#?}"));
    (message.columns(), types(message))
}

fn types(description: &Message) -> String {
    let mut rest = &description.body[2..];
    let mut types = String::new();
    while let Some(end) = rest.iter().position(|byte| *byte == 0) {
        let fixed = &rest[end + 1..];
        let oid = u32::from_be_bytes(fixed[6..10].try_into().unwrap());
        types.push(match oid {
            25 => 's',
            23 => 'i',
            20 => 'q',
            1700 => 'N',
            701 => 'f',
            other => panic!("type {other}"),
        });
        rest = &fixed[18..];
    }
    types
}

#[test]
fn tables_have_pgbouncers_columns() {
    let Some(stage) = stage(Stage::on_shared()) else {
        return;
    };
    stage.client().ok("SELECT 1");
    let mut operator = operator(&stage);
    for (show, names, types) in pgbouncer() {
        let reply = operator.ok(&format!("SHOW {show}"));
        assert_eq!(reply.tag(), "SHOW");
        let (found, found_types) = described(&reply);
        let names: Vec<&str> = names.split_whitespace().collect();
        assert_eq!(found[..names.len()], names, "SHOW {show}");
        assert!(
            found_types.starts_with(&types),
            "SHOW {show}: {found_types}"
        );
        assert_eq!(found.len(), found_types.len());
    }
}

/// Only the columns after PgBouncer's.
#[test]
fn columns_of_our_own_come_last() {
    let Some(stage) = stage(Stage::on_shared()) else {
        return;
    };
    let mut operator = operator(&stage);
    let ours = [
        ("stats", "NNNN", 25),
        ("stats_totals", "NN", 13),
        ("stats_averages", "NN", 13),
        ("clients", "is", 21),
        ("servers", "sqqqss", 21),
        ("pools", "qqisiq", 17),
        ("failovers", "ssssqqsqq", 0),
    ];
    for (show, types, theirs) in ours {
        let found = described(&operator.ok(&format!("SHOW {show}"))).1;
        assert_eq!(&found[theirs..], types, "SHOW {show}");
    }
    let (names, types) = described(&operator.ok("SHOW GROUPS"));
    assert_eq!(names[..4], ["database", "user", "template", "strategy"]);
    assert_eq!(types, "ssssqqfqfqqsqsqsf");
}

#[test]
fn lists_and_totals_have_pgbouncers_rows() {
    let Some(stage) = stage(Stage::on_shared()) else {
        return;
    };
    let mut operator = operator(&stage);
    let mut first = |show: &str| -> Vec<String> {
        let rows = operator.ok(show).rows();
        rows.into_iter()
            .map(|row| row[0].clone().unwrap())
            .collect()
    };
    assert_eq!(
        first("SHOW LISTS"),
        [
            "databases",
            "users",
            "peers",
            "pools",
            "peer_pools",
            "free_clients",
            "used_clients",
            "login_clients",
            "free_servers",
            "used_servers",
            "dns_names",
            "dns_zones",
            "dns_queries",
            "dns_pending"
        ]
    );
    assert_eq!(
        first("SHOW TOTALS")[..11],
        [
            "total_server_assignment_count",
            "total_xact_count",
            "total_query_count",
            "total_client_bytes",
            "total_server_bytes",
            "total_xact_time",
            "total_query_time",
            "total_wait_time",
            "total_ps_client_parse_count",
            "total_ps_server_parse_count",
            "total_ps_bind_count"
        ]
    );
    assert_eq!(first("SHOW STATE"), ["active", "paused", "suspended"]);
    for (list, items) in [
        ("used_clients", "1"),
        ("login_clients", "0"),
        ("databases", "1"),
    ] {
        assert_eq!(
            row(&mut operator, "SHOW LISTS", "list", list)["items"],
            items,
            "{list}"
        );
    }
}
