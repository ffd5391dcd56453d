//! Verification of a served certificate against its clients' CA bundle, as in a TLS handshake.
//!
//! As in Go, and so in the API server, a CA counts only while valid. `webpki` does not check that.

use std::sync::Arc;
use std::time::SystemTime;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::aws_lc_rs;
use rustls::{CertificateError, RootCertStore};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use super::issue::Certificate;
use super::seconds;

/// The result of verifying the served certificate as its clients do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verification {
    /// The CA bundle of the clients is not known.
    Unknown,
    /// The clients accept it.
    Verified,
    /// The clients reject it by a bundle that may be outdated and should be read again.
    Suspect,
    /// The clients reject it.
    Failed,
}

/// Returns why clients that connect to `name` and trust `bundle` (PEM) reject `chain`, the leaf
/// first; `None` if they accept it.
pub(super) fn verification_error(
    chain: &[Certificate],
    bundle: &str,
    name: &str,
    now: SystemTime,
) -> Option<String> {
    let Some((leaf, others)) = chain.split_first() else {
        return Some("there is no certificate".to_owned());
    };
    let trusted = Certificate::read_all(bundle);
    if trusted.is_empty() {
        return Some("the CA bundle is empty".to_owned());
    }
    let now_seconds = seconds(now);
    if trusted.iter().any(|one| one.der == leaf.der) {
        // A trusted leaf needs no CA: the API server accepts it even if it is marked as a CA.
        let is_named = leaf.names.iter().any(|own| own == name);
        return match (leaf.is_valid(now_seconds), is_named) {
            (false, _) => Some(reason(&CertificateError::Expired, name)),
            (true, false) => Some(reason(&CertificateError::NotValidForName, name)),
            (true, true) => None,
        };
    }
    let is_valid = |one: &Certificate| one.is_valid(now_seconds);
    let (valid, invalid): (Vec<_>, Vec<_>) = trusted.into_iter().partition(is_valid);
    let is_issuer = |authority: &&Certificate| chain.iter().any(|one| one.is_signed_by(authority));
    let unknown = || match invalid.iter().find(is_issuer) {
        Some(authority) if authority.not_before > now_seconds => {
            "the CA certificate is not valid yet".to_owned()
        }
        Some(_) => "the CA certificate has expired".to_owned(),
        None => reason(&CertificateError::UnknownIssuer, name),
    };
    if valid.is_empty() {
        return Some(unknown());
    }
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(valid.into_iter().map(|one| one.der));
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
    let verifier = match builder.build() {
        Ok(verifier) => verifier,
        Err(error) => return Some(error.to_string()),
    };
    let Ok(server) = ServerName::try_from(name) else {
        return Some(format!("{name:?} is not a DNS name"));
    };
    let others: Vec<CertificateDer<'_>> = others.iter().map(|one| one.der.clone()).collect();
    let now = now.duration_since(SystemTime::UNIX_EPOCH);
    let now = UnixTime::since_unix_epoch(now.unwrap_or_default());
    let result = verifier.verify_server_cert(&leaf.der, &others, &server, &[], now);
    Some(match result.err()? {
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => unknown(),
        rustls::Error::InvalidCertificate(error) => reason(&error, name),
        other => other.to_string(),
    })
}

/// A constant text per kind of error, without the times of the library's messages, so that a
/// lasting error is logged once.
fn reason(error: &CertificateError, name: &str) -> String {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the certificate has expired".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the certificate is not valid yet".to_owned()
        }
        CertificateError::UnknownIssuer => "no trusted CA signed the certificate".to_owned(),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("the certificate is not valid for {name}")
        }
        other => other.to_string(),
    }
}

/// A certificate chain that a server presents, as a diagnosis tool reads it: the server's certificate
/// first, without a private key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedChain(Vec<Certificate>);

impl ServedChain {
    /// Parses a PEM text; `None` without a valid certificate.
    pub fn read(pem: &str) -> Option<Self> {
        let chain = Certificate::read_all(pem);
        (!chain.is_empty()).then_some(Self(chain))
    }

