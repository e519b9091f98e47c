//! What the console understands, and how values are written.

use super::command::Command;
use super::show::Show;
use super::table::{Column, Kind, Value, columns, write_row};
use super::*;
use crate::commands::{AdminCommand, Shutdown};
use bytes::BytesMut;
use paceline_config::Config;

fn parse(text: &str) -> Result<Command, String> {
    Command::parse(text).map_err(|error| error.message)
}

fn order(text: &str) -> AdminCommand {
    match parse(text) {
        Ok(Command::AdminCommand(order, _)) => order,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn commands_are_read_as_pgbouncer_reads_them() {
    for text in [
        "show pools",
        " SHOW\tPools ;\n",
        "\"show\" \"pools\";",
        "select pools",
    ] {
        assert_eq!(parse(text), Ok(Command::Show(Show::Pools)), "{text}");
    }
    assert_eq!(order("PAUSE"), AdminCommand::Pause(None));
    assert_eq!(
        order("pause App;"),
        AdminCommand::Pause(Some("App".to_owned()))
    );
    let odd = Some("a \"b\"".to_owned());
    assert_eq!(order("KILL \"a \"\"b\"\"\""), AdminCommand::Kill(odd));
    assert_eq!(order("enable x"), AdminCommand::Enable("x".to_owned()));
    assert_eq!(order("Reload"), AdminCommand::Reload);
    let when = Shutdown::WaitForServers;
    assert_eq!(
        order("shutdown wait_for_servers"),
        AdminCommand::Shutdown(when)
    );
    assert_eq!(parse("kill_client 17"), Ok(Command::KillClient(17)));
}

#[test]
fn set_takes_words_and_quoted_values() {
    let set = |key: &str, value: &str| {
        let (key, value) = (key.to_owned(), value.to_owned());
        Ok(Command::Set { key, value })
    };
    assert_eq!(parse("SET a=1"), set("a", "1"));
    assert_eq!(parse("set a to 5min;"), set("a", "5min"));
    assert_eq!(parse("set a = 'it''s; so'"), set("a", "it's; so"));
    assert_eq!(parse("set a = ''"), set("a", ""));
    assert_eq!(
        parse("SET extra_float_digits = 3"),
        Ok(Command::SetParameter)
    );
    for wrong in ["set", "set a", "set a 1", "set a = 1 2", "set a = 'x"] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn what_is_wrong_is_told_in_pgbouncers_words() {
    for (text, message) in [
        (
            "show nothing",
            "invalid command 'show nothing', use SHOW HELP;",
        ),
        ("pause a b", "invalid command 'pause a b', use SHOW HELP;"),
        (
            "select 1, 2",
            "invalid command 'select 1, 2', use SHOW HELP;",
        ),
        ("reload x", "invalid command 'reload x', use SHOW HELP;"),
        (
            "shutdown now",
            "invalid command 'shutdown now', use SHOW HELP;",
        ),
        ("disable", "a database is required"),
        ("kill_client", "invalid client pointer supplied"),
        ("kill_client x", "invalid client pointer supplied"),
    ] {
        assert_eq!(parse(text), Err(message.to_owned()), "{text}");
    }
}

#[test]
fn what_drivers_send_on_the_way_does_no_harm() {
    for empty in ["", " ; ", "-- ping"] {
        assert_eq!(parse(empty), Ok(Command::Empty), "{empty}");
    }
    for begin in ["BEGIN", "BEGIN TRANSACTION", "begin Work"] {
        assert_eq!(parse(begin), Ok(Command::Transaction("BEGIN")), "{begin}");
    }
    assert_eq!(
        parse("end transaction;"),
        Ok(Command::Transaction("COMMIT"))
    );
    assert!(matches!(parse("show DateStyle"), Ok(Command::Parameter(_))));
}

#[test]
fn only_waits_are_given_up() {
    for (text, waits) in [
        ("pause", true),
        ("suspend", true),
        ("wait_close x", true),
        ("kill x", false),
        ("reload", false),
        ("show pools", false),
    ] {
        assert_eq!(
            parse(text).map(|command| command.only_waits()),
            Ok(waits),
            "{text}"
        );
    }
}

fn encoded(kind: Kind, value: Value, format: i16) -> Vec<u8> {
    let mut out = BytesMut::new();
    let columns = [Column { name: "c", kind }];
    write_row(&columns, &[format], &vec![value], &mut out);
    // Header, number of values, length.
    out[5 + 2 + 4..].to_vec()
}

#[test]
fn values_are_written_in_both_formats() {
    let number = Value::Number;
    assert_eq!(encoded(Kind::Int4, number(7), 1), [0, 0, 0, 7]);
    assert_eq!(encoded(Kind::Int4, number(1 << 40), 0), b"2147483647");
    assert_eq!(
        encoded(Kind::Int8, number(258), 1),
        [0, 0, 0, 0, 0, 0, 1, 2]
    );
    assert_eq!(
        encoded(Kind::Numeric, number(u64::MAX), 0),
        b"18446744073709551615"
    );
    let two_digits = [0, 2, 0, 1, 0, 0, 0, 0, 0, 3, 0, 4];
    assert_eq!(encoded(Kind::Numeric, number(30_004), 1), two_digits);
    assert_eq!(encoded(Kind::Numeric, number(0), 1), [0; 8]);
    assert_eq!(encoded(Kind::Float8, Value::Float(1.5), 0), b"1.5");
    assert_eq!(encoded(Kind::Text, "x".into(), 1), b"x");
}

/// A letter for each column, a value for each column.
#[test]
fn tables_are_as_wide_as_their_columns() {
    let config = Config::for_upstream("postgres://db").unwrap();
    let proxy = std::sync::Arc::new(paceline_proxy::proxy::Proxy::new(config));
    let pool = proxy.pools.pool("app", "rider").unwrap();
    proxy.pools.label(&pool, "app", "rider");
    for (show, name) in Show::NAMES {
        let columns = show.columns();
        assert!(!columns.is_empty(), "{name}");
        for row in show.rows(&proxy) {
            assert_eq!(row.len(), columns.len(), "{name}");
        }
    }
    assert_eq!(columns("si", &["a", "b"]).len(), 2);
}

#[test]
fn times_are_shown_in_utc() {
    for (seconds, shown) in [
        (0, "1970-01-01 00:00:00 UTC"),
        (951_782_399, "2000-02-28 23:59:59 UTC"),
        (951_782_400, "2000-02-29 00:00:00 UTC"),
        (1_709_251_200, "2024-03-01 00:00:00 UTC"),
        (u32::MAX, "2106-02-07 06:28:15 UTC"),
    ] {
        assert_eq!(show::utc(seconds), shown);
    }
}
