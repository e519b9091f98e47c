//! The actions of an operator in the browser.

use super::browser::Browser;
use super::{ANN, STAN, Scene, scene};
use crate::harness::load::Load;
use crate::harness::message::unit;
use crate::harness::stage::REASON;
use crate::harness::{Gate, until};
use crate::operations::table;
use serde_json::json;

/// Markup that would run a script if the page took it for markup.
const MARKUP: &str = "<img src=x onerror=\"window.attacked=1\"><script>window.attacked=1</script>'";

fn units(browser: &mut Browser) -> bool {
    let shown = browser.text("#numbers [data-key=units] dd span");
    shown.chars().any(|digit| ('1'..='9').contains(&digit))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_sees_load_arrive_pauses_and_resumes() {
    let Some(scene) = scene(&["hotspot_for_autocommit=on", "default_pool_size=2"]) else {
        return;
    };
    table(&mut scene.stage.direct());
    let mut browser = Browser::open(&scene.url);
    browser.log_in(ANN);
    browser.await_sample();
    assert_eq!(browser.text("#who"), "ann (admin)");
    assert_eq!(browser.text("#numbers [data-key=units] dd span"), "0");
    let load = Load::start(&scene.stage.url(), 16);
    load.progress(100).await;
    until("the page shows units", || units(&mut browser));
    until("the page shows groups", || {
        browser.text("#groups-now").contains("groups/s of")
    });
    browser.until("document.querySelector('#legend').innerText.includes('fold')");
    browser.until("document.querySelector('#templates').innerText.includes('UPDATE')");
    browser.until("document.querySelector('#heat').children.length > 1");

    let row = format!("[aria-label='Pause {}']", scene.stage.database);
    browser.click(&row);
    browser.until("document.getElementById('confirm').open");
    browser.click("#confirm-yes");
    browser.until("document.getElementById('notice').innerText.endsWith(': done')");
    browser.until("document.getElementById('state').innerText.includes('paused')");
    browser
        .until("document.querySelector('#numbers [data-key=waiting] dd span').innerText === '16'");
    browser.until("document.querySelector('#rows tbody tr')");
    let waiting = browser.value(
        "[...document.querySelectorAll('#rows [data-name=Waiting]')].reduce((sum, cell) => sum + Number(cell.textContent), 0)",
    );
    assert!((2..=16).contains(&waiting.as_i64().unwrap()), "{waiting}");
    let before = load.tally.acknowledged();
    browser.click(&row.replace("Pause", "Resume"));
    browser.click("#confirm-no");
    browser.until("!document.getElementById('confirm').open");
    assert_eq!(load.tally.acknowledged(), before);
    browser.click(&row.replace("Pause", "Resume"));
    browser.click("#confirm-yes");
    load.progress(100).await;
    browser.until("document.getElementById('state').innerText === 'active'");
    load.stop().await.check(&mut scene.stage.direct());
    assert_eq!(browser.complaints, Vec::<String>::new());
}

/// A statement that would have been grouped is, from the moment at which an operator allows it.
#[test]
fn an_operator_turns_grouping_on_for_a_template() {
    let Some(scene) = scene(&["default_pool_size=1"]) else {
        return;
    };
    table(&mut scene.stage.direct());
    let add = "UPDATE t SET n = n + 1 WHERE id = $1";
    let round = |expected: i64| {
        let mut clients = scene.stage.clients(4);
        let mut gate = Gate::close(&scene.stage);
        for client in &mut clients {
            gate.submit(client, &unit(add, &[Some("1")]));
        }
        let before = scene.stage.counters().members;
        gate.open();
        for client in &mut clients {
            assert_eq!(client.reply().tag(), "UPDATE 1");
        }
        assert_eq!(scene.stage.counters().members - before, expected);
    };
    let learn = || {
        until("the statement is analyzed", || {
            scene.stage.client().ask(&unit(add, &[Some("1")]));
            let rows = scene.stage.client().ok("SHOW GROUPS").rows();
            let row = rows.iter().find(|row| row[0].as_deref() == Some(add));
            let reason = row.and_then(|row| row[REASON].clone());
            !reason.is_some_and(|why| why.contains("has not been asked"))
        });
    };
    learn();
    round(0);
    let mut browser = Browser::open(&scene.url);
    browser.log_in(ANN);
    browser.await_sample();
    for (command, expected) in [
        ("allow_grouping", 4),
        ("reset_grouping", 0),
        ("deny_grouping", 0),
        ("reset_grouping", 0),
    ] {
        let button = format!("#templates [data-command={command}]");
        browser.until(&format!("document.querySelector('{button}')"));
        browser.click(&button);
        browser.click("#confirm-yes");
        browser.until("document.getElementById('notice').innerText.endsWith(': done')");
        learn();
        round(expected);
    }
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
fn clients_are_filtered_and_killed_and_their_names_are_no_markup() {
    let Some(scene) = scene(&[]) else {
        return;
    };
    let mut clients =
        [MARKUP, "report"].map(|name| scene.stage.client_with(&[("application_name", name)]));
    clients[0].ok(&format!("SELECT 1 AS \"{}\"", MARKUP.replace('"', "\"\"")));
    clients[1].ok("SELECT '</script><script>window.attacked=1</script>'");
    clients[1].simple("SELECT * FROM \"<script>window.attacked=1</script>\"");
    let mut browser = Browser::open(&scene.url);
    browser.log_in(ANN);
    browser.await_sample();
    browser.until("document.querySelectorAll('#clients tbody tr').length === 2");
    assert_eq!(browser.text("#clients-found"), "2 of 2");
    let names = browser.value("[...document.querySelectorAll('#clients [data-name=Application]')].map(cell => cell.textContent).sort()");
    assert_eq!(names, json!([MARKUP, "report"]));
    browser.until("document.querySelector('#templates').innerText.includes('<script>')");
    browser.until("document.querySelector('#errors').innerText.includes('42P01')");
    browser.fill("#filters [name=application_name]", "REP");
    browser.until("document.getElementById('clients-found').innerText === '1 of 2'");
    assert_eq!(browser.text("#clients [data-name=Application]"), "report");
    browser.fill("#filters [name=database]", "elsewhere");
    browser.until("document.getElementById('clients').innerText === 'No client fits the filter.'");
    browser.fill("#filters [name=database]", "");
    browser.until("document.querySelectorAll('#clients tbody tr').length === 1");
    browser.click("#clients [data-command=kill_client]");
    browser.click("#confirm-yes");
    browser.until("document.getElementById('clients-found').innerText === '0 of 1'");
    clients[0].ok("SELECT 1");
    assert_eq!(browser.value("window.attacked ?? null"), json!(null));
    let foreign = browser.value("[document.images.length, document.scripts.length]");
    assert_eq!(foreign, json!([0, 1]));
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
fn a_script_in_the_page_without_its_nonce_does_not_run() {
    let Some(scene) = scene(&[]) else {
        return;
    };
    let mut browser = Browser::open(&scene.url);
    browser.value(
        "(() => { const script = document.createElement('script'); script.textContent = 'window.attacked = 1';
           document.body.append(script); })()",
    );
    assert_eq!(browser.value("window.attacked ?? null"), json!(null));
    assert!(!browser.complaints.is_empty());
}

#[test]
fn a_user_who_may_only_look_gets_no_buttons_and_no_log() {
    let Some(scene) = scene(&[]) else {
        return;
    };
    let _client = scene.stage.client();
    let mut browser = Browser::open(&scene.url);
    browser.log_in((STAN.0, "wrong"));
    browser.until("document.querySelector('#login [role=alert]').innerText.includes('wrong')");
    assert_eq!(
        browser.value("document.getElementById('content').hidden"),
        true
    );
    browser.log_in(STAN);
    browser.await_sample();
    assert_eq!(browser.text("#who"), "stan (read only)");
    browser.until("document.querySelector('#clients tbody tr')");
    assert_eq!(
        browser.value("document.querySelectorAll('[data-command]').length"),
        0
    );
    assert_eq!(
        browser.value("document.getElementById('log-section').hidden"),
        true
    );
    assert_eq!(browser.value("document.cookie"), "");
    browser.click("#logout");
    browser.until("!document.getElementById('login').hidden");
    assert_eq!(
        browser.value("fetch('/session').then(answer => answer.status)"),
        401
    );
}

/// A page in the background closes its stream; one that returns opens it again.
#[test]
fn nothing_is_collected_while_no_browser_looks() {
    let Some(mut scene) = scene(&["verbose=1"]) else {
        return;
    };
    let count = |scene: &mut Scene| {
        let paceline = scene.paceline();
        ["collects its data", "collects nothing"].map(|text| paceline.heard(text))
    };
    let mut first = Browser::open(&scene.url);
    assert_eq!(count(&mut scene), [0, 0]);
    first.log_in(ANN);
    first.await_sample();
    let mut second = Browser::open(&scene.url);
    second.log_in(ANN);
    second.await_sample();
    assert_eq!(count(&mut scene), [1, 0]);
    drop(first);
    second.until("document.getElementById('log').innerText.includes('login to the web console')");
    assert_eq!(count(&mut scene), [1, 0]);
    drop(second);
    until("the sampler ends", || count(&mut scene) == [1, 1]);
    let mut third = Browser::open(&scene.url);
    third.log_in(ANN);
    third.await_sample();
    assert_eq!(count(&mut scene), [2, 1]);
}
