//! Self-managed certificates of a server: a CA and a server certificate in a Secret that all
//! replicas share. They are rotated without a failed connection.
//!
//! The controller of the clients' CA bundle calls [`ManagedTls::tick`] periodically. It writes
//! [`ManagedTls::bundle`] to the object that clients read, and passes the bundle that it found
//! there to the next tick. The order of a rotation is in `rotation`: the bundle first, then the
//! server certificate. During a rotation the server also presents its new CA cross-signed by the
//! old one, so that clients with the old bundle still trust it.
//!
//! Writes carry the resource version that they are based on: of several replicas one succeeds and
//! the others follow. When the Secret is deleted or damaged, the certificates in use are restored,
//! because clients trust these already.
//!
//! All times are those of [`runtime::ApiServerClock`], since the API server checks the certificates
//! by its own clock.

mod args;
mod certificate_set;
mod feed;
mod issue;
mod monitor;
mod rotation;
mod source;
#[cfg(test)]
mod tests;
mod verification;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result, anyhow};
use arc_swap::ArcSwap;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use rustls::ServerConfig;

use crate::tls::{self, CurrentServerTls, ServingProfile, server_config};
use certificate_set::{CertificateSet, StoredSecret};
use issue::{Certificate, Side};
use runtime::api_server_clock::ApiServerClock;

pub use args::{SecurePortArgs, TlsArgs};
pub use feed::FeedCertificates;
pub use monitor::{CertificateMetrics, CertificateMonitor, ObservedCaBundle};
pub use rotation::RotationPolicy;
use rotation::{RotationStep, StepInterval, step, whole_seconds};
pub use source::{Certificates, Files, Source};
pub use verification::{ServedChain, Verification};

/// The maximum number of steps per tick. A new Secret takes two.
const STEPS: u32 = 4;
/// The maximum number of older CAs that are kept when one is added, in addition to the issuer of
/// the certificate in use. Usually there is one.
const MOST_FORMER_AUTHORITIES: usize = 4;

#[derive(Clone)]
pub struct ManagedConfig {
    pub secrets: Api<Secret>,
    pub secret: String,
    /// The prefix of the CA's common name.
    pub authority: String,
    /// DNS names and IP addresses of the server.
    pub names: Vec<String>,
    pub profile: RotationPolicy,
    pub serving: ServingProfile,
}

impl ManagedConfig {
    /// Certificates of `program` for `names`, kept in `secret` of its own namespace, and rotated by
    /// the default policy.
    pub fn new(
        client: kube::Client,
        own_namespace: &str,
        secret: String,
        program: &str,
        names: Vec<String>,
        serving: ServingProfile,
    ) -> Self {
        Self {
            secrets: Api::namespaced(client, own_namespace),
            secret,
            authority: format!("plimsoll {program}"),
            names,
            profile: RotationPolicy::default(),
            serving,
        }
    }
}

pub struct ManagedTls {
    managed: ManagedConfig,
    /// The Secret as last read or written.
    stored: StoredSecret,
    /// The served certificate and its CAs.
    in_use: CertificateSet,
    current: Arc<ArcSwap<ServerConfig>>,
    /// The current CA, if it is in the clients' bundle, and the time since which it is.
    in_place: Option<(Certificate, Instant)>,
    step_interval: StepInterval,
    /// The file of [`ServingProfile::client_authorities`] as last used.
    client_authorities: Option<Vec<u8>>,
}

impl ManagedTls {
    /// Reads the Secret and issues the certificates that are missing.
    pub async fn start(managed: ManagedConfig, clock: &ApiServerClock) -> Result<Self> {
        let mut stored = StoredSecret::read(&managed).await?;
        // The response has set the clock.
        let now = seconds(clock.now());
        for _ in 0..STEPS {
            let step = step(
                &stored.contents,
                None,
                &managed.names,
                &managed.profile,
                now,
                None,
            );
            if stored.contents.served().is_some() && step == RotationStep::Keep {
                let client_authorities = read_client_authorities(&managed.serving).await?;
                let config = config(
                    &managed.serving,
                    &stored.contents,
                    client_authorities.as_deref(),
                )?;
                let current = Arc::new(ArcSwap::from_pointee(config));
                let (in_use, step_interval) = (stored.contents.clone(), StepInterval::default());
                return Ok(Self {
                    managed,
                    stored,
                    in_use,
                    current,
                    in_place: None,
                    step_interval,
                    client_authorities,
                });
            }
            let contents = changed(&managed, &stored.contents, None, step, clock.now())?;
            (_, stored) = write(&managed, stored, step, contents).await?;
        }
        Err(unusable(&managed.secret))
    }

