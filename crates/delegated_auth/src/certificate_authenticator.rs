//! Authentication by the certificate of a connection, a front proxy's or a client's.
//!
//! Verifying a chain is expensive, so the result is cached: for a minute, and not beyond the next
//! expiry of a certificate of the chain or of the CA bundles. A change of the configuration
//! invalidates it.

use std::sync::Arc;
use std::time::Duration;

use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use rustls_pki_types::UnixTime;
use serving::tls::PeerCertificates;
use sha2::{Digest as _, Sha256};

use crate::certificate_subject::{Subject, SubjectError, first_expiry, subject};
use crate::config::AuthenticationConfig;
use crate::request_headers::InvalidHeader;
use crate::user::{AuthMethod, User};

/// The largest number of cached verifications.
const CAPACITY: u64 = 4096;

/// The time for which a verification is cached. It bounds the delay after which a CA certificate
/// that becomes valid is trusted.
const TTL: Duration = Duration::from_mins(1);

/// The verification of a chain.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Verification {
    subject: Result<Subject, SubjectError>,
    /// Whether the chain is a front proxy's; `None` if no front proxy is configured.
    pub(crate) front_proxy: Option<Result<(), FrontProxyError>>,
    /// Whether the chain is a client's; `None` if no client CA is configured.
    client: Option<Result<(), rustls::Error>>,
    /// The next expiry of a certificate that the result depends on.
    expires: UnixTime,
}

/// The reason that a chain is not a front proxy's.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum FrontProxyError {
    /// The front proxy CA does not verify it.
    #[error("{0}")]
    Chain(rustls::Error),
    /// Its common name is not an allowed one.
    #[error("the common name {0:?} is not allowed")]
    Name(String),
    /// Its common name cannot be read.
    #[error(transparent)]
    Subject(SubjectError),
}

/// The generation of the configuration, and a digest of the chain.
type Key = (u64, [u8; 32]);

/// Verifies chains and caches the results.
#[derive(Debug)]
pub(crate) struct CertificateAuthenticator(Cache<Key, Arc<Verification>>);

impl Default for CertificateAuthenticator {
    fn default() -> Self {
        let cache = Cache::builder()
            .max_capacity(CAPACITY)
            .time_to_live(TTL)
            .eviction_policy(EvictionPolicy::lru());
        Self(cache.build())
    }
}

impl CertificateAuthenticator {
    pub(crate) fn verify(
        &self,
        config: &AuthenticationConfig,
        chain: &PeerCertificates,
        at: UnixTime,
    ) -> Arc<Verification> {
        let key = (config.generation, digest(chain));
        if let Some(verification) = self.0.get(&key)
            && at < verification.expires
        {
            return verification;
        }
        let verification = Arc::new(verify(config, chain, at));
        self.0.insert(key, Arc::clone(&verification));
        verification
    }
}

impl Verification {
    /// Returns the user of a connection with this chain: the one that the headers name if the chain
    /// is a front proxy's, else the subject of a client's chain. Returns `None` if the chain names
    /// no user, and the reasons if it is not valid.
    pub(crate) fn user(
        &self,
        headers: Result<Option<User>, InvalidHeader>,
    ) -> Result<Option<User>, String> {
        let mut errors = Vec::new();
        match (&self.front_proxy, headers) {
            (Some(Ok(())), Ok(Some(user))) => return Ok(Some(user)),
            (Some(Ok(())), Err(error)) => errors.push(error.to_string()),
            (Some(Err(error)), _) => errors.push(format!("as a front proxy's: {error}")),
            (Some(Ok(())), Ok(None)) | (None, _) => {}
        }
        match (&self.client, &self.subject) {
            (Some(Ok(())), Ok(subject)) if !subject.common_name.is_empty() => {
                return Ok(Some(User {
                    name: subject.common_name.clone(),
                    groups: subject.organizations.clone(),
                    method: AuthMethod::Certificate,
                    ..User::default()
                }));
            }
            (Some(Ok(())), Err(error)) => errors.push(error.to_string()),
            (Some(Err(error)), _) => errors.push(format!("as a client's: {error}")),
            (Some(Ok(())), Ok(_)) | (None, _) => {}
        }
        if errors.is_empty() {
            Ok(None)
        } else {
            Err(errors.join("; "))
        }
    }
}

/// Returns a digest of the whole chain: with other intermediates, the same leaf may be verified
/// differently.
fn digest(chain: &PeerCertificates) -> [u8; 32] {
    let mut digest = Sha256::new();
    for certificate in chain.0.iter() {
        digest.update((certificate.len() as u64).to_be_bytes());
        digest.update(certificate);
    }
    digest.finalize().into()
}

fn verify(config: &AuthenticationConfig, chain: &PeerCertificates, at: UnixTime) -> Verification {
    let subject = subject(chain);
    let (front_proxy, client_ca) = (config.front_proxy.as_ref(), config.client_ca.as_ref());
    // A chain that cannot be read has expired, so it is verified each time.
    let chain_expiry = first_expiry(chain).unwrap_or(at);
    let bundles = [front_proxy.map(|proxy| &proxy.ca), client_ca];
    let expires = bundles
        .into_iter()
        .flatten()
        .filter_map(|bundle| bundle.next_expiry(at))
        .fold(chain_expiry, UnixTime::min);
    let front_proxy = front_proxy.map(|front_proxy| {
        let verified = front_proxy.ca.verify(chain, at);
        verified.map_err(FrontProxyError::Chain)?;
        let subject = subject.clone().map_err(FrontProxyError::Subject)?;
        if front_proxy.allows(&subject.common_name) {
            Ok(())
        } else {
            Err(FrontProxyError::Name(subject.common_name))
        }
    });
    Verification {
        subject,
        front_proxy,
        client: client_ca.map(|bundle| bundle.verify(chain, at)),
        expires,
    }
}
