//! Keys and certificates, made once per run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use crate::harness::caretaker;

/// A folder with an authority and the certificates that it has issued; and an unknown authority.
pub(crate) struct Papers {
    folder: PathBuf,
}

/// The certificates that all tests share: `server` (for `localhost`), `postgres` and `certified` (clients), `stranger` (by another
/// authority).
pub(crate) fn papers() -> &'static Papers {
    static SHARED: OnceLock<Papers> = OnceLock::new();
    SHARED.get_or_init(|| {
        let papers = Papers {
            folder: caretaker::folder("t"),
        };
        let known = papers.found("ca");
        papers.sign(&known, "server", &["localhost", "127.0.0.1"]);
        papers.sign(&known, "postgres", &[]);
        papers.sign(&known, "certified", &[]);
        let unknown = papers.found("other");
        papers.sign(&unknown, "stranger", &["localhost"]);
        papers
    })
}

impl Papers {
    pub(crate) fn cert(&self, name: &str) -> String {
        self.path(&format!("{name}.crt"))
    }

    pub(crate) fn key(&self, name: &str) -> String {
        self.path(&format!("{name}.key"))
    }

    pub(super) fn authority(&self) -> String {
        self.path("ca.crt")
    }

    pub(super) fn other_authority(&self) -> String {
        self.path("other.crt")
    }

    /// Puts them where PostgreSQL looks for its own, as its own: it takes no key that others might read.
    pub(super) fn give_to_server(&self, folder: &Path) {
        for (from, to) in [
            ("server.crt", "server.crt"),
            ("server.key", "server.key"),
            ("ca.crt", "root.crt"),
        ] {
            let to = folder.join(to);
            std::fs::copy(self.path(from), &to).unwrap();
            let mut chown = Command::new("chown");
            chown.arg("--reference").arg(folder).arg(&to);
            assert!(chown.status().unwrap().success());
        }
    }

    fn found(&self, name: &str) -> CertifiedIssuer<'static, KeyPair> {
        let mut params = params(name, &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let authority = CertifiedIssuer::self_signed(params, key).unwrap();
        std::fs::write(self.cert(name), authority.pem()).unwrap();
        authority
    }

    fn sign(&self, authority: &CertifiedIssuer<'static, KeyPair>, name: &str, hosts: &[&str]) {
        let key = KeyPair::generate().unwrap();
        let cert = params(name, hosts).signed_by(&key, authority).unwrap();
        std::fs::write(self.cert(name), cert.pem()).unwrap();
        std::fs::write(self.key(name), key.serialize_pem()).unwrap();
        let mut chmod = Command::new("chmod");
        assert!(
            chmod
                .args(["600", &self.key(name)])
                .status()
                .unwrap()
                .success()
        );
    }

    fn path(&self, file: &str) -> String {
        self.folder.join(file).to_str().unwrap().to_owned()
    }
}

fn params(common: &str, hosts: &[&str]) -> CertificateParams {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let mut params = CertificateParams::new(hosts).unwrap();
    params.distinguished_name.push(DnType::CommonName, common);
    params
}
