//! Certificates of a server that looks after them itself: an authority and a certificate in a
//! Secret that all replicas share, replaced in time without a failed connection.
//!
//! Whoever looks after the clients' bundle calls [`ManagedTls::tick`] again and again, puts
//! [`ManagedTls::bundle`] where the clients read it, and says at the next tick what it found there.
//! The order of a replacement is in [`plan`]: the bundle first, then the server's certificate.
//! During it a server also shows its new authority signed by the old one, so that even a client
//! that never heard of the new one goes on trusting it.
//!
//! Writes carry the version that they are based on, so that of several replicas one wins and the
//! others follow. Where the Secret is lost or spoilt, what is in use is put back: clients trust it,
//! and would not trust anything new at once.
//!
//! Times are those of [`runtime::ApiServerClock`], since the API server judges the certificates by
//! its own clock.

mod certificate;
mod certificate_set;
mod expiry;
mod issue;
mod metrics;
mod monitor;
mod plan;
mod secret;
mod source;
#[cfg(test)]
mod tests;
mod verification;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwap;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use rustls::ServerConfig;

use crate::tls::{self, CurrentServerTls, ServingProfile, TlsError, server_config};
use certificate::Certificate;
use certificate_set::CertificateSet;
use runtime::clock::ApiServerClock;
use secret::StoredSecret;

pub use metrics::CertificateMetrics;
pub use monitor::{CertificateMonitor, ObservedCaBundle};
pub use plan::RotationPolicy;
use plan::{RotationStep, StepInterval, step};
pub use source::{Certificates, Expiry, Files, Source};
pub use verification::Verification;

/// Steps that one tick may take. A beginning takes two.
const STEPS: u32 = 4;
/// Authorities that stay when one is added, in addition to that of the certificate in use. Usually
/// there is one.
const MOST_FORMER_AUTHORITIES: usize = 4;

/// Whose certificates, and where they are kept.
#[derive(Clone)]
pub struct ManagedConfig {
    /// The Secrets of the namespace.
    pub secrets: Api<Secret>,
    /// The name of the Secret.
    pub secret: String,
    /// What authorities are called.
    pub authority: String,
    /// DNS names and addresses at which the server is reached.
    pub names: Vec<String>,
    /// When certificates are replaced.
    pub profile: RotationPolicy,
    /// What the server offers its clients.
    pub serving: ServingProfile,
}

/// Certificates in use.
pub struct ManagedTls {
    managed: ManagedConfig,
    /// What was read or written last.
    stored: StoredSecret,
    /// What is served, and the authorities that it comes from.
    in_use: CertificateSet,
    current: Arc<ArcSwap<ServerConfig>>,
    /// The current authority as last seen in the clients' bundle, and the time since then.
    in_place: Option<(Certificate, Instant)>,
    step_interval: StepInterval,
    /// The file of [`ServingProfile::client_authorities`] as last used.
    client_authorities: Option<Vec<u8>>,
}

/// Why certificates cannot be made, read or kept.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The Secret cannot be read or written.
    #[error("secret {name}: {error}")]
    Secret {
        /// Its name.
        name: String,
        /// Why.
        error: Box<kube::Error>,
    },
    /// A certificate cannot be made.
    #[error("cannot make a certificate: {0}")]
    Issue(#[from] rcgen::Error),
    /// A certificate that was just made cannot be read.
    #[error("a new certificate cannot be read")]
    Unreadable,
    /// The clock is beyond what certificates can hold.
    #[error("the clock is out of range")]
    Time,
    /// Certificate and key cannot be served.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Others keep changing the Secret, or it never becomes usable.
    #[error("secret {0} has no usable certificate")]
    Unusable(String),
}

