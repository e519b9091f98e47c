//! The shared `LISTEN`, by the messages that a caller sends and receives.

use super::{
    CLIENT_CHANNELS_MAX, DATABASE_CHANNELS_MAX, ListenAnswer, ListenRequestId, ListenerId, Marker,
    NoRoom, Overflow, QUEUED_MAX, RoundStep, STEPS_MAX, SharedListen,
};
use bytes::{Bytes, BytesMut};
use paceline_sql::Listening;
use paceline_wire::{Frames, backend};

/// Server processes, and the process ids of clients.
const P: u32 = 101;
const Q: u32 = 102;
const A: u32 = 900_001;
const B: u32 = 900_002;

/// The channel of markers.
const MARKER: &str = "pacelinelisten_1f";

fn shared_listen() -> SharedListen {
    let mut shared = SharedListen::new(MARKER.into());
    shared.connected();
    shared
}

fn message(process: u32, channel: &str, payload: &str) -> Bytes {
    let mut out = BytesMut::new();
    backend::write_notification(&mut out, process, channel.as_bytes(), payload.as_bytes());
    out.freeze()
}

fn sql(steps: Option<Vec<RoundStep>>) -> Vec<String> {
    let text = |step| match step {
        RoundStep::Query(sql) => sql,
        RoundStep::Sync => "Sync".to_owned(),
    };
    steps.into_iter().flatten().map(text).collect()
}

/// Sends a round, and lets the server answer it.
fn round(shared: &mut SharedListen) -> (Vec<String>, Vec<ListenAnswer>) {
    let sent = sql(shared.next_round());
    let answers = sent.iter().flat_map(|_| shared.ready()).collect();
    (sent, answers)
}

fn notify(shared: &mut SharedListen, process: u32, channel: &str, payload: &str) {
    shared
        .notification(message(process, channel, payload))
        .unwrap();
}

/// The marker of a committed transaction.
fn mark(shared: &mut SharedListen, process: u32, listening: &Listening) {
    let sql = Marker::sql(MARKER, listening, 7);
    let payload = sql.split_once(", '").unwrap().1.strip_suffix('\'').unwrap();
    notify(shared, process, MARKER, payload);
}

/// The notifications for a client: process and payload.
fn queue(shared: &mut SharedListen, id: ListenerId) -> Vec<(u32, String)> {
    let mut out = BytesMut::new();
    shared.take_queued(id, usize::MAX, &mut out).unwrap();
    Frames::new(&out)
        .map(|frame| {
            let (process, _, payload) = backend::read_notification(frame.body()).unwrap();
            (process, String::from_utf8(payload.to_vec()).unwrap())
        })
        .collect()
}

fn payloads(shared: &mut SharedListen, id: ListenerId) -> Vec<String> {
    queue(shared, id)
        .into_iter()
        .map(|(_, payload)| payload)
        .collect()
}

/// A client that listens on the channel, outside a transaction.
fn listening(shared: &mut SharedListen, process: u32, channel: &str) -> ListenerId {
    let id = shared.join(process);
    shared.listen(id, channel);
    round(shared);
    id
}

fn ok(request: ListenRequestId) -> Vec<ListenAnswer> {
    vec![(request, Ok(()))]
}

fn listen(channel: &str) -> Listening {
    Listening::Listen(channel.to_owned())
}

#[test]
fn a_client_listens_from_the_answer_on() {
    let mut shared = shared_listen();
    let id = shared.join(A);
    let request = shared.listen(id, "a \"b");
    assert_eq!(sql(shared.next_round()), ["LISTEN \"a \"\"b\""]);
    notify(&mut shared, P, "a \"b", "before");
    assert!(!shared.is_listening(id));
    assert_eq!(shared.ready(), ok(request));
    notify(&mut shared, P, "a \"b", "after");
    notify(&mut shared, P, "other", "no");
    assert_eq!(queue(&mut shared, id), [(P, "after".to_owned())]);
    assert_eq!(shared.take_woken(), [id]);
    assert_eq!(shared.next_round(), None);
}

