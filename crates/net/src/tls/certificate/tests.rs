//! Reading certificates, valid and broken.

use super::*;
use proptest::prelude::*;
use rcgen::{CertificateParams, DnType, KeyPair, PKCS_ECDSA_P384_SHA384, PKCS_ED25519};
use rcgen::{SignatureAlgorithm, date_time_ymd};

fn certificate(names: &[&str], algorithm: &'static SignatureAlgorithm) -> Vec<u8> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params
        .distinguished_name
        .push(DnType::OrganizationName, "Öl & Söhne");
    params.distinguished_name.push(DnType::CommonName, "alice");
    params.not_before = date_time_ymd(2024, 2, 29);
    params.not_after = date_time_ymd(2050, 3, 1);
    let key = KeyPair::generate_for(algorithm).unwrap();
    params.self_signed(&key).unwrap().der().to_vec()
}

#[test]
fn names_are_read() {
    let of = |list: &[&str]| names(&certificate(list, &PKCS_ED25519));
    let all = of(&["db.example", "10.0.0.1", "*.db.example"]);
    assert_eq!(all.common.as_deref(), Some("alice"));
    assert_eq!(all.alternative, ["db.example", "*.db.example"]);
    assert!(all.has_addresses);
    let only = of(&[]);
    assert_eq!((only.alternative.len(), only.has_addresses), (0, false));
}

#[test]
fn first_and_last_second_are_valid() {
    let certificate = certificate(&[], &PKCS_ED25519);
    // 2024-02-29 (two digits of the year) and 2050-03-01 (four), at midnight.
    let (first, last) = (1_709_164_800, 2_529_705_600);
    for (now, valid) in [
        (first - 1, false),
        (first, true),
        (last, true),
        (last + 1, false),
    ] {
        assert_eq!(is_valid_at(&certificate, now), valid, "{now}");
    }
}

#[test]
fn end_point_uses_the_hash_of_the_signature() {
    let strong = certificate(&[], &PKCS_ECDSA_P384_SHA384);
    let expected = digest::digest(&digest::SHA384, &strong);
    assert_eq!(end_point(&strong).as_deref(), Some(expected.as_ref()));
    assert_eq!(end_point(&certificate(&[], &PKCS_ED25519)), None);
}

/// OIDs as OpenSSL prints them; MD5 and SHA-1 are replaced by SHA-256.
#[test]
fn every_usual_signature_has_its_hash() {
    let rsa = |last| [RSA, &[last]].concat();
    let ecdsa = |last| [ECDSA, &[last]].concat();
    for (oid, hash) in [
        (rsa(4), Some(&digest::SHA256)),
        (rsa(5), Some(&digest::SHA256)),
        (rsa(11), Some(&digest::SHA256)),
        (rsa(12), Some(&digest::SHA384)),
        (rsa(13), Some(&digest::SHA512)),
        (ecdsa(2), Some(&digest::SHA256)),
        (ecdsa(4), Some(&digest::SHA512)),
        (ECDSA_SHA1.to_vec(), Some(&digest::SHA256)),
        (rsa(14), None),
    ] {
        assert_eq!(signature_hash(&oid, Der(&[])), hash, "{oid:x?}");
    }
    let sha512 = [
        &[0x30, 0x0f, 0xa0, 0x0d, 0x30, 0x0b, 0x06, 0x09],
        HASH,
        &[3],
    ]
    .concat();
    assert_eq!(
        signature_hash(&rsa(10), Der(&sha512)),
        Some(&digest::SHA512)
    );
}

proptest! {
    #![proptest_config(paceline_testing::cases(256))]

    /// A peer may send any bytes.
    #[test]
    fn broken_certificates_do_not_panic(at in 0..400_usize, byte: u8, len in 0..500_usize) {
        let mut broken = certificate(&["db.example"], &PKCS_ED25519);
        if let Some(place) = broken.get_mut(at) {
            *place = byte;
        }
        broken.truncate(len);
        let _ = (names(&broken), end_point(&broken), is_valid_at(&broken, 0));
    }
}
