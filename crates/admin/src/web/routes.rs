//! Routes each request to its answer, and checks its proofs. Every request except those for the page and for a login needs a session; every
//! POST needs an `Origin` that is the page's own, and, with a session, its second token.

use super::actions::Action;
use super::clients::{self, ClientFilter};
use super::page::page;
use super::response::{WebResponse, events, header, json, text};
use super::sampler::Sample;
use super::sessions::AGE_MAX;
use super::shared::{Permitted, WebConsole};
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue};
use hyper::header::{ORIGIN, SET_COOKIE};
use hyper::{Method, Request, StatusCode};
use paceline_net::Stream;
use paceline_proxy::auth::check_password;
use paceline_proxy::cancel::ConsoleAccess;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json as object;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};

/// The name of the cookie.
const COOKIE_NAME: &str = "paceline_session";

/// The header in which requests repeat the second token of their session.
const TOKEN_HEADER: &str = "x-paceline-token";

/// Maximum length of the body of a request in bytes.
const BODY_BYTES_MAX: usize = 8 * 1024;

/// Time limit for a browser to take an event.
const EVENT_TIME_MAX: Duration = Duration::from_secs(30);

/// The connection of a browser.
pub(super) struct Browser {
    pub(super) stream: Stream,
    /// Whether the connection has no time limit: a session receives events, or waits for a command.
    pub(super) is_long: AtomicBool,
}

impl Browser {
    fn address(&self) -> IpAddr {
        let peer = self.stream.peer();
        peer.address().unwrap_or(Ipv4Addr::UNSPECIFIED.into())
    }
}

/// A user and a password.
#[derive(Deserialize)]
struct Login {
    user: String,
    password: String,
}

/// The refusal of a request: the answer that it gets instead.
type Refused = Box<WebResponse>;

fn refuse(status: StatusCode, message: &str) -> Refused {
    Box::new(text(status, message))
}

/// Answers a request.
pub(super) async fn answer(
    console: &Arc<WebConsole>,
    browser: &Browser,
    request: Request<Incoming>,
) -> WebResponse {
    match route(console, browser, request).await {
        Ok(answer) => answer,
        Err(refused) => *refused,
    }
}

async fn route(
    console: &Arc<WebConsole>,
    browser: &Browser,
    request: Request<Incoming>,
) -> Result<WebResponse, Refused> {
    let (head, body) = request.into_parts();
    let headers = &head.headers;
    let is_post = match head.method {
        Method::GET => false,
        Method::POST => true,
        _ => return Err(refuse(StatusCode::METHOD_NOT_ALLOWED, "GET or POST")),
    };
    if is_post {
        check_origin(headers, browser.stream.is_encrypted())?;
    }
    match (is_post, head.uri.path()) {
        (false, "/") => return Ok(page()),
        (true, "/login") => return log_in(console, browser, read(headers, body).await?).await,
        _ => {}
    }
    let is_local = browser.stream.peer().is_local();
    let permitted = cookie(headers).and_then(|cookie| console.permitted(is_local, cookie));
    let permitted = permitted.ok_or_else(|| refuse(StatusCode::UNAUTHORIZED, "log in"))?;
    if is_post {
        let token = headers.get(TOKEN_HEADER).and_then(|t| t.to_str().ok());
        if !token.is_some_and(|token| permitted.session.confirms(token)) {
            return Err(refuse(StatusCode::FORBIDDEN, "wrong token"));
        }
    }
    match (is_post, head.uri.path()) {
        (false, "/session") => Ok(json(&object!({
            "user": permitted.session.user,
            "admin": permitted.access == ConsoleAccess::Admin,
            "token": permitted.session.request_token,
        }))),
        (false, "/events") => Ok(watch_events(console, browser, permitted)),
        (true, "/clients") => list_clients(console, read(headers, body).await?).await,
        (true, "/action") => {
            let action = read(headers, body).await?;
            act(console, browser, &permitted, action).await
        }
        (true, "/logout") => {
            console.lock_sessions().end(&permitted.cookie);
            Ok(with_cookie(json(&object!({})), browser, "", 0))
        }
        _ => Err(refuse(StatusCode::NOT_FOUND, "not found")),
    }
}

/// Rejects requests that other pages send.
fn check_origin(headers: &HeaderMap, is_encrypted: bool) -> Result<(), Refused> {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let own = text(HOST).map(|host| match is_encrypted {
        true => format!("https://{host}"),
        false => format!("http://{host}"),
    });
    match own.is_some() && text(ORIGIN) == own.as_deref() {
        true => Ok(()),
        false => Err(refuse(
            StatusCode::FORBIDDEN,
            "the request is of another page",
        )),
    }
}

/// Reads a body of JSON.
async fn read<T: DeserializeOwned>(headers: &HeaderMap, body: Incoming) -> Result<T, Refused> {
    let is_json = headers
        .get(CONTENT_TYPE)
        .is_some_and(|kind| kind == "application/json");
    if !is_json {
        return Err(refuse(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "application/json",
        ));
    }
    let body = Limited::new(body, BODY_BYTES_MAX).collect().await;
    let body =
        body.map_err(|_| refuse(StatusCode::PAYLOAD_TOO_LARGE, "the body is not complete"))?;
    let read = serde_json::from_slice(&body.to_bytes());
    read.map_err(|error| refuse(StatusCode::BAD_REQUEST, &error.to_string()))
}

