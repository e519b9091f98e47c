//! Texts in which other statements replace LISTEN and UNLISTEN.

use super::{Listening, replace_listening};

#[test]
fn each_listen_is_replaced_by_another_statement() {
    let mut seen = Vec::new();
    let text = "/* é */ LISTEN a; SELECT 'LISTEN b';UNLISTEN \"é\"; listen c ;";
    let replaced = replace_listening(text, |listening| {
        seen.push(listening.clone());
        format!("NOTIFY x, '{}'", seen.len())
    });
    assert_eq!(
        replaced.unwrap(),
        "/* é */ NOTIFY x, '1'; SELECT 'LISTEN b';NOTIFY x, '2'; NOTIFY x, '3';"
    );
    let channel = |name: &str| name.to_owned();
    let expected = [
        Listening::Listen(channel("a")),
        Listening::Unlisten(channel("é")),
        Listening::Listen(channel("c")),
    ];
    assert_eq!(seen, expected);
}
