//! Keys and certificates that are made for a test.

use super::{Protocols, Side, SslMode};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An authority, and a folder for what it signs; removed on drop.
pub(in crate::tls) struct Papers {
    authority: CertifiedIssuer<'static, KeyPair>,
    folder: PathBuf,
}

/// TLS by this mode, with no files.
pub(in crate::tls) fn side(sslmode: SslMode) -> Side {
    Side {
        sslmode,
        key_file: None,
        cert_file: None,
        ca_file: None,
        protocols: Protocols::Secure,
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
