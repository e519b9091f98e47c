//! The example of RFC 7677, complete exchanges, and messages that must be rejected.

use super::client::{AwaitChallenge, Channel};
use super::server::AwaitProof;
use super::*;
use crate::WireError;
use proptest::prelude::*;

/// RFC 7677, section 3: user `user`, password `pencil`.
const SALT: &str = "W22ZaJ0SNY7soEsUEjb6gQ==";
const CLIENT_FIRST: &[u8] = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
const SERVER_NONCE: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
const CHALLENGE: &str =
    "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
const CLIENT_LAST: &[u8] = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
      p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
const SERVER_LAST: &str = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";

fn stretch() -> Stretch {
    Stretch {
        salt: STANDARD.decode(SALT).unwrap(),
        iterations: ITERATIONS,
    }
}

fn keys() -> Keys {
    Keys::derive(b"pencil", &stretch())
}

fn challenge(first: &[u8], channel: Option<&[u8]>) -> Result<(AwaitProof, String), WireError> {
    let mechanism = match first.starts_with(b"p=") {
        true => MECHANISM_PLUS,
        false => MECHANISM,
    };
    let verifier = keys().verifier(stretch());
    AwaitProof::challenge(mechanism, first, verifier, SERVER_NONCE, channel)
}

#[test]
fn the_server_side_passes_the_rfcs_example() {
    let (awaits, sent) = challenge(CLIENT_FIRST, None).unwrap();
    assert_eq!(sent, CHALLENGE);
    let (proved, last) = awaits.verify(CLIENT_LAST).unwrap();
    assert_eq!(last, SERVER_LAST);
    assert_eq!(proved, keys(), "the proof reveals the client's keys");
}

#[test]
fn an_exchange_succeeds_with_and_without_channel_binding() {
    for (channel, data) in [
        (Channel::None, None),
        (Channel::None, Some(&b"certificate"[..])),
        (Channel::NotOffered, None),
        (Channel::EndPoint(b"certificate"), Some(&b"certificate"[..])),
    ] {
        let (ours, first) = AwaitChallenge::begin(nonce([7; NONCE_LEN]), channel);
        let (theirs, sent) = challenge(first.as_bytes(), data).unwrap();
        let ours = ours.challenged(sent.as_bytes()).unwrap();
        assert_eq!(ours.stretch(), &stretch());
        let (ours, last) = ours.prove(&keys());
        let (proved, signature) = theirs.verify(last.as_bytes()).unwrap();
        assert_eq!(proved, keys());
        assert_eq!(ours.verify(signature.as_bytes()), Ok(()), "{channel:?}");
    }
}

#[test]
fn both_sides_reject_the_proof_of_another_password() {
    let (ours, first) = AwaitChallenge::begin(nonce([7; NONCE_LEN]), Channel::None);
    let (theirs, sent) = challenge(first.as_bytes(), None).unwrap();
    let other = Keys::derive(b"pencils", &stretch());
    let (ours, last) = ours.challenged(sent.as_bytes()).unwrap().prove(&other);
    assert_eq!(theirs.verify(last.as_bytes()), Err(WireError::Proof));
    assert_eq!(ours.verify(SERVER_LAST.as_bytes()), Err(WireError::Proof));
    assert!(!keys().verifier(stretch()).is_of(&other));
    assert!(keys().verifier(stretch()).is_of(&keys()));
}

/// A man in the middle with a certificate of its own, or one that removes channel binding from the offer.
#[test]
fn another_channel_is_rejected() {
    let certificate = Channel::EndPoint(b"his own");
    let (ours, first) = AwaitChallenge::begin(nonce([7; NONCE_LEN]), certificate);
    let (theirs, sent) = challenge(first.as_bytes(), Some(b"certificate")).unwrap();
    let (_, last) = ours.challenged(sent.as_bytes()).unwrap().prove(&keys());
    let refused = theirs.verify(last.as_bytes());
    assert_eq!(
        refused,
        Err(WireError::Scram("channel binding does not match"))
    );
    for (first, channel) in [
        (&b"y,,n=,r=abc"[..], Some(&b"certificate"[..])),
        (b"p=tls-server-end-point,,n=,r=abc", None),
        (b"p=tls-unique,,n=,r=abc", Some(b"certificate")),
    ] {
        assert!(matches!(
            challenge(first, channel),
            Err(WireError::Scram(_))
        ));
    }
    let verifier = keys().verifier(stretch());
    let other = AwaitProof::challenge("PLAIN", CLIENT_FIRST, verifier, SERVER_NONCE, None);
    assert!(matches!(other, Err(WireError::Scram(_))));
}

#[test]
fn malformed_first_messages_are_rejected() {
    for first in [
        &b""[..],
        b"n",
        b"n,",
        b"n,,",
        b"n,,n=user",
        b"n,,r=abc,n=user",
        b"n,,n=user,r=",
        b"n,,n=user,r=a b",
        b"n,a=other,n=user,r=abc",
        b"n,,m=ext,n=user,r=abc",
        b"x,,n=user,r=abc",
        b"n,,n=\xff,r=abc",
    ] {
        let result = challenge(first, None);
        assert!(matches!(result, Err(WireError::Scram(_))), "{first:?}");
    }
}

