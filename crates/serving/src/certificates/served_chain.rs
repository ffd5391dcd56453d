//! The certificate chain that a server presents, as a diagnosis tool reads it.

use std::time::SystemTime;

use super::certificate::Certificate;
use super::verification::verification_error;

/// A certificate chain, the server's certificate first. It has no private key.
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

    use super::super::tests::{NAME, authority, begin, leaf_of};
    use super::super::{certificate::join, seconds};
    use super::*;

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