    /// Reads the Secret, takes the rotation steps that are due, and serves the resulting
    /// certificate. `registered` is the CA bundle that clients have, if known. `now` is the API
    /// server's time, `steady` the monotonic time.
    pub async fn tick(
        &mut self,
        registered: Option<&str>,
        now: SystemTime,
        steady: Instant,
    ) -> Result<()> {
        let replaced = self.replace(registered, now, steady).await;
        self.follow_client_authorities().await?;
        replaced
    }

    async fn replace(
        &mut self,
        registered: Option<&str>,
        now: SystemTime,
        steady: Instant,
    ) -> Result<()> {
        self.follow(StoredSecret::read(&self.managed).await?, seconds(now))?;
        for _ in 0..STEPS {
            let in_place_for = self.in_place_for(registered, steady);
            let step = step(
                &self.stored.contents,
                Some(&self.in_use),
                &self.managed.names,
                &self.managed.profile,
                seconds(now),
                in_place_for,
            );
            // Restoring a lost Secret is not rate limited.
            let may = !self.stored.contents.is_complete()
                || self
                    .step_interval
                    .allows(step, &self.managed.profile, steady);
            if step == RotationStep::Keep || !may {
                return Ok(());
            }
            let contents = changed(
                &self.managed,
                &self.stored.contents,
                Some(&self.in_use),
                step,
                now,
            )?;
            let (written, stored) =
                write(&self.managed, self.stored.clone(), step, contents).await?;
            if written {
                self.step_interval.took(step, steady);
            }
            self.follow(stored, seconds(now))?;
        }
        Ok(())
    }

    async fn follow_client_authorities(&mut self) -> Result<()> {
        let found = read_client_authorities(&self.managed.serving).await?;
        if found != self.client_authorities {
            let config = config(&self.managed.serving, &self.in_use, found.as_deref())?;
            self.current.store(Arc::new(config));
            self.client_authorities = found;
            tracing::info!("using new client CAs");
        }
        Ok(())
    }

    /// The interval between two calls of [`ManagedTls::tick`].
    pub fn period(&self) -> Duration {
        self.managed.profile.tick
    }

    /// The CA bundle for clients, in PEM. It contains the issuer of the served certificate.
    pub fn bundle(&self) -> String {
        self.in_use.bundle()
    }

    /// The TLS configuration for the next handshake.
    pub fn current(&self) -> CurrentServerTls {
        let current = Arc::clone(&self.current);
        Arc::new(move || current.load_full())
    }

    /// Adopts the stored certificates. Keeps the ones in use if the stored ones are incomplete, or
    /// if they are not valid at `now` while the ones in use are.
    fn follow(&mut self, stored: StoredSecret, now: i64) -> Result<()> {
        let (old, new) = (&self.in_use, &stored.contents);
        if new.is_complete() && (new.is_valid(now) || !old.is_valid(now)) {
            if (&old.chain, &old.key) != (&new.chain, &new.key) {
                let config = config(
                    &self.managed.serving,
                    new,
                    self.client_authorities.as_deref(),
                )?;
                self.current.store(Arc::new(config));
                tracing::info!(secret = self.managed.secret, "using a new certificate");
            }
            self.in_use = new.clone();
        }
        self.stored = stored;
        Ok(())
    }

