//! The columns that a group has described to the client, which reads the rows of later executions by them.

use super::TestSession;
use crate::request::RequestForm;
use paceline_testing::messages::Wire;
use paceline_testing::messages::client::{bind, describe_portal, execute, parse, sync};
use paceline_testing::messages::server::{bound, columns, complete, parsed};

#[test]
fn columns_that_a_group_has_described_are_known() {
    let mut test = TestSession::new();
    let mut known = |messages: Wire, description: Wire| {
        let request = test.single([messages]);
        let parse = match request.form {
            RequestForm::Extended { parse: true, .. } => parsed(),
            _ => Wire::new(),
        };
        let answer = [parse, bound(), description, complete("SELECT 0")].concat();
        test.session.group_answered(&request, &answer, 1);
        test.session.statements.client_parse(b"").unwrap().columns
    };
    let text = || parse("", "SELECT a FROM t");
    let bare = [bind(""), describe_portal(), execute(), sync()].concat();
    let whole = [text(), bare.clone()].concat();
    let silent = [text(), bind(""), execute(), sync()].concat();
    assert_eq!(known(silent, Wire::new()), None, "no description");
    let one = known(bare, columns(&["a"]));
    assert!(one.is_some(), "by a request without Parse");
    let two = known(whole.clone(), columns(&["a", "b"]));
    assert!(two.is_some() && two != one);
    assert_eq!(known(whole, columns(&["a"])), one);
}