#[test]
fn malformed_last_messages_are_rejected() {
    let whole = std::str::from_utf8(CLIENT_LAST).unwrap();
    for last in [
        String::new(),
        whole.replace("c=biws", "c=eSws"),
        whole.replace("c=biws,", ""),
        whole.replace("k0,p=", "k1,p="),
        whole.replace(",p=", ",q="),
        whole.replace(",p=d", ",p="),
        format!("{whole}AAAA"),
        whole.replace(",p=dHzb", ",p=????"),
    ] {
        let (awaits, _) = challenge(CLIENT_FIRST, None).unwrap();
        let result = awaits.verify(last.as_bytes());
        assert!(matches!(result, Err(WireError::Scram(_))), "{last}");
    }
}

#[test]
fn malformed_challenges_are_rejected() {
    let ours = nonce([7; NONCE_LEN]);
    for challenge in [
        String::new(),
        format!("r={ours},s={SALT},i=4096"),
        format!("r=other,s={SALT},i=4096"),
        format!("r={ours}x,s=*,i=4096"),
        format!("r={ours}x,s={SALT}"),
        format!("r={ours}x,s={SALT},i=0"),
        format!("r={ours}x,s={SALT},i=4294967295"),
        format!("r={ours}x,s={SALT},i=many"),
    ] {
        let (awaits, _) = AwaitChallenge::begin(ours.clone(), Channel::None);
        let result = awaits.challenged(challenge.as_bytes());
        assert!(matches!(result, Err(WireError::Scram(_))), "{challenge}");
    }
}

/// An end-to-end test compares the secret that PostgreSQL 15 stores for the password `p:/@ %ä`.
#[test]
fn the_form_that_postgresql_stores_is_parsed() {
    let stored = STANDARD.encode(sha256(&keys().client));
    let server = STANDARD.encode(keys().server);
    let text = format!("SCRAM-SHA-256$4096:{SALT}${stored}:{server}");
    assert_eq!(Verifier::parse(&text), Some(keys().verifier(stretch())));
    for wrong in [
        text.replace("SCRAM-SHA-256", "SCRAM-SHA-1"),
        text.replace("4096", "0"),
        text.replace("4096", "many"),
        text.replace(&server, &server[4..]),
        text.replace(SALT, "*"),
        "SCRAM-SHA-256$4096".to_owned(),
        String::new(),
    ] {
        assert_eq!(Verifier::parse(&wrong), None, "{wrong}");
    }
}

/// RFC 4013: a soft hyphen is removed, a no-break space becomes a space. A password with prohibited characters is
/// used unchanged.
#[test]
fn passwords_are_prepared_as_postgresql_does() {
    assert_eq!(prepared("I\u{ad}X\u{a0}".as_bytes()), b"IX ");
    assert_eq!(prepared(b"\x07"), b"\x07");
    assert_eq!(prepared(b"\xff\xfe"), b"\xff\xfe");
}

#[test]
fn debug_does_not_print_secrets() {
    let verifier = keys().verifier(stretch());
    assert_eq!(
        format!("{:?} {verifier:?}", keys()),
        "Keys(***) Verifier(***)"
    );
}

/// Bytes that resemble a message, and bytes that do not.
fn anything() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..80),
        "[nyp](=tls-server-end-point)?,(a=x)?,[nm]=[a-z]{0,3},r=[ -~]{0,9}(,[a-z]=[ -~]*)?"
            .prop_map(String::into_bytes),
        "c=[A-Za-z+/=]{0,8},r=[ -~]{0,40},p=[A-Za-z+/=]{0,44}".prop_map(String::into_bytes),
        "r=[ -~]{0,40},s=[A-Za-z+/=]{0,24},i=[0-9]{0,12}".prop_map(String::into_bytes),
        "v=[A-Za-z+/=]{0,44}".prop_map(String::into_bytes),
    ]
}

proptest! {
    #![proptest_config(paceline_testing::cases(256))]

    /// Each exchange ends with an error and not with a panic.
    #[test]
    fn arbitrary_messages_never_log_in(first in anything(), last in anything(), bound: bool) {
        let stretch = Stretch { salt: vec![1; 16], iterations: ITERATIONS };
        let verifier = Verifier::new(stretch, [7; KEY_LEN], [8; KEY_LEN]);
        let channel = bound.then_some(&b"certificate"[..]);
        for mechanism in [MECHANISM, MECHANISM_PLUS] {
            let begun = AwaitProof::challenge(mechanism, &first, verifier.clone(), "x", channel);
            if let Ok((awaits, _)) = begun {
                prop_assert!(awaits.verify(&last).is_err());
            }
        }
        let (awaits, _) = AwaitChallenge::begin("r".to_owned(), Channel::None);
        if let Ok(awaits) = awaits.challenged(&first) {
            prop_assert!(awaits.stretch().iterations.get() <= ITERATIONS_MAX);
        }
    }
}
