//! Requests that wait without an analysis, without a server.

use super::super::{Admission, CheckoutResult, WaitResult};
use super::*;
use crate::server::ServerConn;
use crate::testing;
use bytes::Bytes;
use paceline_batch::analysis::GroupingDecision;
use paceline_batch::group_limit::FlightId;
use paceline_net::Stream;
use paceline_relay::session::{ClientSession, RequestPlan};
use paceline_sql::SequenceUse;
use paceline_testing::messages::client::query;
use std::sync::atomic::Ordering;
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
    let spec = GroupingDecision::without_analysis(&request).spec;
    match pool.check_out(Admission::Limited, spec, false, || Some(Arc::new(request))) {
        CheckoutResult::Waiting(waiter, waits) => (waiter, waits),
        _ => panic!("the request waits"),
    }
}

async fn end_analysis(pool: &Arc<Pool>, request: &PlannedRequest) {
    let result = TemplateAnalysis {
        may_change_session: Some(false),
        sequences: SequenceUse::NONE,
        plain_read: Ok(()),
        reads_on_replicas: true,
        reads_on_subscribers: false,
        portable_table: None,
        ..TemplateAnalysis::refused("a test")
    };
    let (template, settings) = (request.template.id, request.settings.id);
    pool.set_analysis(template, settings, Some(result));
    pool.decide_again(template, settings).await;
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
    end_analysis(&pool, &hot).await;
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
    pool.decide_again(hot.template.id, hot.settings.id).await;
    assert!(!is_decided(&pool, waiter));
}

/// The analysis ended after the client had asked for it.
#[tokio::test]
async fn a_request_that_enters_the_line_too_late_is_decided_there() {
    let pool = testing::pool();
    let hot = request(&pool, HOT);
    pool.analysis(&hot.template, hot.settings.id);
    end_analysis(&pool, &hot).await;
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
    end_analysis(&pool, &hot).await;
    let entry = pool.take_out(waiter).expect("it waits");
    let (socket, _server) = UnixStream::pair().unwrap();
    let (address, none) = (pool.address(), pool.shared.settings_interner.none());
    let conn = ServerConn::new(Stream::unix(socket), &address, &none, 0);
    assert!(
        pool.hand_over(entry, Box::new(conn), FlightId::UNCOUNTED)
            .is_none()
    );
    let Ok(WaitResult::Server(mut server)) = waits.await else {
        panic!("the client gets a connection");
    };
    let decided = server.take_request().expect("it was decided again");
    assert!(!decided.awaits_analysis);
    assert_eq!(decided.sequences, SequenceUse::NONE);
}

/// Between two parts of the line, others may use the pool.
#[tokio::test]
async fn a_long_line_is_decided_in_parts() {
    let pool = testing::pool();
    let hot = request(&pool, HOT);
    pool.analysis(&hot.template, hot.settings.id);
    let waiting: Vec<Waiting> = (0..2 * EXAMINED_MAX + 1)
        .map(|_| wait_with(&pool, hot.clone()))
        .collect();
    let decided = || {
        let decided = waiting
            .iter()
            .filter(|(waiter, _)| is_decided(&pool, *waiter));
        decided.count()
    };
    let mut parts = Vec::new();
    tokio::join!(biased; end_analysis(&pool, &hot), async {
        while parts.len() < 3 {
            parts.push(decided());
            tokio::task::yield_now().await;
        }
    });
    let expected = [EXAMINED_MAX, 2 * EXAMINED_MAX, waiting.len()];
    assert_eq!(parts, expected);
}

/// Its client may give it up at any time from then on.
#[tokio::test]
async fn a_plain_read_joins_a_group_and_its_client_learns_it() {
    let pool = testing::pool();
    let read = request(&pool, "SELECT n FROM hot WHERE id = 1");
    pool.analysis(&read.template, read.settings.id);
    let (waiter, waits) = wait_with(&pool, read.clone());
    end_analysis(&pool, &read).await;
    let Ok(WaitResult::PlainRead(further)) = waits.await else {
        panic!("the client does not learn it");
    };
    let reads = |inner: &Inner| {
        let spec = inner.line.get(waiter).map(|(spec, _)| spec);
        spec.is_some_and(|spec| spec.group.is_some_and(|id| id.strategy.reads()))
    };
    assert!(reads(&pool.lock()));
    assert!(pool.cancel(waiter));
    assert!(matches!(further.await, Ok(WaitResult::Answer(_))));
}

/// Its client then decides again, and asks a replica first.
#[tokio::test]
async fn a_read_for_a_replica_leaves_the_line() {
    let pool = testing::pool();
    let read = request(&pool, "SELECT n FROM hot WHERE id = 1");
    pool.analysis(&read.template, read.settings.id);
    let waiting = || pool.shared.counters.waiting.load(Ordering::Relaxed);
    let for_replica = PlannedRequest {
        prefers_replica: true,
        ..read.clone()
    };
    let (waiter, waits) = wait_with(&pool, for_replica.clone());
    assert_eq!(waiting(), 1);
    end_analysis(&pool, &read).await;
    assert!(matches!(waits.await, Ok(WaitResult::Elsewhere)));
    assert!(pool.take_out(waiter).is_none());
    let (late, waits) = wait_with(&pool, for_replica);
    assert!(matches!(waits.await, Ok(WaitResult::Elsewhere)));
    assert!(pool.take_out(late).is_none());
    assert_eq!(waiting(), 0);
}