impl ManagedTls {
    /// Reads the Secret, and makes what is missing in it.
    pub async fn start(
        managed: ManagedConfig,
        clock: &ApiServerClock,
    ) -> Result<Self, CertificateError> {
        let mut stored = StoredSecret::read(&managed).await?;
        // The answer has set the clock.
        let now = seconds(clock.now());
        for _ in 0..STEPS {
            if stored.contents.served().is_some()
                && plan_of(&managed, &stored, None, now, None) == RotationStep::Keep
            {
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
            let step = plan_of(&managed, &stored, None, now, None);
            let contents = changed(&managed, &stored.contents, None, step, clock.now())?;
            (_, stored) = write(&managed, stored, step, contents).await?;
        }
        Err(CertificateError::Unusable(managed.secret))
    }

    /// Reads the Secret, takes the steps that are due, and serves the certificate that is there
    /// then. `registered`: the bundle that clients were just seen to have, if that is known. `now`
    /// is the API server's time, `steady` that of the steady clock.
    pub async fn tick(
        &mut self,
        registered: Option<&str>,
        now: SystemTime,
        steady: Instant,
    ) -> Result<(), CertificateError> {
        let replaced = self.replace(registered, now, steady).await;
        self.follow_client_authorities().await?;
        replaced
    }

    async fn replace(
        &mut self,
        registered: Option<&str>,
        now: SystemTime,
        steady: Instant,
    ) -> Result<(), CertificateError> {
        self.follow(StoredSecret::read(&self.managed).await?, seconds(now))?;
        for _ in 0..STEPS {
            let in_place_for = self.in_place_for(registered, steady);
            let step = plan_of(
                &self.managed,
                &self.stored,
                Some(&self.in_use),
                seconds(now),
                in_place_for,
            );
            // A loss is no replacement.
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

    /// Serves by the authorities of clients that are in their file now.
    async fn follow_client_authorities(&mut self) -> Result<(), CertificateError> {
        let found = read_client_authorities(&self.managed.serving).await?;
        if found != self.client_authorities {
            let config = config(&self.managed.serving, &self.in_use, found.as_deref())?;
            self.current.store(Arc::new(config));
            self.client_authorities = found;
            tracing::info!("using new authorities of clients");
        }
        Ok(())
    }

    /// How often [`ManagedTls::tick`] is due.
    pub fn period(&self) -> Duration {
        self.managed.profile.tick
    }

    /// What clients should trust, in PEM: authorities that are stored, and one of which signed what
    /// is served.
    pub fn bundle(&self) -> String {
        self.in_use.bundle()
    }

    /// What the next handshake uses.
    pub fn current(&self) -> CurrentServerTls {
        let current = Arc::clone(&self.current);
        Arc::new(move || current.load_full())
    }

    /// Takes over what is stored. Where that cannot be served or trusted, or is not valid at `now`
    /// while what is in use is, the last certificate stays in use, and its authorities.
    fn follow(&mut self, stored: StoredSecret, now: i64) -> Result<(), CertificateError> {
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

fn plan_of(
    managed: &ManagedConfig,
    stored: &StoredSecret,
    in_use: Option<&CertificateSet>,
    now: i64,
    in_place_for: Option<Duration>,
) -> RotationStep {
    step(
        &stored.contents,
        in_use,
        &managed.names,
        &managed.profile,
        now,
        in_place_for,
    )
}

/// Seconds since 1970, as certificates have them.
fn seconds(time: SystemTime) -> i64 {
    let seconds = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

/// Stores the contents after a step, and hands back whether it did, and the contents that are
/// stored then.
async fn write(
    managed: &ManagedConfig,
    stored: StoredSecret,
    step: RotationStep,
    contents: CertificateSet,
) -> Result<(bool, StoredSecret), CertificateError> {
    let (written, stored) = stored.write(managed, contents).await?;
    match step {
        _ if !written => {}
        RotationStep::Restore => {
            tracing::warn!(
                secret = managed.secret,
                "the certificates were lost or are not valid; the last ones are put back"
            );
        }
        step => tracing::info!(secret = managed.secret, ?step, "certificates have changed"),
    }
    Ok((written, stored))
}

/// The contents after a step.
fn changed(
    managed: &ManagedConfig,
    old: &CertificateSet,
    in_use: Option<&CertificateSet>,
    step: RotationStep,
    now: SystemTime,
) -> Result<CertificateSet, CertificateError> {
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
            let made = issue::authority(authority, now, profile.authority_validity, old.current())?;
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
            let current = old
                .current()
                .ok_or_else(|| CertificateError::Unusable(managed.secret.clone()))?;
            let leaf = issue::leaf(current, names, now, profile.leaf_validity)?;
            // For clients that know the last authority only.
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

async fn read_client_authorities(serving: &ServingProfile) -> Result<Option<Vec<u8>>, TlsError> {
    match &serving.client_authorities {
        Some(path) => tls::read(path).await.map(Some),
        None => Ok(None),
    }
}

/// A server that shows the certificate of `contents`.
fn config(
    serving: &ServingProfile,
    contents: &CertificateSet,
    client_authorities: Option<&[u8]>,
) -> Result<ServerConfig, TlsError> {
    let path = serving
        .client_authorities
        .as_deref()
        .unwrap_or(Path::new(""));
    let clients = client_authorities
        .map(|pem| tls::roots(pem, path))
        .transpose()?;
    let (chain, key) = contents
        .served()
        .ok_or_else(|| TlsError::NoCertificate(path.to_owned()))?;
    server_config(chain, key, clients, serving)
}