async fn log_in(
    console: &Arc<WebConsole>,
    browser: &Browser,
    login: Login,
) -> Result<WebResponse, Refused> {
    let (address, user) = (browser.address(), login.user.as_str());
    if !console.lock_limit().take(Instant::now(), address) {
        tracing::warn!(%address, "too many logins to the web console");
        let message = "Too many attempts. Wait a minute and try again.";
        return Err(refuse(StatusCode::TOO_MANY_REQUESTS, message));
    }
    let proxy = &console.admin.proxy;
    let (auth, pools) = (&proxy.auth, &proxy.pools);
    let checked = check_password(auth, pools, &browser.stream, user, &login.password).await;
    if let Err(why) = checked {
        tracing::info!(user, %address, why, "login to the web console refused");
        let message = "The user or the password is wrong, or the user may not use the console.";
        return Err(refuse(StatusCode::FORBIDDEN, message));
    }
    console.lock_limit().give_back(address);
    tracing::info!(user, %address, "login to the web console");
    let begun = console.lock_sessions().begin(Instant::now(), user);
    let cookie =
        begun.map_err(|error| refuse(StatusCode::SERVICE_UNAVAILABLE, &error.to_string()))?;
    let seconds = AGE_MAX.as_secs();
    Ok(with_cookie(json(&object!({})), browser, &cookie, seconds))
}

/// Sets the cookie of the session.
fn with_cookie(
    mut answer: WebResponse,
    browser: &Browser,
    value: &str,
    seconds: u64,
) -> WebResponse {
    let secure = match browser.stream.is_encrypted() {
        true => "; Secure",
        false => "",
    };
    let cookie = format!(
        "{COOKIE_NAME}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"
    );
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        header(&mut answer, SET_COOKIE, cookie);
    }
    answer
}

async fn list_clients(
    console: &Arc<WebConsole>,
    filter: ClientFilter,
) -> Result<WebResponse, Refused> {
    let proxy = Arc::clone(&console.admin.proxy);
    // A thread that serves no clients, because there may be many.
    let list = tokio::task::spawn_blocking(move || clients::list(&proxy, &filter)).await;
    let failed = |_| refuse(StatusCode::INTERNAL_SERVER_ERROR, "no list");
    Ok(json(&list.map_err(failed)?))
}

async fn act(
    console: &Arc<WebConsole>,
    browser: &Browser,
    permitted: &Permitted,
    action: Action,
) -> Result<WebResponse, Refused> {
    if permitted.access != ConsoleAccess::Admin {
        return Err(refuse(StatusCode::FORBIDDEN, "admin access needed"));
    }
    let user = &permitted.session.user;
    tracing::info!(user, ?action, "command from the web console");
    browser.is_long.store(true, Ordering::Relaxed);
    let done = action.execute(&console.admin).await;
    done.map_err(|message| refuse(StatusCode::CONFLICT, &message))?;
    Ok(json(&object!({})))
}

/// Sends samples until the browser leaves or the session ends.
fn watch_events(console: &Arc<WebConsole>, browser: &Browser, permitted: Permitted) -> WebResponse {
    browser.is_long.store(true, Ordering::Relaxed);
    let (sender, receiver) = mpsc::channel(1);
    let viewer = EventSender {
        console: Arc::clone(console),
        is_local: browser.stream.peer().is_local(),
        cookie: permitted.cookie,
        samples: console.sampler.watch(),
        sender,
    };
    tokio::spawn(viewer.run());
    events(receiver)
}

/// Sends samples to one browser.
struct EventSender {
    console: Arc<WebConsole>,
    is_local: bool,
    cookie: String,
    samples: watch::Receiver<Sample>,
    sender: mpsc::Sender<Bytes>,
}

impl EventSender {
    async fn run(mut self) {
        loop {
            tokio::select! {
                () = self.sender.closed() => return,
                changed = self.samples.changed() => if changed.is_err() { return },
            }
            let sample = self.samples.borrow_and_update().clone();
            let permitted = self.console.permitted(self.is_local, &self.cookie);
            let Some(permitted) = permitted else {
                return;
            };
            let event = match permitted.access {
                ConsoleAccess::Admin => [
                    event("snapshot", &sample.snapshot_with_values),
                    event("log", &sample.log),
                ]
                .concat(),
                _ => event("snapshot", &sample.snapshot),
            };
            let sent = self.sender.send(event.into());
            if !matches!(tokio::time::timeout(EVENT_TIME_MAX, sent).await, Ok(Ok(()))) {
                return;
            }
        }
    }
}

/// An event whose data are one line, as JSON is.
fn event(name: &str, data: &[u8]) -> Vec<u8> {
    [b"event: ", name.as_bytes(), b"\ndata: ", data, b"\n\n"].concat()
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let all = headers.get_all(COOKIE).iter();
    let mut pairs = all
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    pairs
        .find(|(name, _)| *name == COOKIE_NAME)
        .map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(HeaderName, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter().cloned();
        pairs
            .map(|(name, value)| (name, HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn only_the_page_itself_may_post() {
        let allowed =
            |pairs: &[_], is_encrypted| check_origin(&headers(pairs), is_encrypted).is_ok();
        let host = (HOST, "pg.example:9090");
        assert!(allowed(
            &[host.clone(), (ORIGIN, "http://pg.example:9090")],
            false
        ));
        assert!(allowed(
            &[host.clone(), (ORIGIN, "https://pg.example:9090")],
            true
        ));
        for origin in [
            "https://pg.example:9090",
            "http://pg.example",
            "http://evil.example",
            "null",
        ] {
            assert!(
                !allowed(&[host.clone(), (ORIGIN, origin)], false),
                "{origin}"
            );
        }
        assert!(!allowed(&[host], false));
        assert!(!allowed(&[], false));
    }

    #[test]
    fn the_cookie_is_found_among_others() {
        let found = |text| cookie(&headers(&[(COOKIE, text)])).map(str::to_owned);
        assert_eq!(
            found("a=1; paceline_session=xyz; b=2").as_deref(),
            Some("xyz")
        );
        assert_eq!(found("not_paceline_session=xyz"), None);
    }
}