/// The first listener of a channel causes a LISTEN, the last one an UNLISTEN.
#[test]
fn a_channel_is_listened_on_once() {
    let mut shared = shared_listen();
    let first = listening(&mut shared, A, "a");
    let second = shared.join(B);
    let request = shared.listen(second, "a");
    assert_eq!(round(&mut shared), (vec!["Sync".to_owned()], ok(request)));
    notify(&mut shared, P, "a", "1");
    assert_eq!(payloads(&mut shared, first), ["1"]);
    assert_eq!(payloads(&mut shared, second), ["1"]);
    shared.unlisten(first, "a");
    assert_eq!(shared.next_round(), None);
    notify(&mut shared, P, "a", "2");
    assert_eq!(payloads(&mut shared, first), [""; 0]);
    assert_eq!(payloads(&mut shared, second), ["2"]);
    shared.leave(second);
    assert_eq!(round(&mut shared).0, ["UNLISTEN \"a\""]);
    shared.leave(first);
    assert!(shared.is_empty());
    assert_eq!(shared.next_round(), None);
}

#[test]
fn two_listens_deliver_once_and_one_unlisten_ends_both() {
    let mut shared = shared_listen();
    let id = listening(&mut shared, A, "a");
    shared.listen(id, "a");
    round(&mut shared);
    notify(&mut shared, P, "a", "1");
    assert_eq!(payloads(&mut shared, id), ["1"]);
    shared.unlisten_all(id);
    notify(&mut shared, P, "a", "2");
    assert_eq!(payloads(&mut shared, id), [""; 0]);
}

/// If a client returns to a channel during the round with its UNLISTEN, the next round has a LISTEN.
#[test]
fn a_channel_that_is_wanted_again_is_listened_on_again() {
    let mut shared = shared_listen();
    let id = listening(&mut shared, A, "a");
    shared.unlisten(id, "a");
    assert_eq!(sql(shared.next_round()), ["UNLISTEN \"a\""]);
    let request = shared.listen(id, "a");
    assert_eq!(shared.next_round(), None);
    assert_eq!(shared.ready(), []);
    assert_eq!(
        round(&mut shared),
        (vec!["LISTEN \"a\"".to_owned()], ok(request))
    );
}

/// Inside a transaction, the position of the marker among the notifications decides.
#[test]
fn a_transaction_listens_from_its_commit_on() {
    let mut shared = shared_listen();
    let id = shared.join(A);
    let request = shared.reserve(id, P, &["a".to_owned()]);
    assert_eq!(round(&mut shared).1, ok(request));
    notify(&mut shared, Q, "a", "before");
    mark(&mut shared, P, &listen("a"));
    notify(&mut shared, Q, "a", "after");
    assert_eq!(payloads(&mut shared, id), ["after"]);
    shared.settle(id);
    assert!(shared.is_listening(id));
    // The transaction keeps it reserved.
    assert_eq!(shared.next_round(), None);
}

/// PostgreSQL applies all changes of a transaction before it delivers its own notifications.
#[test]
fn a_transaction_receives_its_own_notifications_wherever_it_listens() {
    for (listens_last, changes, heard) in [
        (true, vec![listen("a")], true),
        (false, vec![listen("a")], true),
        (true, vec![listen("a"), Listening::UnlistenAll], false),
        (
            false,
            vec![listen("a"), Listening::Unlisten("a".to_owned())],
            false,
        ),
        (
            true,
            vec![Listening::Unlisten("a".to_owned()), listen("a")],
            true,
        ),
    ] {
        let mut shared = shared_listen();
        let id = shared.join(A);
        shared.reserve(id, P, &["a".to_owned()]);
        round(&mut shared);
        if listens_last {
            notify(&mut shared, P, "a", "own");
        }
        changes
            .iter()
            .for_each(|change| mark(&mut shared, P, change));
        if !listens_last {
            notify(&mut shared, P, "a", "own");
        }
        shared.catch_up(id);
        round(&mut shared);
        shared.settle(id);
        let own = heard.then(|| (A, "own".to_owned()));
        assert_eq!(queue(&mut shared, id), Vec::from_iter(own), "{changes:?}");
    }
}

#[test]
fn a_transaction_that_rolls_back_changes_nothing() {
    let mut shared = shared_listen();
    let id = shared.join(A);
    shared.reserve(id, P, &["a".to_owned()]);
    round(&mut shared);
    shared.catch_up(id);
    round(&mut shared);
    shared.settle(id);
    assert!(!shared.is_listening(id));
    assert_eq!(round(&mut shared).0, ["UNLISTEN \"a\""]);
}

