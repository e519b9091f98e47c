//! Hashes compared with what a server answers.

use super::*;
use std::borrow::Cow;

/// The results of `hashint8extended(-7, SEED)` and so on in PostgreSQL, on a little-endian machine.
#[test]
fn values_have_the_hashes_of_postgresql() {
    let uuid = 0x123e_4567_e89b_12d3_a456_4266_1417_4000_u128.to_be_bytes();
    let text = |text| KeyValue::Text(Cow::Borrowed(text));
    for (value, hash) in [
        (KeyValue::Int(-7), -7298374200968567817),
        (KeyValue::Int(1), 5968994663651403477),
        (KeyValue::Bool(true), 5968994663651403477),
        (KeyValue::Date(1), 5968994663651403477),
        // The halves of the number are combined.
        (KeyValue::Timestamp(1 << 32), 5968994663651403477),
        (
            text("lookup3, with more than 12 bytes"),
            -3975944308481839811,
        ),
        (KeyValue::Uuid(uuid), -1252132692482143582),
        (text("eleven byte"), -9017477511533356579),
        (text(""), -5700645584453517373),
        (text("12 bytes now"), 4920747974324552595),
    ] {
        assert_eq!(
            hash_value(&value).map(u64::cast_signed),
            Some(hash),
            "{value:?}"
        );
    }
}

#[test]
fn null_changes_no_hash() {
    let one = KeyValue::Int(1);
    assert_eq!(partition_hash([&KeyValue::Null]), 0);
    assert_eq!(
        partition_hash([&KeyValue::Null, &one]),
        partition_hash([&one])
    );
    assert_ne!(partition_hash([&one, &one]), partition_hash([&one]));
}

#[test]
fn a_server_with_other_hashes_is_noticed() {
    assert!(hashes_alike(&own_hashes()));
    assert!(!hashes_alike("1 2 3"));
}
