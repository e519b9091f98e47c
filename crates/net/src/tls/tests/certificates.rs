//! Keys and certificates for tests, made by each test.

use crate::tls::{SslMode, TlsSettings, TlsVersions};
use base64::prelude::{BASE64_STANDARD, Engine};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SigningKey,
    date_time_ymd,
};
use std::path::PathBuf;
use tempfile::TempDir;

/// An authority, and a folder of certificates that it has signed.
pub(crate) struct Certificates {
    authority: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
}

/// TLS in this mode, without files.
pub(crate) fn settings(sslmode: SslMode) -> TlsSettings {
    TlsSettings {
        sslmode,
        key_file: None,
        cert_file: None,
        ca_file: None,
        versions: TlsVersions::Both,
    }
}

impl Certificates {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Two authorities of one test must differ by name: a verifier looks for the issuer by its name.
        let mut params = params(&format!("authority {}", folder.path().display()), &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let authority = CertifiedIssuer::self_signed(params, key).unwrap();
        std::fs::write(folder.path().join("ca.crt"), authority.pem()).unwrap();
        Self { authority, folder }
    }

    /// The file with the authority's certificate.
    pub(crate) fn authority_file(&self) -> PathBuf {
        self.folder.path().join("ca.crt")
    }

    /// Writes a key, and a certificate that the authority has signed, to files of this name.
    pub(crate) fn signed(&self, file: &str, common: &str, names: &[&str]) -> TlsSettings {
        let key = KeyPair::generate().unwrap();
        let cert = params(common, names).signed_by(&key, &self.authority);
        self.write(file, &cert.unwrap().pem(), &key)
    }

    /// As [`Certificates::signed`], but self-signed, itself an authority, and valid until the end of a year.
    pub(crate) fn self_signed(&self, file: &str, name: &str, last_year: i32) -> TlsSettings {
        let key = KeyPair::generate().unwrap();
        let mut params = params(name, &[name]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_after = date_time_ymd(last_year, 12, 31);
        let cert = params.self_signed(&key).unwrap();
        self.write(file, &cert.pem(), &key)
    }

    /// As [`Certificates::signed`], but self-signed and of X.509 version 1, as `openssl x509 -req` makes it without an extension file.
    pub(crate) fn version_1(&self, file: &str, common: &str) -> TlsSettings {
        let key = KeyPair::generate().unwrap();
        let cert = params(common, &[]).self_signed(&key).unwrap();
        let signed = as_version_1(cert.der(), &key);
        self.write(file, &pem(&signed), &key)
    }

    fn write(&self, file: &str, cert: &str, key: &KeyPair) -> TlsSettings {
        let [cert_file, key_file] =
            ["crt", "key"].map(|end| self.folder.path().join(format!("{file}.{end}")));
        std::fs::write(&cert_file, cert).unwrap();
        std::fs::write(&key_file, key.serialize_pem()).unwrap();
        TlsSettings {
            cert_file: Some(cert_file),
            key_file: Some(key_file),
            ..settings(SslMode::Require)
        }
    }
}

/// Removes version and extensions from a certificate and signs it again.
fn as_version_1(certificate: &[u8], key: &KeyPair) -> Vec<u8> {
    let [to_be_signed, algorithm, _signature] = elements(content(certificate))[..] else {
        panic!("not a certificate");
    };
    // Version and extensions are the elements with a context-specific tag.
    let kept = elements(content(to_be_signed)).into_iter();
    let kept: Vec<u8> = kept.filter(|e| e[0] < 0xa0).flatten().copied().collect();
    let to_be_signed = element(0x30, &kept);
    let mut signature = vec![0];
    signature.extend(key.sign(&to_be_signed).unwrap());
    let parts = [to_be_signed, algorithm.to_vec(), element(0x03, &signature)];
    element(0x30, &parts.concat())
}

/// Lengths of header and content of the first DER element.
fn lengths(der: &[u8]) -> (usize, usize) {
    match usize::from(der[1]) {
        len @ 0..0x80 => (2, len),
        long => {
            let bytes = &der[2..2 + long - 0x80];
            let len = bytes
                .iter()
                .fold(0, |len, byte| len << 8 | usize::from(*byte));
            (2 + bytes.len(), len)
        }
    }
}

fn content(der: &[u8]) -> &[u8] {
    let (header, len) = lengths(der);
    &der[header..header + len]
}

fn elements(mut der: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    while !der.is_empty() {
        let (header, len) = lengths(der);
        let (element, rest) = der.split_at(header + len);
        found.push(element);
        der = rest;
    }
    found
}

fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let [high, low] = u16::try_from(content.len()).unwrap().to_be_bytes();
    let header: &[u8] = match (high, low) {
        (0, ..0x80) => &[tag, low],
        (0, _) => &[tag, 0x81, low],
        _ => &[tag, 0x82, high, low],
    };
    [header, content].concat()
}

fn pem(der: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(der);
    format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
}

fn params(common: &str, names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.distinguished_name.push(DnType::CommonName, common);
    params.not_before = date_time_ymd(2000, 1, 1);
    params
}
