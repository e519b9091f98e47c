//! Requests that the page would not send, and the same over TLS.

use super::browser::Browser;
use super::{ANN, STAN, Scene, scene, scene_with};
use crate::harness::cluster;
use crate::harness::http::{self, Answer};
use crate::harness::raw::RawClient;
use serde_json::{Value, json};

const JSON: (&str, &str) = ("Content-Type", "application/json");

fn log_in(scene: &Scene, origin: &str, (user, password): (&str, &str)) -> Answer {
    let body = json!({"user": user, "password": password}).to_string();
    http::send(
        scene.address(),
        "POST /login",
        &[JSON, ("Origin", origin)],
        &body,
    )
}

/// The cookie and the second token of a session.
#[track_caller]
fn session(scene: &Scene, user: (&str, &str)) -> (String, String) {
    let answer = log_in(scene, &scene.url, user);
    assert_eq!(answer.status, 200, "{answer:?}");
    let cookie = answer.header("set-cookie").unwrap();
    assert!(cookie.ends_with("HttpOnly; SameSite=Strict"), "{cookie}");
    let (cookie, _) = cookie.split_once(';').unwrap();
    let told = http::send(scene.address(), "GET /session", &[("Cookie", cookie)], "");
    let told: Value = serde_json::from_str(&told.body).unwrap();
    (
        cookie.to_owned(),
        told["token"].as_str().unwrap().to_owned(),
    )
}

#[test]
fn without_a_session_there_is_only_the_page() {
    let Some(scene) = scene(&[]) else {
        return;
    };
    let page = http::get(scene.address(), "/");
    assert_eq!(page.status, 200);
    let policy = page.header("content-security-policy").unwrap();
    assert!(
        policy.starts_with("default-src 'none'; script-src 'nonce-"),
        "{policy}"
    );
    assert!(!policy.contains("unsafe"), "{policy}");
    for path in ["/session", "/events", "/clients", "/metrics", "/elsewhere"] {
        assert_eq!(http::get(scene.address(), path).status, 401, "{path}");
    }
    let invented = format!("paceline_session={}", "0".repeat(64));
    let answer = http::send(
        scene.address(),
        "GET /session",
        &[("Cookie", &invented)],
        "",
    );
    assert_eq!(answer.status, 401);
    for path in ["/clients", "/action", "/logout"] {
        let headers = [JSON, ("Origin", scene.url.as_str())];
        let answer = http::send(scene.address(), &format!("POST {path}"), &headers, "{}");
        assert_eq!(answer.status, 401, "{path}");
    }
}