    fn in_place_for(&mut self, registered: Option<&str>, now: Instant) -> Option<Duration> {
        let authority = self.stored.contents.authorities.first()?;
        if !registered.is_some_and(|bundle| Certificate::read_all(bundle).contains(authority)) {
            self.in_place = None;
            return None;
        }
        match &self.in_place {
            Some((seen, since)) if seen == authority => Some(now.saturating_duration_since(*since)),
            _ => {
                self.in_place = Some((authority.clone(), now));
                Some(Duration::ZERO)
            }
        }
    }
}

const CANNOT_ISSUE: &str = "cannot issue a certificate";

fn failed(name: &str, error: &kube::Error) -> anyhow::Error {
    anyhow!("secret {name}: {error}")
}

/// Other writers keep changing the Secret, or it never becomes usable.
fn unusable(name: &str) -> anyhow::Error {
    anyhow!("secret {name} has no usable certificate")
}

fn seconds(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    whole_seconds(since.unwrap_or_default())
}

/// Stores the certificates after a step. Returns whether that succeeded, and the Secret then.
async fn write(
    managed: &ManagedConfig,
    stored: StoredSecret,
    step: RotationStep,
    contents: CertificateSet,
) -> Result<(bool, StoredSecret)> {
    let (written, stored) = stored.write(managed, contents).await?;
    match step {
        _ if !written => {}
        RotationStep::Restore => {
            tracing::warn!(
                secret = managed.secret,
                "the certificates in the Secret were lost or are not valid; restored the ones in use"
            );
        }
        step => tracing::info!(secret = managed.secret, ?step, "rotated certificates"),
    }
    Ok((written, stored))
}

/// Returns the certificates after a step.
fn changed(
    managed: &ManagedConfig,
    old: &CertificateSet,
    in_use: Option<&CertificateSet>,
    step: RotationStep,
    now: SystemTime,
) -> Result<CertificateSet> {
    let ManagedConfig {
        authority,
        names,
        profile,
        ..
    } = managed;
    let mut new = old.clone();
    match step {
        RotationStep::Keep => {}
        RotationStep::AddAuthority => {
            let made = issue::authority(authority, now, profile.authority_validity, old.current())
                .context(CANNOT_ISSUE)?;
            let signs = |authority: &Certificate| {
                old.leaf().is_some_and(|leaf| leaf.is_signed_by(authority))
            };
            let mut others = 0;
            new.authorities.retain(|former| {
                others += 1;
                signs(former)
                    || former.not_before <= seconds(now) && others <= MOST_FORMER_AUTHORITIES
            });
            new.authorities.insert(0, made.authority.certificate);
            new.authority_key = Some(made.authority.key);
            new.cross_signed = made.cross_signed;
        }
        RotationStep::ReplaceLeaf => {
            let current = old.current().ok_or_else(|| unusable(&managed.secret))?;
            let leaf = issue::leaf(current, names, Side::Server, now, profile.leaf_validity)
                .context(CANNOT_ISSUE)?;
            // For clients with the previous CA only.
            let cross_signed = old
                .cross_signed
                .clone()
                .filter(|_| old.authorities.len() > 1);
            new.chain = std::iter::once(leaf.certificate)
                .chain(cross_signed)
                .collect();
            new.key = Some(leaf.key);
        }
        RotationStep::RemoveOldAuthorities => {
            new.authorities.truncate(1);
            new.cross_signed = None;
        }
        RotationStep::Restore => new.clone_from(in_use.unwrap_or(old)),
    }
    Ok(new)
}

async fn read_client_authorities(serving: &ServingProfile) -> Result<Option<Vec<u8>>> {
    match &serving.client_authorities {
        Some(path) => tls::read(path).await.map(Some),
        None => Ok(None),
    }
}

fn config(
    serving: &ServingProfile,
    contents: &CertificateSet,
    client_authorities: Option<&[u8]>,
) -> Result<ServerConfig> {
    let path = serving
        .client_authorities
        .as_deref()
        .unwrap_or(Path::new(""));
    let clients = client_authorities
        .map(|pem| tls::roots(pem, path))
        .transpose()?;
    let (chain, key) = contents
        .served()
        .with_context(|| format!("{}: no certificate", path.display()))?;
    server_config(chain, key, clients, serving)
}
