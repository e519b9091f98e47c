//! The wait for a lock, message by message.

use super::{LockProgress, RowLock};
use crate::testing::fold_statement::{FoldStatement, INT4, INT8, table};
use bytes::BytesMut;
use paceline_relay::server::ServerSide;
use paceline_relay::settings::SettingsInterner;
use paceline_testing::messages::Wire;
use paceline_testing::messages::server::*;
use paceline_testing::read_out;
use paceline_wire::Frames;

fn waits(server: &mut ServerSide) -> (RowLock, Vec<String>) {
    let table = table(&[("id", INT8), ("qty", INT4)], &["id"]);
    let text = "UPDATE t SET qty = qty + $1 WHERE id = $2";
    let request =
        FoldStatement::prepared(text, &table, &[INT4, INT8], Vec::new()).texts(&["1", "7"]);
    let mut out = BytesMut::new();
    let lock = RowLock::build(&request, server, &mut out).expect("it can be waited for");
    (lock, read_out::to_server(&out))
}

fn receive(lock: &mut RowLock, server: &mut ServerSide, message: &Wire) -> LockProgress {
    let frame = Frames::new(message).next().unwrap();
    lock.receive(frame, server)
}

#[test]
fn the_transaction_stays_open_when_the_lock_is_granted() {
    let mut server = ServerSide::new(SettingsInterner::default().none(), 8);
    let (mut lock, sent) = waits(&mut server);
    assert!(sent[0].contains("FOR NO KEY UPDATE"), "{sent:?}");
    assert!(sent.last().unwrap().starts_with("Flush"), "{sent:?}");
    for message in [parsed(), bound()] {
        assert_eq!(
            receive(&mut lock, &mut server, &message),
            LockProgress::Awaited
        );
    }
    let granted = complete("SELECT 1");
    assert_eq!(
        receive(&mut lock, &mut server, &granted),
        LockProgress::Granted
    );
    assert_eq!(server.prepared(), 1);
}

#[test]
fn a_failed_wait_ends_with_its_sync() {
    let mut server = ServerSide::new(SettingsInterner::default().none(), 8);
    let (mut lock, _) = waits(&mut server);
    let timeout = error("55P03", "canceling statement due to lock timeout");
    assert_eq!(
        receive(&mut lock, &mut server, &timeout),
        LockProgress::Failed
    );
    let mut out = BytesMut::new();
    lock.end(&mut out);
    assert_eq!(read_out::to_server(&out), ["Sync"]);
    assert_eq!(
        receive(&mut lock, &mut server, &ready('I')),
        LockProgress::Over
    );
    // The error was raised before the server accepted the statement.
    assert_eq!(server.prepared(), 0);
}
