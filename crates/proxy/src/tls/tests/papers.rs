//! Keys and certificates that are made for a test.

use super::{Protocols, Side, SslMode};
use base64::prelude::{BASE64_STANDARD, Engine};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SigningKey,
    date_time_ymd,
};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An authority, and a folder for what it signs; removed on drop.
pub(in crate::tls) struct Papers {
    authority: CertifiedIssuer<'static, KeyPair>,
    folder: PathBuf,
}

/// Versions of TLS, as they are configured.
pub(in crate::tls) fn protocols(text: &str) -> Protocols {
    Protocols::parse(text).unwrap()
}

/// TLS by this mode, with no files.
pub(in crate::tls) fn side(sslmode: SslMode) -> Side {
    Side {
        sslmode,
        key_file: None,
        cert_file: None,
        ca_file: None,
        protocols: protocols("secure"),
    }
}

impl Papers {
    pub(in crate::tls) fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("paceline-tls-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let mut params = params(&format!("authority {number}"), &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let authority = CertifiedIssuer::self_signed(params, key).unwrap();
        std::fs::write(folder.join("ca.crt"), authority.pem()).unwrap();
        Self { authority, folder }
    }

    /// The file with the authority's certificate.
    pub(in crate::tls) fn authority(&self) -> PathBuf {
        self.folder.join("ca.crt")
    }

    /// A key and a certificate for it, in files of this name.
    pub(in crate::tls) fn shown(&self, file: &str, common: &str, names: &[&str]) -> Side {
        let key = KeyPair::generate().unwrap();
        let cert = params(common, names).signed_by(&key, &self.authority);
        self.write(file, &cert.unwrap().pem(), &key)
    }

    /// The same, but signed by itself and an authority, until the end of a year.
    pub(in crate::tls) fn own_authority(&self, file: &str, name: &str, last_year: i32) -> Side {
        let key = KeyPair::generate().unwrap();
        let mut params = params(name, &[name]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_after = date_time_ymd(last_year, 12, 31);
        let cert = params.self_signed(&key).unwrap();
        self.write(file, &cert.pem(), &key)
    }

    /// The same of X.509 version 1, as `openssl x509 -req` makes it without an extension file.
    pub(in crate::tls) fn version_1(&self, file: &str, common: &str) -> Side {
        let key = KeyPair::generate().unwrap();
        let cert = params(common, &[]).self_signed(&key).unwrap();
        let signed = as_version_1(cert.der(), &key);
        self.write(file, &pem(&signed), &key)
    }

    fn write(&self, file: &str, cert: &str, key: &KeyPair) -> Side {
        let [cert_file, key_file] =
            ["crt", "key"].map(|end| self.folder.join(format!("{file}.{end}")));
        std::fs::write(&cert_file, cert).unwrap();
        std::fs::write(&key_file, key.serialize_pem()).unwrap();
        Side {
            cert_file: Some(cert_file),
            key_file: Some(key_file),
            ..side(SslMode::Require)
        }
    }
}

/// Drops the version and the extensions of a certificate, and signs it anew.
fn as_version_1(certificate: &[u8], key: &KeyPair) -> Vec<u8> {
    let [to_be_signed, algorithm, _signature] = elements(content(certificate))[..] else {
        panic!("not a certificate");
    };
    // A tag that is bound to the context is the version or the extensions.
    let kept = elements(content(to_be_signed)).into_iter();
    let kept: Vec<u8> = kept.filter(|e| e[0] < 0xa0).flatten().copied().collect();
    let to_be_signed = element(0x30, &kept);
    let mut signature = vec![0];
    signature.extend(key.sign(&to_be_signed).unwrap());
    let parts = [to_be_signed, algorithm.to_vec(), element(0x03, &signature)];
    element(0x30, &parts.concat())
}

/// Length of the header of the DER element at the front, and of its content.
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

impl Drop for Papers {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
