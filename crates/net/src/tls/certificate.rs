//! Reads names, validity, public key and signature algorithm of a certificate (X.509 in DER, RFC 5280). rustls verifies
//! the chain of certificates.

use ring::digest::{self, Algorithm};
use rustls::pki_types::SubjectPublicKeyInfoDer;

const SEQUENCE: u8 = 0x30;
const OID: u8 = 0x06;
const BITS: u8 = 0x03;
const OCTETS: u8 = 0x04;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// The version in a certificate, the hash in the parameters of RSASSA-PSS.
const TAGGED_0: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
/// `dNSName` and `iPAddress` among alternative names.
const DNS_NAME: u8 = 0x82;
const IP_ADDRESS: u8 = 0x87;

const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ALTERNATIVE_NAME: &[u8] = &[0x55, 0x1d, 0x11];
/// 1.2.840.113549.1.1: RSA; the last number says with which hash.
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
/// 1.2.840.10045.4.3: ECDSA, likewise; with SHA-1 it is 1.2.840.10045.4.1.
const ECDSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03];
const ECDSA_SHA1: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x01];
/// 2.16.840.1.101.3.4.2: hashes.
const HASH: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02];

/// The names in a certificate.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CertificateNames {
    /// The subject's common name.
    pub(super) common: Option<String>,
    /// Alternative names of type `dNSName`.
    pub(super) alternative: Vec<String>,
    /// Whether there are addresses among the alternative names.
    pub(super) has_addresses: bool,
}

/// Reads the names. Names that are not UTF-8, or contain a zero byte, are omitted.
pub(super) fn names(certificate: &[u8]) -> CertificateNames {
    let mut names = CertificateNames::default();
    let Some(parts) = CertificateParts::read(certificate) else {
        return names;
    };
    names.common = common_name(parts.subject);
    let mut alternative = Der(parts.alternative_names().unwrap_or_default());
    while let Some((tag, value)) = alternative.next() {
        match tag {
            DNS_NAME => names.alternative.extend(text(value)),
            IP_ADDRESS => names.has_addresses = true,
            _ => {}
        }
    }
    names
}

/// A subject's public key.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PublicKey<'a> {
    /// `SubjectPublicKeyInfo`.
    pub(super) info: SubjectPublicKeyInfoDer<'a>,
    /// The content of `AlgorithmIdentifier`.
    pub(super) algorithm: &'a [u8],
    /// The key itself.
    pub(super) bits: &'a [u8],
}

/// Reads the public key.
pub(super) fn public_key(certificate: &[u8]) -> Option<PublicKey<'_>> {
    let info = CertificateParts::read(certificate)?.public_key;
    let mut parts = Der(Der(info).expect(SEQUENCE)?);
    let algorithm = parts.expect(SEQUENCE)?;
    // The first byte is the number of unused bits at the end: keys are whole bytes.
    let (0, bits) = parts.expect(BITS)?.split_first()? else {
        return None;
    };
    Some(PublicKey {
        info: SubjectPublicKeyInfoDer::from(info),
        algorithm,
        bits,
    })
}

/// Whether this is X.509 version 1, which has no extensions. rustls reads only version 3.
pub(super) fn is_version_1(certificate: &[u8]) -> bool {
    CertificateParts::read(certificate).is_some_and(|parts| parts.is_version_1)
}

/// Whether the certificate is valid at this time (seconds since 1970).
pub(super) fn is_valid_at(certificate: &[u8], now: u64) -> bool {
    let bounds = CertificateParts::read(certificate).and_then(|parts| {
        let mut validity = Der(parts.validity);
        Some((time(validity.next()?)?, time(validity.next()?)?))
    });
    bounds.is_some_and(|(first, last)| (first..=last).contains(&now))
}

/// Returns `tls-server-end-point` (RFC 5929): the hash of the certificate by the hash function of its signature, or by SHA-256 if that
/// is MD5 or SHA-1. `None` if the signature has no hash function (Ed25519), or an unknown one.
pub(super) fn end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    let mut algorithm = Der(CertificateParts::read(certificate)?.signature);
    let hash = signature_hash(algorithm.expect(OID)?, algorithm)?;
    Some(digest::digest(hash, certificate).as_ref().to_vec())
}

