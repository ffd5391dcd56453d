//! Looks after the certificates, and tells the API server whom to trust: the two belong together, since no certificate may
//! change before those who check it know its authority.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::Api;
use runtime::Activity;
use runtime::certificates::{Managed, ManagedTls};
use runtime::tls::{CurrentServerTls, Reload, ServingProfile, ServingTls, TlsFiles};

use crate::act::configuration::{Registered, register};
use crate::metrics::Metrics;
use crate::registration::Registration;

/// How often files are compared with what is served.
const LOOK: Duration = Duration::from_secs(1);
/// How long certificates are waited for before the next try.
const RETRY: Duration = Duration::from_secs(2);
/// How often the registration is compared with what it should be where nothing seems to have changed.
const CHECK: Duration = Duration::from_secs(15);

/// Where certificates come from.
pub enum Source {
    /// They are made here.
    Managed(Box<Managed>),
    /// Somebody puts them into files.
    Files(Files),
}

/// Certificates in files.
#[derive(Debug, Clone)]
pub struct Files {
    /// What is served.
    pub files: TlsFiles,
    /// What the API server is told to trust; none where somebody else tells it.
    pub authorities: Option<PathBuf>,
    /// Whether changes are taken up.
    pub follow: bool,
    /// What is offered to clients.
    pub serving: ServingProfile,
}

/// Certificates in use.
pub enum Certificates {
    /// They are made here.
    Managed(Box<ManagedTls>),
    /// Somebody puts them into files.
    Files {
        /// What is served.
        tls: ServingTls,
        /// Where what the API server is told comes from.
        authorities: Option<PathBuf>,
        /// The same as last read.
        bundle: Option<String>,
        /// Whether changes are taken up.
        follow: bool,
    },
}

impl Source {
    /// Gets the certificates, waiting until the API server or the files give them.
    pub async fn get(self) -> anyhow::Result<Certificates> {
        match self {
            Self::Managed(managed) => loop {
                match ManagedTls::begin((*managed).clone(), SystemTime::now()).await {
                    Ok(tls) => return Ok(Certificates::Managed(Box::new(tls))),
                    Err(error) => tracing::warn!(%error, "waiting for certificates"),
                }
                tokio::time::sleep(RETRY).await;
            },
            Self::Files(Files { files, authorities, follow, serving }) => {
                let tls = ServingTls::load_as(files, serving).await.context("--tls-cert-file and --tls-private-key")?;
                let bundle = match &authorities {
                    Some(path) => Some(read(path).await?),
                    None => None,
                };
                Ok(Certificates::Files { tls, authorities, bundle, follow })
            }
        }
    }
}

async fn read(path: &Path) -> anyhow::Result<String> {
    tokio::fs::read_to_string(path).await.with_context(|| format!("--client-ca-file={}", path.display()))
}

impl Certificates {
    /// What the next handshake uses.
    pub fn current(&self) -> CurrentServerTls {
        match self {
            Self::Managed(tls) => tls.current(),
            Self::Files { tls, .. } => tls.current(),
        }
    }

    /// What the API server should trust; none where somebody else tells it.
    fn bundle(&self) -> Option<String> {
        match self {
            Self::Managed(tls) => Some(tls.bundle()),
            Self::Files { bundle, .. } => bundle.clone(),
        }
    }

    /// Takes up what has changed. `registered`: what the API server was last seen to trust.
    async fn look(&mut self, registered: Option<&str>) -> anyhow::Result<()> {
        match self {
            Self::Managed(tls) => {
                let before = tls.ends();
                tls.tick(registered, SystemTime::now()).await?;
                if tls.ends() != before {
                    tracing::info!("New certificate found, reloading");
                }
            }
            Self::Files { follow: false, .. } => {}
            Self::Files { tls, authorities, bundle, .. } => {
                let reloaded = tls.reload().await;
                if !matches!(reloaded, Reload::Unchanged) {
                    tracing::info!("New certificate found, reloading");
                }
                if let Some(path) = authorities {
                    let found = read(path).await?;
                    if !found.trim().is_empty() {
                        *bundle = Some(found);
                    }
                }
                if let Reload::Kept(error) = reloaded {
                    return Err(error).context("keeping the old certificate");
                }
            }
        }
        Ok(())
    }

    fn period(&self) -> Duration {
        match self {
            Self::Managed(tls) => tls.period(),
            Self::Files { .. } => LOOK,
        }
    }
}

/// Whom the API server is told to trust, and where.
pub struct Attendant {
    /// What is served.
    pub certificates: Certificates,
    /// What is registered, and where; none where somebody else registers.
    pub registration: Option<(Api<MutatingWebhookConfiguration>, Registration)>,
    /// Shows that this goes on.
    pub activity: Activity,
    /// What is measured.
    pub metrics: Metrics,
}

impl Attendant {
    /// Looks after certificates and registration for ever. `registered` is called once the first registration is in place, or at
    /// once where there is none.
    pub async fn run(mut self, registered: impl FnOnce()) {
        let mut registered = Some(registered);
        let mut said = None;
        let mut state = Told::default();
        loop {
            self.activity.record(Instant::now());
            let looked = self.certificates.look(state.trusted.as_deref()).await;
            if let Certificates::Managed(tls) = &self.certificates {
                self.metrics.certificates_end(tls.ends());
            }
            let told = state.tell(&self.certificates, self.registration.as_ref()).await;
            if told.is_ok()
                && let Some(registered) = registered.take()
            {
                registered();
            }
            let trouble = looked.and(told).err().map(|error| format!("{error:#}"));
            if let Some(error) = trouble.as_ref().filter(|_| trouble != said) {
                tracing::warn!(error, "certificates and registration stay as they are; trying on");
            }
            said = trouble;
            tokio::time::sleep(self.certificates.period()).await;
        }
    }
}

/// What the API server was told.
#[derive(Default)]
struct Told {
    /// What it was last seen to trust.
    trusted: Option<String>,
    /// What it was last told to trust.
    bundle: Option<String>,
    checked: Option<Instant>,
}

impl Told {
    async fn tell(
        &mut self,
        certificates: &Certificates,
        registration: Option<&(Api<MutatingWebhookConfiguration>, Registration)>,
    ) -> anyhow::Result<()> {
        let Some((configurations, registration)) = registration else { return Ok(()) };
        let bundle = certificates.bundle();
        let is_new = bundle != self.bundle;
        let is_due = self.checked.is_none_or(|checked| checked.elapsed() >= CHECK);
        // A replacement under way wants to know what is in place.
        if !is_new && !is_due && matches!(certificates, Certificates::Files { .. }) {
            return Ok(());
        }
        let is_change = is_new && self.bundle.is_some();
        if is_change {
            tracing::info!("New client CA found, reloading and patching webhook");
        }
        let Registered { bundle: trusted, changed } =
            register(configurations, registration, bundle.as_deref()).await.context("cannot register the webhook")?;
        if is_change {
            tracing::info!("Successfully patched webhook with new client CA");
        } else if changed {
            tracing::info!("the webhook is registered");
        }
        self.trusted = Some(trusted);
        self.bundle = bundle;
        self.checked = Some(Instant::now());
        Ok(())
    }
}
