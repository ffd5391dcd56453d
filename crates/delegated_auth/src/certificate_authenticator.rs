//! Verification of the certificate of a front proxy's connection.
//!
//! Verifying a chain is expensive, so the result is cached: for a minute, and not beyond the next
//! expiry of a certificate of the chain or of the CA bundle. A change of the configuration
//! invalidates it.

use std::time::Duration;

use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use rustls_pki_types::UnixTime;
use serving::tls::PeerCertificates;
use sha2::{Digest as _, Sha256};

use crate::certificate_subject::{common_name, first_expiry};
use crate::config::{AuthenticationConfig, RequestHeaderConfig};

const CAPACITY: u64 = 4096;

/// The time for which a verification is cached. It bounds the delay after which a CA certificate
/// that becomes valid is trusted.
const TTL: Duration = Duration::from_mins(1);

#[derive(Debug, Clone)]
struct Verification {
    /// The error is the reason that the chain is not a front proxy's.
    result: Result<(), String>,
    /// The next expiry of a certificate that the result depends on.
    expires: UnixTime,
}

/// The generation of the configuration, and a digest of the chain.
type Key = (u64, [u8; 32]);

/// Verifies chains and caches the results.
#[derive(Debug)]
pub(crate) struct CertificateAuthenticator(Cache<Key, Verification>);

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
    /// Verifies that a chain is a front proxy's; `None` if no front proxy is configured.
    pub(crate) fn verify(
        &self,
        config: &AuthenticationConfig,
        chain: &PeerCertificates,
        at: UnixTime,
    ) -> Option<Result<(), String>> {
        let front_proxy = config.front_proxy.as_ref()?;
        let key = (config.generation, digest(chain));
        if let Some(verification) = self.0.get(&key)
            && at < verification.expires
        {
            return Some(verification.result);
        }
        // A chain that cannot be read has expired, so it is verified each time.
        let chain_expiry = first_expiry(chain).unwrap_or(at);
        let verification = Verification {
            result: verify(front_proxy, chain, at),
            expires: front_proxy
                .ca
                .next_expiry(at)
                .map_or(chain_expiry, |expiry| expiry.min(chain_expiry)),
        };
        self.0.insert(key, verification.clone());
        Some(verification.result)
    }
}

/// Returns a digest of the whole chain: other intermediates may lead to another result.
fn digest(chain: &PeerCertificates) -> [u8; 32] {
    let mut digest = Sha256::new();
    for certificate in chain.0.iter() {
        digest.update((certificate.len() as u64).to_be_bytes());
        digest.update(certificate);
    }
    digest.finalize().into()
}

fn verify(
    front_proxy: &RequestHeaderConfig,
    chain: &PeerCertificates,
    at: UnixTime,
) -> Result<(), String> {
    let verified = front_proxy.ca.verify(chain, at);
    verified.map_err(|error| error.to_string())?;
    let name = common_name(chain)?;
    if front_proxy.allows(&name) {
        Ok(())
    } else {
        Err(format!("the common name {name:?} is not allowed"))
    }
}
