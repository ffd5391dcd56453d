//! What the certificate of a connection says about whoever is at its other end. Verifying a chain
//! is dear, so a finding is kept for as long as the authorities stay the same, none of them and no
//! certificate of the chain ends, and a minute at most.

use std::sync::Arc;
use std::time::Duration;

use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use rustls_pki_types::UnixTime;
use serving::tls::PeerCertificates;
use sha2::{Digest as _, Sha256};

use crate::front_proxy::NotText;
use crate::subject::{Subject, SubjectError, first_end, subject};
use crate::trust::Trust;
use crate::user::{User, Via};

/// Chains whose findings are kept.
const CAPACITY: u64 = 4096;

/// How long a finding is kept: authorities have a beginning too.
const KEPT: Duration = Duration::from_mins(1);

/// What a chain of certificates says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Finding {
    /// Whom it is about.
    pub(crate) subject: Result<Subject, SubjectError>,
    /// Whether it is a front proxy's; none where there is no front proxy.
    pub(crate) is_front_proxy: Option<Result<(), NotProxy>>,
    /// Whether it is an ordinary client's; none where clients have no certificates.
    pub(crate) is_client: Option<Result<(), rustls::Error>>,
    /// When the first certificate of the chain, or the next authority, ends.
    end: UnixTime,
}

/// Why a chain is not a front proxy's.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum NotProxy {
    /// It does not come from the front proxy's authorities, or is not to be used now or for this.
    #[error("{0}")]
    Chain(rustls::Error),
    /// Its name is not among those that front proxies have.
    #[error("the common name {0:?} is not allowed")]
    Name(String),
    /// Its name cannot be read.
    #[error(transparent)]
    Unreadable(SubjectError),
}

/// The authorities, and a digest of the chain.
type Key = (u64, [u8; 32]);

/// Findings that are kept.
#[derive(Debug)]
pub(crate) struct Peers(Cache<Key, Arc<Finding>>);

impl Default for Peers {
    fn default() -> Self {
        Self(
            Cache::builder()
                .max_capacity(CAPACITY)
                .time_to_live(KEPT)
                .eviction_policy(EvictionPolicy::lru())
                .build(),
        )
    }
}

impl Peers {
    /// What the chain says to those who trust these.
    pub(crate) fn judge(
        &self,
        trust: &Trust,
        chain: &PeerCertificates,
        at: UnixTime,
    ) -> Arc<Finding> {
        let key = (trust.generation, digest(chain));
        if let Some(finding) = self.0.get(&key)
            && at < finding.end
        {
            return finding;
        }
        let finding = Arc::new(find(trust, chain, at));
        self.0.insert(key, Arc::clone(&finding));
        finding
    }
}

impl Finding {
    /// The user that a connection with this chain speaks for. `named`: the one that its headers
    /// name, which counts if the chain is a front proxy's. None if nobody is to be recognised by
    /// it; an error if it is not what it should be.
    pub(crate) fn user(
        &self,
        named: Result<Option<User>, NotText>,
    ) -> Result<Option<User>, String> {
        let mut errors = Vec::new();
        match (&self.is_front_proxy, named) {
            (Some(Ok(())), Ok(Some(user))) => return Ok(Some(user)),
            (Some(Ok(())), Err(error)) => errors.push(error.to_string()),
            (Some(Err(error)), _) => errors.push(format!("as a front proxy's: {error}")),
            (Some(Ok(())), Ok(None)) | (None, _) => {}
        }
        match (&self.is_client, &self.subject) {
            (Some(Ok(())), Ok(subject)) if !subject.common_name.is_empty() => {
                let Subject {
                    common_name,
                    organizations,
                } = subject.clone();
                let via = Via::Certificate;
                return Ok(Some(User {
                    name: common_name,
                    groups: organizations,
                    via,
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

/// Of the whole chain: with other certificates beside it, the same leaf may have another standing.
fn digest(chain: &PeerCertificates) -> [u8; 32] {
    let mut digest = Sha256::new();
    for certificate in chain.0.iter() {
        digest.update((certificate.len() as u64).to_be_bytes());
        digest.update(certificate);
    }
    digest.finalize().into()
}

fn find(trust: &Trust, chain: &PeerCertificates, at: UnixTime) -> Finding {
    let subject = subject(chain);
    let is_front_proxy = trust.front_proxy.as_ref().map(|proxy| {
        proxy
            .authorities
            .vouch_for(chain, at)
            .map_err(NotProxy::Chain)?;
        let name = &subject
            .as_ref()
            .map_err(|error| NotProxy::Unreadable(error.clone()))?
            .common_name;
        if proxy.allows(name) {
            Ok(())
        } else {
            Err(NotProxy::Name(name.clone()))
        }
    });
    let is_client = trust
        .clients
        .as_ref()
        .map(|clients| clients.vouch_for(chain, at));
    // What cannot be read has ended: it is looked at again each time.
    let end = first_end(chain).unwrap_or(at);
    let proxies = trust.front_proxy.as_ref().map(|proxy| &proxy.authorities);
    let ends = [proxies, trust.clients.as_ref()]
        .into_iter()
        .flatten()
        .filter_map(|authorities| authorities.next_end(at));
    let end = ends.fold(end, UnixTime::min);
    Finding {
        subject,
        is_front_proxy,
        is_client,
        end,
    }
}
