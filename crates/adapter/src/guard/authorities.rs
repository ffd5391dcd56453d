//! A bundle of authorities, and whether a chain that a client showed comes from one of them.

use std::fmt;
use std::sync::Arc;

use runtime::tls::PeerCertificates;
use rustls::RootCertStore;
use rustls::crypto::aws_lc_rs;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, UnixTime};

/// Whom to trust about clients.
#[derive(Clone)]
pub(super) struct Authorities {
    certificates: Vec<CertificateDer<'static>>,
    verifier: Arc<dyn ClientCertVerifier>,
    /// Certificates of the bundle that cannot be used, and why.
    passed_over: Vec<String>,
}

/// Why there is nobody to trust.
#[derive(Debug, thiserror::Error)]
pub(super) enum BundleError {
    /// The text is no PEM.
    #[error("not PEM: {0}")]
    Pem(rustls_pki_types::pem::Error),
    /// None of the certificates can be used.
    #[error("no usable certificate{}", because(.0))]
    Nothing(Vec<String>),
    /// They cannot be used together.
    #[error("{0}")]
    Verifier(rustls::server::VerifierBuilderError),
}

fn because(reasons: &[String]) -> String {
    if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join("; ")) }
}

impl fmt::Debug for Authorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Authorities({})", self.certificates.len())
    }
}

impl Authorities {
    /// Reads a bundle in PEM. A certificate that cannot be used (an old one that is no authority, for instance) does not take the
    /// others with it.
    pub(super) fn read(pem: &str) -> Result<Self, BundleError> {
        let (mut roots, mut certificates, mut passed_over) = (RootCertStore::empty(), Vec::new(), Vec::new());
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            let certificate: CertificateDer<'static> = certificate.map_err(BundleError::Pem)?;
            match roots.add(certificate.clone()) {
                Ok(()) => certificates.push(certificate),
                Err(error) => passed_over.push(error.to_string()),
            }
        }
        if certificates.is_empty() {
            return Err(BundleError::Nothing(passed_over));
        }
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        Ok(Self { certificates, verifier: verifier.build().map_err(BundleError::Verifier)?, passed_over })
    }

    /// Whether the chain comes from one of the authorities, is for clients (as far as it says what it is for), and in its time.
    /// Else the exact reason.
    pub(super) fn vouch_for(&self, chain: &PeerCertificates, at: UnixTime) -> Result<(), rustls::Error> {
        let (own, others) = chain.0.split_first().ok_or(rustls::Error::NoCertificatesPresented)?;
        self.verifier.verify_client_cert(own, others, at).map(|_| ())
    }

    /// Certificates of the bundle that cannot be used, and why.
    pub(super) fn passed_over(&self) -> &[String] {
        &self.passed_over
    }

    /// Whether both trust one and the same certificate.
    pub(super) fn overlap(&self, other: &Self) -> bool {
        self.certificates.iter().any(|certificate| other.certificates.contains(certificate))
    }
}