/// Any client may notify on the channel of markers.
#[test]
fn a_marker_of_another_process_changes_no_channels() {
    let mut shared = shared_listen();
    let first = listening(&mut shared, A, "a");
    let second = shared.join(B);
    shared.reserve(second, P, &["b".to_owned()]);
    round(&mut shared);
    mark(&mut shared, Q, &Listening::UnlistenAll);
    mark(&mut shared, Q, &listen("b"));
    assert!(shared.is_listening(first) && !shared.is_listening(second));
}

#[test]
fn a_client_recognises_its_own_notifications_and_no_others() {
    let mut shared = shared_listen();
    let (first, second) = (
        listening(&mut shared, A, "a"),
        listening(&mut shared, B, "a"),
    );
    shared.is_served(first, P);
    notify(&mut shared, P, "a", "first's");
    notify(&mut shared, Q, "a", "another client's");
    // By chance the same process id.
    notify(&mut shared, A, "a", "another client's by chance");
    let from = |shared: &mut _, id| queue(shared, id).into_iter().map(|(process, _)| process);
    assert!(from(&mut shared, first).eq([A, Q, 0]));
    assert!(from(&mut shared, second).eq([P, Q, A]));
    shared.settle(first);
    notify(&mut shared, P, "a", "of the next on that server");
    assert!(from(&mut shared, first).eq([P]));
}

/// A process serves one client at a time. Only the last one counts.
#[test]
fn a_server_process_belongs_to_the_client_that_it_serves_last() {
    let mut shared = shared_listen();
    let (first, second) = (
        listening(&mut shared, A, "a"),
        listening(&mut shared, B, "a"),
    );
    shared.is_served(first, P);
    shared.is_served(second, P);
    shared.settle(first);
    notify(&mut shared, P, "a", "second's");
    assert_eq!(queue(&mut shared, first), [(P, "second's".to_owned())]);
    assert_eq!(queue(&mut shared, second), [(B, "second's".to_owned())]);
}

#[test]
fn a_rejected_channel_fails_no_other() {
    let mut shared = shared_listen();
    let (first, second) = (shared.join(A), shared.join(B));
    let (bad, good) = (shared.listen(first, "a"), shared.listen(second, "b"));
    assert_eq!(sql(shared.next_round()), ["LISTEN \"a\"", "LISTEN \"b\""]);
    let error = Bytes::from_static(b"no");
    shared.refused(error.clone());
    assert_eq!(shared.ready(), []);
    assert_eq!(shared.ready(), [(bad, Err(error)), (good, Ok(()))]);
    assert!(!shared.is_listening(first) && shared.is_listening(second));
    // Without a client that wants the channel there is no further LISTEN.
    assert_eq!(shared.next_round(), None);
}

/// A request waits for a round that begins later: the current round may have passed notifications that were committed since.
#[test]
fn a_request_waits_for_the_round_after_the_one_under_way() {
    let mut shared = shared_listen();
    let id = listening(&mut shared, A, "a");
    let first = shared.catch_up(id).unwrap();
    assert_eq!(sql(shared.next_round()), ["Sync"]);
    let second = shared.catch_up(id).unwrap();
    assert_eq!(shared.ready(), ok(first));
    assert_eq!(round(&mut shared).1, ok(second));
}

#[test]
fn after_a_lost_connection_all_channels_are_listened_on_again() {
    let mut shared = shared_listen();
    let id = listening(&mut shared, A, "a");
    let late = shared.listen(id, "b");
    let waits = shared.catch_up(id).unwrap();
    shared.next_round();
    assert_eq!(shared.disconnected(), ok(waits));
    // No notification that was committed before can arrive.
    assert_eq!(shared.catch_up(id), None);
    assert_eq!(shared.next_round(), None);
    shared.connected();
    let (sent, answers) = round(&mut shared);
    assert_eq!(sent, ["LISTEN \"a\"", "LISTEN \"b\""]);
    assert_eq!(answers, ok(late));
    let gone = shared.listen(id, "c");
    let error = Bytes::from_static(b"away");
    assert_eq!(shared.fail(&error), [(gone, Err(error.clone()))]);
}

