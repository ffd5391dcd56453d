//! A bundle of CA certificates that verifies the chains of clients.
//!
//! As in Go, a CA certificate is trusted within its own validity only; `webpki` ignores the validity
//! of trust anchors.

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

use crate::certificate_subject::validity;

#[derive(Clone)]
pub(crate) struct CaBundle {
    certificates: Vec<CaCertificate>,
    verifier: Arc<dyn ClientCertVerifier>,
    skipped: Vec<String>,
}

#[derive(Clone)]
struct CaCertificate {
    certificate: CertificateDer<'static>,
    validity: RangeInclusive<UnixTime>,
}

impl fmt::Debug for CaBundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CaBundle({})", self.certificates.len())
    }
}

impl CaBundle {
    /// Parses a bundle in PEM. Skips unusable certificates, such as an old one that is not a CA.
    pub(crate) fn parse(pem: &str) -> Result<Self, String> {
        let (mut certificates, mut skipped) = (Vec::new(), Vec::new());
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            match CaCertificate::new(certificate.map_err(|error| format!("not PEM: {error}"))?) {
                Ok(certificate) => certificates.push(certificate),
                Err(error) => skipped.push(error),
            }
        }
        match (certificates.is_empty(), skipped.is_empty()) {
            (true, true) => return Err("no usable certificate".to_owned()),
            (true, false) => return Err(format!("no usable certificate ({})", skipped.join("; "))),
            (false, _) => {}
        }
        let verifier = verifier(&certificates).map_err(|error| error.to_string())?;
        Ok(Self {
            certificates,
            verifier,
            skipped,
        })
    }

    /// Verifies that a chain is signed by one of the certificates, is valid at this time and, if it
    /// limits its use, is for clients.
    pub(crate) fn verify(
        &self,
        chain: &PeerCertificates,
        at: UnixTime,
    ) -> Result<(), rustls::Error> {
        let (leaf, intermediates) = chain
            .0
            .split_first()
            .ok_or(rustls::Error::NoCertificatesPresented)?;
        let certificates = self.certificates.iter();
        let valid: Vec<CaCertificate> = certificates
            .filter(|certificate| certificate.validity.contains(&at))
            .cloned()
            .collect();
        let verifier = if valid.len() == self.certificates.len() {
            Arc::clone(&self.verifier)
        } else {
            // Verifications are cached, so this is rare.
            let unknown = |_| rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
            verifier(&valid).map_err(unknown)?
        };
        verifier
            .verify_client_cert(leaf, intermediates, at)
            .map(|_| ())
    }

    pub(crate) fn next_expiry(&self, at: UnixTime) -> Option<UnixTime> {
        self.certificates
            .iter()
            .map(|certificate| *certificate.validity.end())
            .filter(|end| *end > at)
            .min()
    }

    pub(crate) fn skipped(&self) -> &[String] {
        &self.skipped
    }

    pub(crate) fn shares_certificate_with(&self, other: &Self) -> bool {
        let has = |one: &CaCertificate| {
            let mut others = other.certificates.iter();
            others.any(|other| other.certificate == one.certificate)
        };
        self.certificates.iter().any(has)
    }
}

impl CaCertificate {
    fn new(certificate: CertificateDer<'static>) -> Result<Self, String> {
        RootCertStore::empty()
            .add(certificate.clone())
            .map_err(|error| error.to_string())?;
        let validity = validity(&certificate)?;
        Ok(Self {
            certificate,
            validity,
        })
    }
}

/// Fails without certificates.
fn verifier(
    certificates: &[CaCertificate],
) -> Result<Arc<dyn ClientCertVerifier>, VerifierBuilderError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates.iter().map(|one| one.certificate.clone()));
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

    fn set_validity(params: &mut CertificateParams, from: u64, until: u64) {
        let time = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        (params.not_before, params.not_after) = (time(from).into(), time(until).into());
    }

    /// A CA certificate with this validity in PEM, and a client certificate from it that is valid
    /// for longer.
    fn ca(from: u64, until: u64) -> (String, PeerCertificates) {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, format!("from {from}"));
        set_validity(&mut params, from, until);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        let mut client = CertificateParams::new(["client".to_owned()]).unwrap();
        set_validity(&mut client, 0, 100_000);
        let client = client
            .signed_by(&KeyPair::generate().unwrap(), &Issuer::new(params, key))
            .unwrap();
        (pem, PeerCertificates([client.der().clone()].into()))
    }

    #[test]
    fn a_ca_certificate_is_trusted_within_its_validity_only() {
        let ((short, of_short), (long, of_long)) = (ca(1000, 2000), ca(500, 9000));
        let both = CaBundle::parse(&(short.clone() + &long)).unwrap();
        for (at, by_short, by_long) in [
            (499, false, false),
            (999, false, true),
            (1000, true, true),
            (2000, true, true),
            (2001, false, true),
            (9001, false, false),
        ] {
            let verifies = |chain| both.verify(chain, seconds(at)).is_ok();
            let found = (verifies(&of_short), verifies(&of_long));
            assert_eq!(found, (by_short, by_long), "at {at}");
        }
        let alone = CaBundle::parse(&short).unwrap();
        assert!(alone.verify(&of_short, seconds(2001)).is_err());
    }

    #[test]
    fn the_next_expiry_is_the_earliest_one_after_now() {
        let both = CaBundle::parse(&(ca(1000, 2000).0 + &ca(500, 9000).0)).unwrap();
        for (at, expected) in [
            (0, Some(2000)),
            (1999, Some(2000)),
            (2000, Some(9000)),
            (9000, None),
        ] {
            let found = both.next_expiry(seconds(at));
            assert_eq!(found, expected.map(seconds), "at {at}");
        }
    }
}
