//! Parsing of commands, and the formats of values.

use super::command::ConsoleCommand;
use super::show::{self, format_utc};
use super::table::{ColumnType, ConsoleValue, Heading, write_row};
use crate::commands::{AdminCommand, Shutdown};
use bytes::BytesMut;
use paceline_config::Config;

fn parse(text: &str) -> Result<ConsoleCommand, String> {
    ConsoleCommand::parse(text).map_err(|error| error.message)
}

fn admin_command(text: &str) -> AdminCommand {
    match parse(text) {
        Ok(ConsoleCommand::AdminCommand(command, _)) => command,
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
        let Ok(ConsoleCommand::Show(table)) = parse(text) else {
            panic!("{text}");
        };
        assert_eq!(table.name(), "pools", "{text}");
    }
    assert_eq!(admin_command("PAUSE"), AdminCommand::Pause(None));
    assert_eq!(
        admin_command("pause App;"),
        AdminCommand::Pause(Some("App".to_owned()))
    );
    let odd = Some("a \"b\"".to_owned());
    assert_eq!(
        admin_command("KILL \"a \"\"b\"\"\""),
        AdminCommand::Kill(odd)
    );
    assert_eq!(
        admin_command("enable x"),
        AdminCommand::Enable("x".to_owned())
    );
    assert_eq!(admin_command("Reload"), AdminCommand::Reload);
    let when = Shutdown::WaitForServers;
    assert_eq!(
        admin_command("shutdown wait_for_servers"),
        AdminCommand::Shutdown(when)
    );
    assert_eq!(parse("kill_client 17"), Ok(ConsoleCommand::KillClient(17)));
}

#[test]
fn set_takes_words_and_quoted_values() {
    let set = |key: &str, value: &str| {
        let (key, value) = (key.to_owned(), value.to_owned());
        Ok(ConsoleCommand::Set { key, value })
    };
    assert_eq!(parse("SET a=1"), set("a", "1"));
    assert_eq!(parse("set a to 5min;"), set("a", "5min"));
    assert_eq!(parse("set a = 'it''s; so'"), set("a", "it's; so"));
    assert_eq!(parse("set a = ''"), set("a", ""));
    assert_eq!(
        parse("SET extra_float_digits = 3"),
        Ok(ConsoleCommand::SetParameter)
    );
    for wrong in ["set", "set a", "set a 1", "set a = 1 2", "set a = 'x"] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn errors_are_pgbouncers() {
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
fn commands_that_drivers_send_have_no_effect() {
    for empty in ["", " ; ", "-- ping"] {
        assert_eq!(parse(empty), Ok(ConsoleCommand::Empty), "{empty}");
    }
    for begin in ["BEGIN", "BEGIN TRANSACTION", "begin Work"] {
        assert_eq!(
            parse(begin),
            Ok(ConsoleCommand::Transaction("BEGIN")),
            "{begin}"
        );
    }
    assert_eq!(
        parse("end transaction;"),
        Ok(ConsoleCommand::Transaction("COMMIT"))
    );
    assert!(matches!(
        parse("show DateStyle"),
        Ok(ConsoleCommand::Parameter(_))
    ));
}

#[test]
fn only_waiting_commands_can_be_cancelled() {
    for (text, only_waits) in [
        ("pause", true),
        ("suspend", true),
        ("wait_close x", true),
        ("kill x", false),
        ("reload", false),
        ("show pools", false),
    ] {
        assert_eq!(
            parse(text).map(|command| command.only_waits()),
            Ok(only_waits),
            "{text}"
        );
    }
}

fn encoded(column_type: ColumnType, value: ConsoleValue, format: i16) -> Vec<u8> {
    let mut out = BytesMut::new();
    let headings = [Heading {
        name: "c",
        column_type,
    }];
    write_row(&headings, &[format], &vec![value], &mut out);
    // After the header, the number of values, and the length of the value.
    out[5 + 2 + 4..].to_vec()
}

#[test]
fn values_are_written_in_both_formats() {
    let number = ConsoleValue::Number;
    assert_eq!(encoded(ColumnType::Int4, number(7), 1), [0, 0, 0, 7]);
    assert_eq!(encoded(ColumnType::Int4, number(1 << 40), 0), b"2147483647");
    assert_eq!(
        encoded(ColumnType::Int8, number(258), 1),
        [0, 0, 0, 0, 0, 0, 1, 2]
    );
    assert_eq!(
        encoded(ColumnType::Numeric, number(u64::MAX), 0),
        b"18446744073709551615"
    );
    let two_digits = [0, 2, 0, 1, 0, 0, 0, 0, 0, 3, 0, 4];
    assert_eq!(encoded(ColumnType::Numeric, number(30_004), 1), two_digits);
    assert_eq!(encoded(ColumnType::Numeric, number(0), 1), [0; 8]);
    assert_eq!(
        encoded(ColumnType::Float8, ConsoleValue::Float(1.5), 0),
        b"1.5"
    );
    assert_eq!(encoded(ColumnType::Text, "x".into(), 1), b"x");
}

#[test]
fn every_table_has_columns_and_its_name() {
    let config = Config::for_upstream("postgres://db").unwrap();
    let proxy = std::sync::Arc::new(paceline_proxy::proxy::Proxy::new(config));
    let pool = proxy.pools.pool("app", "ann").unwrap();
    proxy.pools.label(&pool, "app", "ann");
    for table in show::all() {
        let (name, headings) = (table.name(), table.headings());
        assert_eq!(show::find(name), Some(table));
        assert!(!headings.is_empty(), "{name}");
        for row in table.rows(&proxy) {
            assert_eq!(row.len(), headings.len(), "{name}");
        }
    }
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
        assert_eq!(format_utc(seconds), shown);
    }
}