fn signature_hash(oid: &[u8], parameters: Der<'_>) -> Option<&'static Algorithm> {
    if oid == ECDSA_SHA1 {
        return Some(&digest::SHA256);
    }
    let (last, family) = oid.split_last()?;
    match (family, last) {
        (RSA, 4 | 5 | 11) | (ECDSA, 2) => Some(&digest::SHA256),
        (RSA, 12) | (ECDSA, 3) => Some(&digest::SHA384),
        (RSA, 13) | (ECDSA, 4) => Some(&digest::SHA512),
        (RSA, 10) => pss_hash(parameters),
        _ => None,
    }
}

/// The parameters of RSASSA-PSS name the hash; the default is SHA-1.
fn pss_hash(mut parameters: Der<'_>) -> Option<&'static Algorithm> {
    let mut parameters = Der(parameters.expect(SEQUENCE)?);
    let Some(hash) = parameters.expect(TAGGED_0) else {
        return Some(&digest::SHA256);
    };
    let mut hash = Der(Der(hash).expect(SEQUENCE)?);
    let (last, family) = hash.expect(OID)?.split_last()?;
    match (family, last) {
        (HASH, 1) => Some(&digest::SHA256),
        (HASH, 2) => Some(&digest::SHA384),
        (HASH, 3) => Some(&digest::SHA512),
        _ => None,
    }
}

/// The parts of a certificate that this module reads.
struct CertificateParts<'a> {
    is_version_1: bool,
    validity: &'a [u8],
    subject: &'a [u8],
    /// With its header.
    public_key: &'a [u8],
    extensions: &'a [u8],
    signature: &'a [u8],
}

impl<'a> CertificateParts<'a> {
    fn read(certificate: &'a [u8]) -> Option<Self> {
        let mut outer = Der(Der(certificate).expect(SEQUENCE)?);
        let mut inner = Der(outer.expect(SEQUENCE)?);
        let is_version_1 = inner.expect(TAGGED_0).is_none();
        let [_serial, _signature, _issuer] = [inner.next()?, inner.next()?, inner.next()?];
        let validity = inner.expect(SEQUENCE)?;
        let subject = inner.expect(SEQUENCE)?;
        let from_key = inner.0;
        inner.expect(SEQUENCE)?;
        let public_key = from_key.get(..from_key.len() - inner.0.len())?;
        let mut extensions = [].as_slice();
        while let Some((tag, value)) = inner.next() {
            if tag == EXTENSIONS {
                extensions = Der(value).expect(SEQUENCE)?;
            }
        }
        Some(Self {
            is_version_1,
            validity,
            subject,
            public_key,
            extensions,
            signature: outer.expect(SEQUENCE)?,
        })
    }

    fn alternative_names(&self) -> Option<&'a [u8]> {
        let mut extensions = Der(self.extensions);
        loop {
            let mut extension = Der(extensions.expect(SEQUENCE)?);
            if extension.expect(OID)? != ALTERNATIVE_NAME {
                continue;
            }
            // `critical` may precede the value.
            while let Some((tag, value)) = extension.next() {
                if tag == OCTETS {
                    return Der(value).expect(SEQUENCE);
                }
            }
        }
    }
}

/// Returns the first common name, as PostgreSQL does.
fn common_name(subject: &[u8]) -> Option<String> {
    let mut sets = Der(subject);
    while let Some((_, set)) = sets.next() {
        let mut pairs = Der(set);
        while let Some((_, pair)) = pairs.next() {
            let mut pair = Der(pair);
            if pair.expect(OID)? == COMMON_NAME {
                return text(pair.next()?.1);
            }
        }
    }
    None
}

fn text(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    (!text.contains('\0')).then(|| text.to_owned())
}

/// Converts `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ` to seconds since 1970.
fn time((tag, text): (u8, &[u8])) -> Option<u64> {
    let mut digits = text.strip_suffix(b"Z")?.iter();
    let mut pair = || {
        let [tens, ones] = [digits.next()?, digits.next()?].map(|digit| digit.wrapping_sub(b'0'));
        (tens < 10 && ones < 10).then(|| u64::from(tens) * 10 + u64::from(ones))
    };
    let year = match tag {
        UTC_TIME => match pair()? {
            year @ 50.. => 1900 + year,
            year => 2000 + year,
        },
        GENERALIZED_TIME => pair()? * 100 + pair()?,
        _ => return None,
    };
    let (month, day) = (pair()?, pair()?);
    let seconds = pair()? * 3600 + pair()? * 60 + pair()?;
    Some(days(year, month, day)?.checked_mul(86_400)? + seconds)
}

/// Returns the days from 1970 to a day of the Gregorian calendar; 0 for an earlier day.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    // Counting years from March makes the leap day the last day.
    let (year, month) = match month {
        1 | 2 => (year.checked_sub(1)?, month + 9),
        3..=12 => (year, month - 3),
        _ => return None,
    };
    let leaps = year / 4 - year / 100 + year / 400;
    let days = year * 365 + leaps + (month * 153 + 2) / 5 + day;
    /// Days from 1 March of the year 0 to 1 January 1970, plus 1 because days of a month count from 1.
    const TO_1970: u64 = 719_469;
    Some(days.saturating_sub(TO_1970))
}

/// A sequence of DER values.
#[derive(Clone, Copy)]
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// Returns tag and content of the next value; `None` at the end, and if the value is truncated.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (len, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            // No certificate has a length of more than four bytes.
            0x81..=0x84 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
                let len = bytes
                    .iter()
                    .fold(0, |len, byte| len << 8 | usize::from(*byte));
                (len, rest)
            }
            _ => return None,
        };
        let (value, rest) = rest.split_at_checked(len)?;
        self.0 = rest;
        Some((tag, value))
    }

    /// Returns the content of the next value if it has this tag; otherwise the position stays.
    fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        let mut ahead = *self;
        let (found, value) = ahead.next()?;
        (found == tag).then(|| {
            *self = ahead;
            value
        })
    }
}

#[cfg(test)]
mod tests;
