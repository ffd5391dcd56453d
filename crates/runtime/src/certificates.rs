//! Certificates of a server that looks after them itself: an authority and a certificate in a Secret that all replicas share,
//! replaced in time without a failed connection.
//!
//! Whoever looks after the clients' bundle calls [`ManagedTls::tick`] again and again, puts [`ManagedTls::bundle`] where the
//! clients read it, and says at the next tick what it found there. The order of a replacement is in [`plan`]: the bundle
//! first, then the server's certificate. During it a server also shows its new authority signed by the old one, so that even
//! a client that never heard of the new one goes on trusting it.
//!
//! Writes carry the version that they are based on, so that of several replicas one wins and the others follow. Where the Secret
//! is lost or spoilt, what is in use is put back: clients trust it, and would not trust anything new at once.

mod certificate;
mod contents;
mod ending;
mod issue;
mod metrics;
mod plan;
mod scrutiny;
mod secret;
mod source;
#[cfg(test)]
mod tests;
mod trust;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwap;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use rustls::ServerConfig;

use crate::tls::{CurrentServerTls, ServingProfile, TlsError, server_config};
use certificate::Certificate;
use contents::Contents;
use secret::Stored;

pub use metrics::CertificateMetrics;
pub use plan::Profile;
use plan::{Step, step};
pub use scrutiny::{Clients, Scrutiny, Trust};
pub use source::{Certificates, Ends, Files, Source};

/// Steps that one tick may take. A beginning takes two.
const STEPS: u32 = 4;

/// Whose certificates, and where they are kept.
#[derive(Clone)]
pub struct Managed {
    /// The Secrets of the namespace.
    pub secrets: Api<Secret>,
    /// The name of the Secret.
    pub secret: String,
    /// What authorities are called.
    pub authority: String,
    /// DNS names and addresses at which the server is reached.
    pub names: Vec<String>,
    /// When certificates are replaced.
    pub profile: Profile,
    /// What the server offers its clients.
    pub serving: ServingProfile,
}

/// Certificates in use.
pub struct ManagedTls {
    managed: Managed,
    /// What was read or written last.
    stored: Stored,
    /// What is served, and the authorities that it comes from.
    in_use: Contents,
    current: Arc<ArcSwap<ServerConfig>>,
    /// Since when the current authority has been seen in the clients' bundle.
    in_place: Option<(Certificate, Instant)>,
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
    pub async fn begin(managed: Managed, now: SystemTime) -> Result<Self, CertificateError> {
        let mut stored = Stored::read(&managed).await?;
        for _ in 0..STEPS {
            if let Some((chain, key)) = stored.contents.served()
                && plan_of(&managed, &stored, now, None) == Step::Keep
            {
                let config = server_config(chain, key, None, &managed.serving)?;
                let (in_use, current) = (stored.contents.clone(), Arc::new(ArcSwap::from_pointee(config)));
                return Ok(Self { managed, stored, in_use, current, in_place: None });
            }
            stored = take_step(&managed, stored, now, None).await?;
        }
        Err(CertificateError::Unusable(managed.secret))
    }

    /// Reads the Secret, does what is due, and serves what is there then. `registered`: the bundle that clients were just seen to
    /// have; none where that is not known.
    pub async fn tick(&mut self, registered: Option<&str>, now: SystemTime) -> Result<(), CertificateError> {
        self.follow(Stored::read(&self.managed).await?)?;
        for _ in 0..STEPS {
            if !self.stored.contents.are_whole() {
                self.put_back().await?;
                continue;
            }
            let in_place_for = self.in_place_for(registered, Instant::now());
            if plan_of(&self.managed, &self.stored, now, in_place_for) == Step::Keep {
                return Ok(());
            }
            let stored = take_step(&self.managed, self.stored.clone(), now, in_place_for).await?;
            self.follow(stored)?;
        }
        Ok(())
    }

    /// Has the Secret hold again what is in use, or what somebody else made of it meanwhile.
    async fn put_back(&mut self) -> Result<(), CertificateError> {
        let (written, stored) = self.stored.clone().write(&self.managed, self.in_use.clone()).await?;
        if written {
            tracing::warn!(secret = self.managed.secret, "the certificates were lost and are put back");
        }
        self.follow(stored)
    }

    /// How often [`ManagedTls::tick`] is due.
    pub fn period(&self) -> Duration {
        self.managed.profile.tick
    }

    /// What clients should trust, in PEM: authorities that are stored, and one of which signed what is served.
    pub fn bundle(&self) -> String {
        self.in_use.bundle()
    }

    /// What the next handshake uses.
    pub fn current(&self) -> CurrentServerTls {
        let current = Arc::clone(&self.current);
        Arc::new(move || current.load_full())
    }

    /// Takes over what is stored. Where that cannot be served or trusted, the last certificate stays in use, and its authorities.
    fn follow(&mut self, stored: Stored) -> Result<(), CertificateError> {
        let (old, new) = (&self.in_use, &stored.contents);
        if new.are_whole()
            && let Some((chain, key)) = new.served()
        {
            if (&old.chain, &old.key) != (&new.chain, &new.key) {
                self.current.store(Arc::new(server_config(chain, key, None, &self.managed.serving)?));
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

fn plan_of(managed: &Managed, stored: &Stored, now: SystemTime, in_place_for: Option<Duration>) -> Step {
    let seconds = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    step(&stored.contents, &managed.names, &managed.profile, seconds, in_place_for)
}

/// Does what is due and hands back what is stored then, whoever wrote it.
async fn take_step(
    managed: &Managed,
    stored: Stored,
    now: SystemTime,
    in_place_for: Option<Duration>,
) -> Result<Stored, CertificateError> {
    let step = plan_of(managed, &stored, now, in_place_for);
    let contents = changed(managed, &stored.contents, step, now)?;
    let (written, stored) = stored.write(managed, contents).await?;
    if written {
        tracing::info!(secret = managed.secret, ?step, "certificates have changed");
    }
    Ok(stored)
}

/// The contents after a step.
fn changed(managed: &Managed, old: &Contents, step: Step, now: SystemTime) -> Result<Contents, CertificateError> {
    let Managed { authority, names, profile, .. } = managed;
    let mut new = old.clone();
    match step {
        Step::Keep => {}
        Step::AddAuthority => {
            let made = issue::authority(authority, now, profile.authority_validity, old.current())?;
            new.authorities.insert(0, made.authority.certificate);
            new.authority_key = Some(made.authority.key);
            new.succession = made.signed_by_last;
        }
        Step::ReplaceLeaf => {
            let current = old.current().ok_or_else(|| CertificateError::Unusable(managed.secret.clone()))?;
            let leaf = issue::leaf(current, names, now, profile.leaf_validity)?;
            // For clients that know the last authority only.
            let succession = old.succession.clone().filter(|_| old.authorities.len() > 1);
            new.chain = std::iter::once(leaf.certificate).chain(succession).collect();
            new.key = Some(leaf.key);
        }
        Step::ForgetAuthorities => {
            new.authorities.truncate(1);
            new.succession = None;
        }
    }
    Ok(new)
}
