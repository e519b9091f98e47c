//! The layout of the page, and its pictures for the documentation: empty, under load and in trouble, on large and small screens.

use super::browser::Browser;
use super::{ANN, scene};
use crate::harness::load::Load;
use crate::operations::table;
use serde_json::json;

const LARGE: (u32, u32) = (1_100, 860);
const SMALL: (u32, u32) = (390, 844);
/// The whole page.
const TALL: (u32, u32) = (1_100, 2_400);
const TALL_SMALL: (u32, u32) = (390, 4_600);

/// Elements that end beyond the right edge of the page, except those in boxes that scroll.
const WIDE: &str = "[...document.querySelectorAll('body *')]
    .filter(element => !element.closest('.scroll, .skip, .hide, svg') && element.getBoundingClientRect().right > innerWidth + 0.5)
    .map(element => element.tagName + '.' + element.className)";

#[track_caller]
fn shot(browser: &mut Browser, size: (u32, u32), theme: &str, name: &str) {
    browser.resize(size, theme);
    browser.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))");
    assert_eq!(browser.value(WIDE), json!([]), "{name}");
    browser.picture(name);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_fits_large_and_small_screens() {
    let Some(scene) = scene(&["hotspot_for_autocommit=on", "default_pool_size=2"]) else {
        return;
    };
    table(&mut scene.stage.direct());
    let mut browser = Browser::open(&scene.url);
    shot(&mut browser, SMALL, "light", "login-small");
    shot(&mut browser, LARGE, "dark", "login-large");
    browser.log_in(ANN);
    browser.await_sample();
    shot(&mut browser, LARGE, "light", "empty-large");
    let load = Load::start(&scene.stage.url(), 48);
    browser.until("samples.length >= 25");
    for (theme, size, name) in [
        ("light", LARGE, "load-large"),
        ("dark", LARGE, "load-large-dark"),
        ("dark", SMALL, "load-small"),
        ("light", TALL, "load-tall"),
        ("light", TALL_SMALL, "load-tall-small"),
    ] {
        shot(&mut browser, size, theme, name);
    }
    // Before the lock: updates that wait for it may occupy both connections of the pool.
    let mut client = scene.stage.client();
    for sql in ["SELECT 1 / 0", "SELECT * FROM missing", "SELECT 1 / 0"] {
        client.simple(sql);
    }
    let mut direct = scene.stage.direct();
    direct.ok("BEGIN; LOCK TABLE t");
    browser.until("document.getElementById('state').innerText.startsWith('requests wait')");
    for (theme, size, name) in [
        ("light", LARGE, "trouble-large"),
        ("light", SMALL, "trouble-small"),
    ] {
        shot(&mut browser, size, theme, name);
    }
    direct.ok("COMMIT");
    load.stop().await.check(&mut direct);
    assert_eq!(browser.complaints, Vec::<String>::new());
}

/// Each field has a label, each table a caption and heads, and the order of the keyboard begins at the data.
#[test]
fn the_page_serves_keyboards_and_screen_readers() {
    let Some(scene) = scene(&[]) else {
        return;
    };
    let _client = scene.stage.client();
    let mut browser = Browser::open(&scene.url);
    browser.log_in(ANN);
    browser.await_sample();
    browser.until("document.querySelector('#clients tbody tr')");
    for (none, what) in [
        (
            "input:not(label *), select:not(label *)",
            "fields without labels",
        ),
        ("section:not([aria-labelledby])", "sections without names"),
        ("table:not([aria-labelledby])", "tables without names"),
        ("th:not([scope=col])", "heads without scope"),
        (
            "svg:not([aria-hidden=true]):not([role=img][aria-labelledby])",
            "pictures without names",
        ),
        (
            "[tabindex]:not([tabindex='0']):not(main)",
            "elements out of order",
        ),
    ] {
        let found = browser.value(&format!("document.querySelectorAll({none:?}).length"));
        assert_eq!(found, 0, "{what}");
    }
    let landmarks =
        browser.value("['header', 'main', 'h1'].map(tag => document.querySelectorAll(tag).length)");
    assert_eq!(landmarks, json!([1, 1, 1]));
    let outline = "getComputedStyle(document.activeElement).outlineStyle";
    browser.value("document.body.tabIndex = -1, document.body.focus(), document.body.removeAttribute('tabindex')");
    browser.press("Tab");
    assert_eq!(browser.value("document.activeElement.className"), "skip");
    browser.press("Tab");
    assert_eq!(browser.value("document.activeElement.id"), "logout");
    assert_ne!(browser.value(outline), "none");
}