#[test]
fn a_client_that_leaves_during_a_round_leaves_no_state() {
    let mut shared = shared_listen();
    let id = shared.join(A);
    shared.listen(id, "a");
    shared.reserve(id, P, &["b".to_owned()]);
    shared.next_round();
    shared.listen(id, "c");
    shared.leave(id);
    assert!(shared.is_empty());
    assert_eq!(shared.ready(), []);
    assert_eq!(shared.ready(), []);
    assert_eq!(round(&mut shared).0, ["UNLISTEN \"a\"", "UNLISTEN \"b\""]);
    assert_eq!(shared.channels.len(), 0);
}

#[test]
fn the_queue_of_a_client_that_does_not_read_is_limited() {
    let mut shared = shared_listen();
    let (slow, other) = (
        listening(&mut shared, A, "a"),
        listening(&mut shared, B, "a"),
    );
    for _ in 0..QUEUED_MAX {
        notify(&mut shared, P, "a", "x");
    }
    assert_eq!(queue(&mut shared, other).len(), QUEUED_MAX);
    notify(&mut shared, P, "a", "one more");
    let mut out = BytesMut::new();
    assert_eq!(
        shared.take_queued(slow, usize::MAX, &mut out),
        Err(Overflow)
    );
    assert!(shared.has_queued(slow));
    assert_eq!(payloads(&mut shared, other), ["one more"]);
    // The limit in bytes.
    let slow = listening(&mut shared, A, "b");
    let large = "x".repeat(7_000);
    for _ in 0..=super::QUEUED_BYTES_MAX / large.len() {
        notify(&mut shared, P, "b", &large);
    }
    assert_eq!(
        shared.take_queued(slow, usize::MAX, &mut out),
        Err(Overflow)
    );
}

/// A client that names the channel of markers, or forges a marker, changes the channels of no client.
#[test]
fn clients_cannot_listen_on_the_channel_of_markers() {
    let mut shared = shared_listen();
    let (first, second) = (listening(&mut shared, A, "a"), shared.join(B));
    let names = [MARKER.to_owned()];
    assert_eq!(shared.check_room(second, &names), Err(NoRoom::Reserved));
    shared.is_served(first, P);
    // The transaction changes no channels: a function of another client has notified.
    mark(&mut shared, P, &Listening::UnlistenAll);
    assert!(shared.is_listening(first));
    // A marker applies only to channels that its client reserved.
    shared.reserve(first, P, &["b".to_owned()]);
    round(&mut shared);
    shared.reserve(second, Q, &["c".to_owned()]);
    round(&mut shared);
    mark(&mut shared, P, &listen("c"));
    assert_eq!(shared.channels_of(first), ["a".into()]);
    assert_eq!(payloads(&mut shared, first), [""; 0]);
}

/// However long the transaction is, and although another client catches up meanwhile.
#[test]
fn a_transaction_receives_notifications_sent_before_its_listen() {
    let mut shared = shared_listen();
    let other = listening(&mut shared, B, "a");
    let id = shared.join(A);
    shared.reserve(id, P, &["a".to_owned()]);
    round(&mut shared);
    const COUNT: usize = 20_000;
    for number in 0..COUNT {
        notify(&mut shared, P, "a", &number.to_string());
        if number % 1_000 == 0 {
            shared.catch_up(other);
            round(&mut shared);
            shared.settle(other);
            shared.ready();
        }
    }
    mark(&mut shared, P, &listen("a"));
    assert_eq!(queue(&mut shared, other).len(), COUNT);
    assert_eq!(queue(&mut shared, id), []);
    shared.settle(id);
    assert_eq!(queue(&mut shared, id).len(), COUNT);
}

/// A notification of another process ends the transaction's, and follows them.
#[test]
fn held_notifications_keep_their_position() {
    let mut shared = shared_listen();
    let id = shared.join(A);
    shared.reserve(id, P, &["a".to_owned()]);
    round(&mut shared);
    notify(&mut shared, P, "a", "own");
    mark(&mut shared, P, &listen("a"));
    notify(&mut shared, Q, "a", "other");
    let heard = [(A, "own".to_owned()), (Q, "other".to_owned())];
    assert_eq!(queue(&mut shared, id), heard);
}

