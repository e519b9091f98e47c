//! Screens of a snapshot, as text.

use super::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::{Value, json};

/// A snapshot as the console sends it.
fn snapshot() -> Value {
    let template = |text: &str, mean: f64| {
        json!({
            "database": "shop", "user": "app", "template": text,
            "units": {"total": 200, "per_second": 100.0}, "grouped": {"total": 150, "per_second": 75.0},
            "largest": 40, "strategies": ["fold"],
            "would_have_grouped": {"total": 0, "per_second": 0.0}, "mean_ms": mean,
        })
    };
    json!({
        "version": "0.1.0", "time": 90_000_000, "started": 0, "state": "active",
        "clients": 12, "clients_max": 100, "units": {"fold": 75.0, "solo": 25.25, "take": 0.0},
        "groups": {"per_second": 5.0, "mean": 15.0, "sizes": [], "bounds": []},
        "saved": {"total": 140, "per_second": 70.0}, "wait_ms": 2.5, "query_ms": null,
        "errors": [{"sqlstate": "40001", "total": 3, "per_second": 0.5}],
        "templates": [template("aaaa UPDATE stock", 1.25), template("bbbb SELECT", 0.5)],
        "slowest": [template("cccc \u{1b}[2J report", 812.0)],
        "hot_rows": [
            {"database": "shop", "user": "app", "template": "aaaa UPDATE stock", "row": "beef", "values": "42", "waiting": 31},
            {"database": "shop", "user": "app", "template": "aaaa UPDATE stock", "row": "cafe", "waiting": 2},
        ],
        "pools": [{
            "database": "shop", "user": "app", "cl_active": 4, "cl_waiting": 33, "sv_active": 2, "sv_idle": 1,
            "maxwait": 1, "maxwait_us": 500_000, "pool_mode": "transaction", "max_groups_in_flight": 2, "max_groups_reason": "found",
        }],
        "pools_found": 1, "servers": [], "hosts": [], "databases": [], "grouping": [],
    })
}

fn screen(snapshot: Value) -> Screen {
    let mut screen = Screen::default();
    screen.update(Update {
        snapshot: serde_json::from_value(snapshot).unwrap(),
        clients: None,
    });
    screen
}

/// The lines on a terminal of this height.
fn drawn(screen: &mut Screen, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(120, height)).unwrap();
    terminal.draw(|frame| screen.draw(frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let lines = buffer.content().chunks(120);
    let lines = lines.map(|cells| cells.iter().map(|cell| cell.symbol()).collect::<String>());
    lines.map(|line| line.trim_end().to_owned()).collect()
}

fn line<'a>(lines: &'a [String], part: &str) -> &'a str {
    let found = lines.iter().find(|line| line.contains(part));
    found.unwrap_or_else(|| panic!("{part:?} is not in {lines:#?}"))
}

#[test]
fn the_numbers_are_those_of_the_snapshot() {
    let lines = drawn(&mut screen(snapshot()), 30);
    assert_eq!(lines[0], " paceline 0.1.0  active  up 1 d 1 h");
    assert!(
        line(&lines, "units/s")
            .starts_with(" units/s 100   groups/s 5.0 × 15.0   lock waits avoided/s 70")
    );
    assert!(
        line(&lines, "in the line")
            .contains("on a server –   in the line 2.50 ms   waiting 33   clients 12 of 100")
    );
    assert_eq!(line(&lines, "fold 75"), " fold 75  solo 25");
    let row = line(&lines, "bbbb SELECT");
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(words[..6], ["100", "75", "%", "40", "0.50", "fold"]);
    assert!(lines.last().unwrap().contains("q quit"));
}

#[test]
fn a_key_shows_another_view() {
    let mut screen = screen(snapshot());
    let mut seen = |key, part: &str| {
        screen.press(key);
        line(&drawn(&mut screen, 24), part).to_owned()
    };
    assert!(seen(Key::Show(View::Rows), " 31 42 ").contains("aaaa UPDATE stock"));
    assert!(seen(Key::Show(View::Rows), "#cafe").contains(" 2 "));
    assert!(seen(Key::Next, "transaction").contains("1.5 s"));
    assert!(seen(Key::Show(View::Errors), "40001").contains("0.5"));
    assert!(
        seen(Key::Next, "units/s").contains("100"),
        "the first view follows the last"
    );
    assert!(seen(Key::Show(View::Servers), "No server").contains("connections"));
}

#[test]
fn clients_are_wanted_while_they_are_shown() {
    let mut screen = screen(snapshot());
    assert!(!screen.wants_clients());
    assert!(
        screen.press(Key::Show(View::Clients)),
        "they are needed at once"
    );
    let mut client = vec![None; 22];
    for (place, value) in [
        (1, "ann"),
        (2, "shop"),
        (4, "waiting"),
        (5, "10.0.0.7"),
        (6, "999"),
        (11, "3"),
        (12, "250000"),
        (20, "5"),
        (21, "0"),
    ] {
        client[place] = Some(value.to_owned());
    }
    screen.update(Update {
        snapshot: serde_json::from_value(snapshot()).unwrap(),
        clients: Some(vec![client]),
    });
    let row = line(&drawn(&mut screen, 24), "10.0.0.7:999").to_owned();
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(
        words,
        ["5", "waiting", "3.2", "s", "ann", "shop", "10.0.0.7:999"]
    );
    assert!(!screen.press(Key::Redraw));
}

#[test]
fn control_characters_of_clients_do_not_reach_the_terminal() {
    let mut screen = screen(snapshot());
    screen.press(Key::Show(View::Slowest));
    let lines = drawn(&mut screen, 24);
    assert!(line(&lines, "report").contains("cccc \u{fffd}[2J report"));
}

#[test]
fn a_view_scrolls_as_far_as_its_rows() {
    let mut many = snapshot();
    let errors =
        (0..50).map(|n| json!({"sqlstate": format!("E{n:04}"), "total": 1, "per_second": 0.0}));
    many["errors"] = errors.collect();
    let mut screen = screen(many);
    screen.press(Key::Show(View::Errors));
    assert!(
        drawn(&mut screen, 24)
            .iter()
            .any(|line| line.contains("E0000"))
    );
    screen.press(Key::Scroll(10));
    assert!(drawn(&mut screen, 24)[12].contains("E0010"));
    screen.press(Key::Scroll(1_000));
    let last = drawn(&mut screen, 24);
    assert!(last[22].contains("E0049"), "{last:#?}");
    screen.press(Key::Scroll(-1_000));
    assert!(drawn(&mut screen, 24)[12].contains("E0000"));
}

#[test]
fn a_lost_connection_and_a_stop_are_shown() {
    let mut screen = screen(snapshot());
    screen.press(Key::Pause);
    assert!(screen.is_paused());
    assert!(drawn(&mut screen, 24)[0].contains("stopped"));
    screen.lost(&anyhow::anyhow!("connection refused"));
    assert!(drawn(&mut screen, 24)[0].contains("no answer: connection refused"));
    screen.update(Update {
        snapshot: serde_json::from_value(snapshot()).unwrap(),
        clients: None,
    });
    assert!(!drawn(&mut screen, 24)[0].contains("no answer"));
}
