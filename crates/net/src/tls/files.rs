//! PEM files: certificates, private keys, authorities. Validity and names are not checked here.

use super::certificate;
use super::error::TlsError;
use super::provider::provider;
use super::settings::TlsSettings;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, Error, InconsistentKeys, RootCertStore};
use std::path::Path;

/// Reads the own certificate chain and its private key; `None` if the settings name neither.
pub(super) fn identity(settings: &TlsSettings) -> Result<Option<CertifiedKey>, TlsError> {
    let (key, cert) = match (&settings.key_file, &settings.cert_file) {
        (None, None) => return Ok(None),
        (Some(key), Some(cert)) => (key, cert),
        (Some(key), None) => {
            return Err(other_file_missing(key, "a certificate that goes with it"));
        }
        (None, Some(cert)) => {
            return Err(other_file_missing(
                cert,
                "the private key that goes with it",
            ));
        }
    };
    let chain = certificates(cert)?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(|error| file_error(error, KEY, key))?;
    let usable = provider().key_provider.load_private_key(key);
    let certified = usable.and_then(|key| matching(CertifiedKey::new(chain, key)));
    let certified = certified.map_err(|reason| TlsError::Unusable {
        cert: cert.clone(),
        reason,
    })?;
    Ok(Some(certified))
}

/// Checks that key and certificate match. rustls cannot do so for certificates of X.509 version 1.
fn matching(certified: CertifiedKey) -> Result<CertifiedKey, Error> {
    let cert = certified.end_entity_cert()?;
    if !certificate::is_version_1(cert) {
        certified.keys_match()?;
        return Ok(certified);
    }
    let of_cert = certificate::public_key(cert).ok_or(CertificateError::BadEncoding)?;
    match certified
        .key
        .public_key()
        .is_some_and(|key| key == of_cert.info)
    {
        true => Ok(certified),
        false => Err(InconsistentKeys::KeyMismatch.into()),
    }
}

/// Trusted authorities.
pub(super) struct Authorities {
    /// The authorities as rustls uses them.
    pub(super) roots: RootCertStore,
    /// The certificates in the file, to find a server certificate that is its own authority.
    pub(super) listed: Vec<CertificateDer<'static>>,
}

/// Reads a file of authorities.
pub(super) fn authorities(path: &Path) -> Result<Authorities, TlsError> {
    let listed = certificates(path)?;
    let mut roots = RootCertStore::empty();
    for certificate in &listed {
        let added = roots.add(certificate.clone());
        added.map_err(|reason| TlsError::Unusable {
            cert: path.to_owned(),
            reason,
        })?;
    }
    Ok(Authorities { roots, listed })
}

const CERTIFICATE: &str = "a certificate";
const KEY: &str = "a private key";

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |error| file_error(error, CERTIFICATE, path);
    let found = CertificateDer::pem_file_iter(path).map_err(failed)?;
    let found: Vec<_> = found.collect::<Result<_, _>>().map_err(failed)?;
    match found.is_empty() {
        true => Err(failed(pem::Error::NoItemsFound)),
        false => Ok(found),
    }
}

fn file_error(error: pem::Error, what: &'static str, path: &Path) -> TlsError {
    let reason = match error {
        pem::Error::Io(error) => error.to_string(),
        pem::Error::NoItemsFound if what == KEY => {
            "there is none in PEM that is not encrypted".to_owned()
        }
        pem::Error::NoItemsFound => "there is none in PEM".to_owned(),
        // The texts of other errors hold parts of the file, which may be a private key.
        _ => "this is not PEM".to_owned(),
    };
    TlsError::File {
        what,
        path: path.to_owned(),
        reason,
    }
}

fn other_file_missing(path: &Path, missing: &'static str) -> TlsError {
    TlsError::Missing {
        setting: path.display().to_string(),
        missing,
    }
}