/// The limit of the queue applies to held notifications, too.
#[test]
fn held_notifications_are_limited() {
    let mut shared = shared_listen();
    let id = shared.join(A);
    shared.reserve(id, P, &["a".to_owned()]);
    round(&mut shared);
    for _ in 0..=QUEUED_MAX {
        notify(&mut shared, P, "a", "own");
    }
    assert!(shared.has_overflowed(id));
}

/// A client that waits for its own notifications waits for a limited number of channels of others.
#[test]
fn a_round_is_limited() {
    let mut shared = shared_listen();
    let (many, other) = (shared.join(A), listening(&mut shared, B, "z"));
    let names: Vec<String> = (0..3 * STEPS_MAX).map(|n| format!("c{n:03}")).collect();
    let reserved = shared.reserve(many, P, &names);
    let waits = shared.catch_up(other).unwrap();
    let (sent, answers) = round(&mut shared);
    assert_eq!((sent.len(), answers), (STEPS_MAX, ok(waits)));
    assert_eq!(round(&mut shared).1, []);
    assert_eq!(round(&mut shared).1, ok(reserved));
    // An UNLISTEN may wait.
    shared.leave(many);
    let waits = shared.catch_up(other).unwrap();
    let (sent, answers) = round(&mut shared);
    assert_eq!((sent.len(), answers), (STEPS_MAX, ok(waits)));
    let late = shared.listen(other, "late");
    let (sent, answers) = round(&mut shared);
    assert_eq!((sent[0].as_str(), answers), ("LISTEN \"late\"", ok(late)));
    assert_eq!(sent.len(), STEPS_MAX);
    while !round(&mut shared).0.is_empty() {}
    assert_eq!(shared.channels.len(), 2);
}

#[test]
fn the_limit_of_channels_counts_each_once() {
    let mut shared = shared_listen();
    let id = shared.join(A);
    let names: Vec<String> = (0..CLIENT_CHANNELS_MAX).map(|n| format!("c{n}")).collect();
    let (first, rest) = names.split_at(CLIENT_CHANNELS_MAX / 2);
    assert_eq!(shared.check_room(id, &names), Ok(()));
    shared.reserve(id, P, first);
    while !round(&mut shared).0.is_empty() {}
    first
        .iter()
        .for_each(|name| mark(&mut shared, P, &listen(name)));
    shared.settle(id);
    assert_eq!(shared.channels_of(id).len(), first.len());
    // Channels of the transaction count, and channels that the client has count once.
    shared.reserve(id, P, rest);
    while !round(&mut shared).0.is_empty() {}
    assert_eq!(shared.check_room(id, &names), Ok(()));
    let more = ["more".to_owned()];
    assert_eq!(shared.check_room(id, &more), Err(NoRoom::OfClient));
    shared.settle(id);
    assert_eq!(shared.check_room(id, &more), Ok(()));
    // All clients together.
    let others = DATABASE_CHANNELS_MAX / CLIENT_CHANNELS_MAX;
    for process in (1..).take(others) {
        let other = shared.join(process);
        let names: Vec<String> = (0..CLIENT_CHANNELS_MAX)
            .map(|n| format!("{process}/{n}"))
            .collect();
        shared.reserve(other, process, &names);
    }
    assert_eq!(shared.check_room(id, &more), Err(NoRoom::OfDatabase));
    assert_eq!(shared.check_room(id, &names), Ok(()));
}

/// Not a measurement. If each round walks over all channels, the test does not end.
#[test]
fn many_channels_are_unlistened_in_small_rounds() {
    let mut shared = shared_listen();
    let id = shared.join(A);
    let names: Vec<String> = (0..CLIENT_CHANNELS_MAX).map(|n| format!("c{n}")).collect();
    shared.reserve(id, P, &names);
    while !round(&mut shared).0.is_empty() {}
    shared.leave(id);
    let mut rounds = 0;
    while !round(&mut shared).0.is_empty() {
        rounds += 1;
    }
    assert_eq!(rounds, CLIENT_CHANNELS_MAX.div_ceil(STEPS_MAX));
}
