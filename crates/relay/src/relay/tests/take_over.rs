//! A client takes over a server connection whose answer is under way.

use super::test_relay::TestRelay;
use crate::relay::RelayState;
use crate::request::PartialAnswer;
use crate::request::RequestForm;
use bytes::BytesMut;
use paceline_testing::messages::Wire;
use paceline_testing::messages::server::*;

const EXTENDED: RequestForm = RequestForm::Extended {
    parse: true,
    describe: false,
    row_limit: 0,
};

fn take_over(form: RequestForm, so_far: &Wire) -> TestRelay {
    let mut test = TestRelay::new();
    let (relay, received) = RelayState::take_over(PartialAnswer {
        form,
        answer: BytesMut::from(&so_far[..]),
    });
    assert_eq!(&received[..], &so_far[..]);
    assert_eq!(relay.forwarded(), so_far.len() as u64);
    assert!(!relay.is_over() && !relay.awaits_client());
    test.relay = relay;
    test
}

#[test]
fn the_rest_of_the_answer_is_forwarded_and_the_relay_ends() {
    let so_far = [columns(&["a"]), row(&["1"])].concat();
    for form in [RequestForm::Simple, EXTENDED] {
        let mut test = take_over(form, &so_far);
        assert_eq!(test.server([row(&["2"])]), ["row 2"]);
        let end = test.server([complete("SELECT 2"), ready('I')]);
        assert_eq!(end, ["SELECT 2", "ready I"]);
        assert!(test.relay.is_over());
    }
}

#[test]
fn an_error_after_rows_is_forwarded() {
    for form in [RequestForm::Simple, EXTENDED] {
        let mut test = take_over(form, &row(&["1"]));
        let end = test.server([error("22012", "division by zero"), ready('I')]);
        assert_eq!(end, ["ERROR 22012: division by zero", "ready I"]);
        assert!(test.relay.is_over() && test.relay.saw_error());
    }
}