    /// The end of the first certificate to expire, in seconds since 1970.
    pub fn not_after(&self) -> i64 {
        let ends = self.0.iter().map(|certificate| certificate.not_after);
        ends.min().unwrap_or_default()
    }

    /// Returns why a client that connects to `name` and trusts `bundle` (PEM) rejects the chain;
    /// `None` if it accepts it.
    pub fn rejection(&self, bundle: &str, name: &str, now: SystemTime) -> Option<String> {
        verification_error(&self.0, bundle, name, now)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::issue::join;
    use super::super::seconds;
    use super::super::tests::{DAY, NAME, authority, begin, leaf_of};
    use super::*;

    /// Half a day after the beginning.
    const SOON: Duration = Duration::from_hours(12);
    const OTHER_NAME: &str = "the certificate is not valid for other";
    const EXPIRED: &str = "the certificate has expired";

    #[track_caller]
    fn check(
        chain: &[Certificate],
        bundle: &str,
        name: &str,
        after: Duration,
        expected: Option<&str>,
    ) {
        let found = verification_error(chain, bundle, name, begin() + after);
        assert_eq!(found.as_deref(), expected);
    }

    #[test]
    fn a_certificate_is_taken_from_a_trusted_authority_for_its_names_and_in_its_time() {
        let (one, other) = (authority(begin(), 10), authority(begin(), 10));
        let chain = [leaf_of(&one, begin(), 1).certificate];
        let (trusted, foreign) = (one.certificate.pem.clone(), other.certificate.pem.clone());
        let both = format!("{foreign}nonsense\n{trusted}");
        let (unknown, none) = (
            "no trusted CA signed the certificate",
            "the CA bundle is empty",
        );
        let unnamed = "\"\" is not a DNS name";
        check(&chain, &trusted, NAME, SOON, None);
        check(&chain, &both, "127.0.0.1", SOON, None);
        check(&chain, &foreign, NAME, SOON, Some(unknown));
        check(&chain, &trusted, "other", SOON, Some(OTHER_NAME));
        check(&chain, &trusted, NAME, DAY * 2, Some(EXPIRED));
        check(&chain, "", NAME, SOON, Some(none));
        check(&chain, "nonsense", NAME, SOON, Some(none));
        check(&chain, &trusted, "", SOON, Some(unnamed));
        check(&[], &trusted, NAME, SOON, Some("there is no certificate"));
    }

    #[test]
    fn a_certificate_that_is_trusted_itself_needs_no_authority() {
        let leaf = leaf_of(&authority(begin(), 10), begin(), 1).certificate;
        let bundle = leaf.pem.clone();
        let chain = [leaf];
        check(&chain, &bundle, NAME, SOON, None);
        check(&chain, &bundle, "other", SOON, Some(OTHER_NAME));
        check(&chain, &bundle, NAME, DAY * 2, Some(EXPIRED));
    }

    #[test]
    fn a_ca_counts_only_while_it_is_valid() {
        // The leaf outlives its authority, which is valid for ten days.
        let own = authority(begin(), 10);
        let chain = [leaf_of(&own, begin(), 90).certificate];
        let (bundle, ended) = (own.certificate.pem, "the CA certificate has expired");
        check(&chain, &bundle, NAME, DAY * 9, None);
        check(&chain, &bundle, NAME, DAY * 11, Some(ended));
    }

    #[test]
    fn the_first_end_counts_and_another_ca_rejects_the_chain() {
        let (own, other) = (authority(begin(), 10), authority(begin(), 10));
        let leaf = leaf_of(&own, begin(), 1).certificate;
        let pem = join(&[leaf.clone(), own.certificate.clone()]);
        let chain = ServedChain::read(&pem).expect("a chain");
        assert_eq!(chain.not_after(), leaf.not_after);
        assert!(chain.not_after() > seconds(begin()));
        let now = begin() + Duration::from_hours(12);
        assert_eq!(chain.rejection(&own.certificate.pem, NAME, now), None);
        assert_eq!(
            chain
                .rejection(&other.certificate.pem, NAME, now)
                .as_deref(),
            Some("no trusted CA signed the certificate")
        );
        assert_eq!(ServedChain::read("no certificate"), None);
    }
}