#[test]
fn a_post_needs_cookie_origin_and_token() {
    let Some(scene) = scene(&[]) else {
        return;
    };
    let (cookie, token) = session(&scene, ANN);
    let (_, other_token) = session(&scene, ANN);
    let (own, reconnect) = (
        scene.url.as_str(),
        r#"{"command": "reconnect", "database": null}"#,
    );
    let post = |headers: &[(&str, &str)], body: &str| {
        let headers = [&[JSON], headers].concat();
        http::send(scene.address(), "POST /action", &headers, body).status
    };
    let (cookie, token) = (
        ("Cookie", cookie.as_str()),
        ("X-Paceline-Token", token.as_str()),
    );
    let origin = ("Origin", own);
    assert_eq!(post(&[cookie, token, origin], reconnect), 200);
    assert_eq!(post(&[token, origin], reconnect), 401);
    assert_eq!(post(&[cookie, origin], reconnect), 403);
    assert_eq!(
        post(
            &[cookie, ("X-Paceline-Token", &other_token), origin],
            reconnect
        ),
        403
    );
    assert_eq!(post(&[cookie, token], reconnect), 403);
    assert_eq!(
        post(
            &[cookie, token, ("Origin", "http://evil.example")],
            reconnect
        ),
        403
    );
    assert_eq!(
        post(&[cookie, token, origin], r#"{"command": "shutdown"}"#),
        400
    );
    assert_eq!(
        post(
            &[cookie, token, origin],
            r#"{"command": "pause", "database": "pgbouncer"}"#
        ),
        409
    );
    assert_eq!(post(&[cookie, token, origin], &" ".repeat(9_000)), 413);
    let form = [cookie, token, origin, ("Content-Type", "text/plain")];
    let answer = http::send(scene.address(), "POST /action", &form, reconnect);
    assert_eq!(answer.status, 415);
    let other = log_in(&scene, "http://evil.example", ANN);
    assert_eq!(other.status, 403);
}

#[test]
fn a_user_who_may_only_look_cannot_send_commands() {
    let Some(scene) = scene(&[]) else {
        return;
    };
    let (cookie, token) = session(&scene, STAN);
    let headers = [
        JSON,
        ("Cookie", cookie.as_str()),
        ("X-Paceline-Token", token.as_str()),
        ("Origin", scene.url.as_str()),
    ];
    let pause = r#"{"command": "pause", "database": null}"#;
    let answer = http::send(scene.address(), "POST /action", &headers, pause);
    assert_eq!(
        (answer.status, answer.body.as_str()),
        (403, "admin access needed\n")
    );
    let listed = http::send(scene.address(), "POST /clients", &headers, "{}");
    assert_eq!(listed.status, 200);
}

/// The answer does not show whether the password is wrong, the user is unknown, or the user has no access to the console.
#[test]
fn logins_are_refused_alike_and_limited() {
    let Some(scene) = scene(&[]) else {
        return;
    };
    let wrong = [
        (ANN.0, "wrong"),
        ("nobody", "x"),
        ("absent", ""),
        ("eve", "eve"),
        (ANN.0, ""),
    ];
    let refused: Vec<Answer> = wrong.map(|user| log_in(&scene, &scene.url, user)).into();
    for answer in &refused {
        assert_eq!((answer.status, &answer.body), (403, &refused[0].body));
        assert_eq!(answer.header("set-cookie"), None);
    }
    assert_eq!(log_in(&scene, &scene.url, ANN).status, 429);
}

#[test]
fn a_password_is_checked_against_a_scram_verifier() {
    let mut direct = cluster::shared().client("postgres");
    direct.ok("CREATE ROLE web_sam PASSWORD 'sam''s'");
    let verifier = direct.value("SELECT rolpassword FROM pg_authid WHERE rolname = 'web_sam'");
    direct.ok("DROP ROLE web_sam");
    assert!(verifier.starts_with("SCRAM-SHA-256"), "{verifier}");
    let Some(scene) = scene_with(&format!("\"sam\" \"{verifier}\""), &[]) else {
        return;
    };
    assert_eq!(log_in(&scene, &scene.url, ("sam", "sams")).status, 403);
    session(&scene, ("sam", "sam's"));
}

#[test]
fn a_session_ends_when_its_user_loses_access() {
    let Some(scene) = scene(&[]) else {
        return;
    };
    let (cookie, _) = session(&scene, STAN);
    let status = || http::send(scene.address(), "GET /session", &[("Cookie", &cookie)], "").status;
    assert_eq!(status(), 200);
    // With auth_type = trust, the admin console asks for no password.
    let parameters = [("user", ANN.0), ("database", "pgbouncer")];
    let mut console = RawClient::connect(scene.stage.port(), &parameters);
    console.ok("SET stats_users = 'sam'");
    assert_eq!(status(), 401);
}

#[test]
fn over_tls_the_cookie_is_secure() {
    let folder = crate::harness::caretaker::folder("web-tls");
    let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let [cert, key] = ["cert.pem", "key.pem"].map(|name| folder.join(name));
    std::fs::write(&cert, signed.cert.pem()).unwrap();
    std::fs::write(&key, signed.signing_key.serialize_pem()).unwrap();
    let files = [("cert", cert), ("key", key)]
        .map(|(kind, file)| format!("client_tls_{kind}_file={}", file.display()));
    let Some(scene) = scene(&["client_tls_sslmode=allow", &files[0], &files[1]]) else {
        return;
    };
    assert!(scene.url.starts_with("https://"), "{}", scene.url);
    let mut browser = Browser::open(&scene.url);
    browser.log_in(ANN);
    browser.await_sample();
    let cookies = browser.command("Network.getCookies", json!({}));
    let cookie = &cookies["cookies"][0];
    assert_eq!(cookie["secure"], true, "{cookies}");
    assert_eq!(cookie["httpOnly"], true, "{cookies}");
    assert_eq!(cookie["sameSite"], "Strict", "{cookies}");
}
