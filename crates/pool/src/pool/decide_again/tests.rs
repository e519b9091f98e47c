//! Requests that wait without an analysis, without a server.

use super::super::{CheckoutResult, WaitResult};
use super::*;
use crate::server::ServerConn;
use crate::testing;
use bytes::Bytes;
use paceline_batch::analysis::GroupingDecision;
use paceline_net::Stream;
use paceline_relay::session::{ClientSession, RequestPlan};
use paceline_sql::SequenceUse;
use paceline_testing::messages::client::query;
use tokio::net::UnixStream;
use tokio::sync::oneshot;

type Waiting = (WaiterId, oneshot::Receiver<WaitResult>);

const HOT: &str = "UPDATE hot SET n = n + 1 WHERE id = 1";

/// A request that another client's analysis will decide.
fn request(pool: &Pool, text: &str) -> PlannedRequest {
    let none = pool.shared.settings_interner.none();
    let (mut session, templates) = (ClientSession::new(none), &pool.shared.templates);
    let bytes = Bytes::from(query(text));
    loop {
        match session.plan(&bytes, templates, pool) {
            RequestPlan::Group(request) => {
                let mut request = PlannedRequest::from(request);
                request.awaits_analysis = true;
                return request;
            }
            RequestPlan::Unparsed(unparsed) => templates.parse(&unparsed),
            other => panic!("not a single request: {other:?}"),
        }
    }
}

/// The request's client has asked how far the analysis is, and puts the request into the line.
fn wait_with(pool: &Arc<Pool>, request: PlannedRequest) -> Waiting {
    let spec = GroupingDecision::without_analysis(&request, pool.policy()).spec;
    match pool.check_out(spec, false, || Some(Arc::new(request))) {
        CheckoutResult::Waiting(waiter, waits) => (waiter, waits),
        CheckoutResult::Server(_) | CheckoutResult::Refused(_) => panic!("the request waits"),
    }
}

fn end_analysis(pool: &Arc<Pool>, request: &PlannedRequest) {
    let result = TemplateAnalysis {
        may_change_session: false,
        sequences: SequenceUse::NONE,
        ..TemplateAnalysis::refused("a test")
    };
    let (template, settings) = (request.template.id, request.settings.id);
    pool.set_analysis(template, settings, Some(result));
}

fn is_decided(pool: &Pool, waiter: WaiterId) -> bool {
    let inner = pool.lock();
    let (_, waiter) = inner.line.get(waiter).expect("it waits");
    waiter.undecided().is_none()
}

#[tokio::test]
async fn the_end_of_an_analysis_decides_the_requests_of_its_template() {
    let pool = testing::pool();
    let (hot, other) = (request(&pool, HOT), request(&pool, "DELETE FROM hot"));
    pool.analysis(&hot.template, hot.settings.id);
    let hot_ones = [(); 3].map(|()| wait_with(&pool, hot.clone()));
    let other = wait_with(&pool, other);
    assert!(
        hot_ones
            .iter()
            .all(|(waiter, _)| !is_decided(&pool, *waiter))
    );
    end_analysis(&pool, &hot);
    assert!(
        hot_ones
            .iter()
            .all(|(waiter, _)| is_decided(&pool, *waiter))
    );
    assert!(!is_decided(&pool, other.0), "of another template");
}

#[tokio::test]
async fn an_analysis_without_a_result_decides_nothing() {
    let pool = testing::pool();
    let hot = request(&pool, HOT);
    pool.analysis(&hot.template, hot.settings.id);
    let (waiter, _waits) = wait_with(&pool, hot.clone());
    pool.set_analysis(hot.template.id, hot.settings.id, None);
    assert!(!is_decided(&pool, waiter));
}

/// The analysis ended after the client had asked for it.
#[tokio::test]
async fn a_request_that_enters_the_line_too_late_is_decided_there() {
    let pool = testing::pool();
    let hot = request(&pool, HOT);
    pool.analysis(&hot.template, hot.settings.id);
    end_analysis(&pool, &hot);
    let (waiter, _waits) = wait_with(&pool, hot);
    assert!(is_decided(&pool, waiter));
}

/// The client's relay relies on what is known of the request.
#[tokio::test]
async fn a_client_that_relays_its_request_gets_the_later_decision() {
    let pool = testing::pool();
    let hot = request(&pool, HOT);
    pool.analysis(&hot.template, hot.settings.id);
    let (waiter, waits) = wait_with(&pool, hot.clone());
    end_analysis(&pool, &hot);
    let entry = pool.take_out(waiter).expect("it waits");
    let (socket, _server) = UnixStream::pair().unwrap();
    let (address, none) = (pool.address(), pool.shared.settings_interner.none());
    let conn = ServerConn::new(Stream::unix(socket), &address, &none, 0);
    assert!(pool.hand_over(entry, Box::new(conn)).is_none());
    let Ok(WaitResult::Server(mut server)) = waits.await else {
        panic!("the client gets a connection");
    };
    let decided = server.take_request().expect("it was decided again");
    assert!(!decided.awaits_analysis);
    assert_eq!(decided.sequences, SequenceUse::NONE);
}
