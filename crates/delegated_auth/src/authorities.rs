//! A bundle of authorities, and whether a chain that a client showed comes from one of them.
//!
//! As in Go, an authority whose own time is over, or has not begun, vouches for nobody: `webpki`
//! does not look at that.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{CertificateError, RootCertStore};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, UnixTime};
use serving::tls::PeerCertificates;

use crate::subject::validity;

/// Whom to trust about clients.
#[derive(Clone)]
pub(crate) struct Authorities {
    certificates: Vec<Authority>,
    /// By all of them.
    verifier: Arc<dyn ClientCertVerifier>,
    /// Certificates of the bundle that cannot be used, and why.
    passed_over: Vec<String>,
}

#[derive(Clone)]
struct Authority {
    certificate: CertificateDer<'static>,
    validity: RangeInclusive<UnixTime>,
}

/// Why there is nobody to trust.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BundleError {
    /// The text is no PEM.
    #[error("not PEM: {0}")]
    Pem(rustls_pki_types::pem::Error),
    /// None of the certificates can be used.
    #[error("no usable certificate{}", because(.0))]
    Nothing(Vec<String>),
    /// They cannot be used together.
    #[error("{0}")]
    Verifier(VerifierBuilderError),
}

fn because(reasons: &[String]) -> String {
    if reasons.is_empty() {
        String::new()
    } else {
        format!(" ({})", reasons.join("; "))
    }
}

impl fmt::Debug for Authorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Authorities({})", self.certificates.len())
    }
}

impl Authorities {
    /// Reads a bundle in PEM. A certificate that cannot be used (an old one that is no authority,
    /// for instance) does not take the others with it.
    pub(crate) fn read(pem: &str) -> Result<Self, BundleError> {
        let (mut certificates, mut passed_over) = (Vec::new(), Vec::new());
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            let certificate: CertificateDer<'static> = certificate.map_err(BundleError::Pem)?;
            match Authority::read(certificate) {
                Ok(authority) => certificates.push(authority),
                Err(error) => passed_over.push(error),
            }
        }
        if certificates.is_empty() {
            return Err(BundleError::Nothing(passed_over));
        }
        let verifier = verifier(&certificates).map_err(BundleError::Verifier)?;
        Ok(Self {
            certificates,
            verifier,
            passed_over,
        })
    }

    /// Whether the chain comes from one of the authorities, is for clients (as far as it says what
    /// it is for), and in its time. Else the exact reason.
    pub(crate) fn vouch_for(
        &self,
        chain: &PeerCertificates,
        at: UnixTime,
    ) -> Result<(), rustls::Error> {
        let (own, others) = chain
            .0
            .split_first()
            .ok_or(rustls::Error::NoCertificatesPresented)?;
        let is_current = |authority: &&Authority| authority.validity.contains(&at);
        let current: Vec<Authority> = self
            .certificates
            .iter()
            .filter(is_current)
            .cloned()
            .collect();
        if current.len() == self.certificates.len() {
            return self
                .verifier
                .verify_client_cert(own, others, at)
                .map(|_| ());
        }
        // Findings are kept, so this is seldom made.
        let unknown = |_| rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
        verifier(&current)
            .map_err(unknown)?
            .verify_client_cert(own, others, at)
            .map(|_| ())
    }

    /// When the next of those that are not over yet is.
    pub(crate) fn next_end(&self, at: UnixTime) -> Option<UnixTime> {
        self.certificates
            .iter()
            .map(|authority| *authority.validity.end())
            .filter(|end| *end > at)
            .min()
    }

    /// Certificates of the bundle that cannot be used, and why.
    pub(crate) fn passed_over(&self) -> &[String] {
        &self.passed_over
    }

    /// Whether both trust one and the same certificate.
    pub(crate) fn overlap(&self, other: &Self) -> bool {
        let has = |wanted: &Authority| {
            other
                .certificates
                .iter()
                .any(|one| one.certificate == wanted.certificate)
        };
        self.certificates.iter().any(has)
    }
}

impl Authority {
    fn read(certificate: CertificateDer<'static>) -> Result<Self, String> {
        RootCertStore::empty()
            .add(certificate.clone())
            .map_err(|error| error.to_string())?;
        let validity = validity(&certificate).map_err(|error| error.to_string())?;
        Ok(Self {
            certificate,
            validity,
        })
    }
}

/// Of chains that come from one of these; an error if there are none.
fn verifier(of: &[Authority]) -> Result<Arc<dyn ClientCertVerifier>, VerifierBuilderError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(of.iter().map(|authority| authority.certificate.clone()));
    let provider = Arc::new(aws_lc_rs::default_provider());
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

    use super::*;

    fn seconds(seconds: u64) -> UnixTime {
        UnixTime::since_unix_epoch(Duration::from_secs(seconds))
    }

    fn within(params: &mut CertificateParams, from: u64, until: u64) {
        let time = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        (params.not_before, params.not_after) = (time(from).into(), time(until).into());
    }

    /// An authority with its own time, as PEM, and a client's certificate from it, which outlasts
    /// it.
    fn authority(from: u64, until: u64) -> (String, PeerCertificates) {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, format!("from {from}"));
        within(&mut params, from, until);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        let mut client = CertificateParams::new(["client".to_owned()]).unwrap();
        within(&mut client, 0, 100_000);
        let client = client
            .signed_by(&KeyPair::generate().unwrap(), &Issuer::new(params, key))
            .unwrap();
        (pem, PeerCertificates([client.der().clone()].into()))
    }

    #[test]
    fn an_authority_vouches_in_its_own_time_only() {
        let ((short, of_short), (long, of_long)) = (authority(1000, 2000), authority(500, 9000));
        let both = Authorities::read(&(short.clone() + &long)).unwrap();
        for (at, by_short, by_long) in [
            (499, false, false),
            (999, false, true),
            (1000, true, true),
            (2000, true, true),
            (2001, false, true),
            (9001, false, false),
        ] {
            let vouches = |chain| both.vouch_for(chain, seconds(at)).is_ok();
            assert_eq!(
                (vouches(&of_short), vouches(&of_long)),
                (by_short, by_long),
                "at {at}"
            );
        }
        assert!(
            Authorities::read(&short)
                .unwrap()
                .vouch_for(&of_short, seconds(2001))
                .is_err()
        );
    }

    #[test]
    fn the_next_to_end_is_known() {
        let both = Authorities::read(&(authority(1000, 2000).0 + &authority(500, 9000).0)).unwrap();
        for (at, expected) in [
            (0, Some(2000)),
            (1999, Some(2000)),
            (2000, Some(9000)),
            (9000, None),
        ] {
            assert_eq!(both.next_end(seconds(at)), expected.map(seconds), "at {at}");
        }
    }
}
