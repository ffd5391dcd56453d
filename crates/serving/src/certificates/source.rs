//! Where a server's certificates come from: it makes them itself, or somebody puts them into files.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Context as _;

use super::certificate::Certificate;
use super::{ManagedConfig, ManagedTls};
use crate::tls::{CurrentServerTls, Reload, ServingProfile, ServingTls, TlsFiles};
use runtime::clock::{ApiServerClock, steady};

/// How often files are compared with what is served.
const FILE_PERIOD: Duration = Duration::from_secs(1);
/// How long certificates are waited for before the next try.
const RETRY: Duration = Duration::from_secs(2);

/// Where certificates come from.
pub enum Source {
    /// They are made here.
    Managed(Box<ManagedConfig>),
    /// Somebody puts them into files.
    Files(Files),
}

/// Certificates in files.
#[derive(Debug, Clone)]
pub struct Files {
    /// What is served.
    pub files: TlsFiles,
    /// What clients are told to trust; none where somebody else tells them.
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
        /// Where what clients are told to trust comes from.
        authorities: Option<PathBuf>,
        /// The same as last read.
        bundle: Option<String>,
        /// Whether changes are taken up.
        follow: bool,
        /// Why the files, as they are now, cannot be served.
        last_error: Option<String>,
    },
}

/// When certificates end, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expiry {
    /// That of the server.
    pub server: Option<i64>,
    /// The authority in front, where it is known.
    pub authority: Option<i64>,
}

impl Source {
    /// Gets the certificates, waiting until the API server gives them; files must be there. `clock`
    /// is set by the client that reads the Secret.
    pub async fn get(self, clock: &ApiServerClock) -> anyhow::Result<Certificates> {
        match self {
            Self::Managed(managed) => loop {
                match ManagedTls::start((*managed).clone(), clock).await {
                    Ok(tls) => return Ok(Certificates::Managed(Box::new(tls))),
                    Err(error) => tracing::warn!(%error, "waiting for certificates"),
                }
                tokio::time::sleep(RETRY).await;
            },
            Self::Files(Files {
                mut files,
                authorities,
                follow,
                serving,
            }) => {
                files.authorities = files
                    .authorities
                    .or_else(|| serving.client_authorities.clone());
                let tls = ServingTls::load_with(files, serving)
                    .await
                    .context("certificate and private key")?;
                // None where the file is empty: what clients trust so far is better than nobody.
                let bundle = match &authorities {
                    Some(path) => {
                        Some(read(path).await?).filter(|bundle| !bundle.trim().is_empty())
                    }
                    None => None,
                };
                Ok(Certificates::Files {
                    tls,
                    authorities,
                    bundle,
                    follow,
                    last_error: None,
                })
            }
        }
    }
}

async fn read(path: &Path) -> anyhow::Result<String> {
    tokio::fs::read_to_string(path)
        .await
        .with_context(|| format!("authorities in {}", path.display()))
}

impl Certificates {
    /// What the next handshake uses.
    pub fn current(&self) -> CurrentServerTls {
        match self {
            Self::Managed(tls) => tls.current(),
            Self::Files { tls, .. } => tls.current(),
        }
    }

    /// What clients should trust; none where somebody else tells them.
    pub fn bundle(&self) -> Option<String> {
        match self {
            Self::Managed(tls) => Some(tls.bundle()),
            Self::Files { bundle, .. } => bundle.clone(),
        }
    }

    /// Whether they are made here.
    pub fn are_managed(&self) -> bool {
        matches!(self, Self::Managed(_))
    }

    /// What is served, the server's own certificate first.
    pub(super) fn chain(&self) -> Vec<Certificate> {
        match self {
            Self::Managed(tls) => tls.in_use.chain.clone(),
            Self::Files { tls, .. } => Certificate::read_all(&tls.certificate()),
        }
    }

    /// When what is in use ends.
    pub fn expiry(&self) -> Expiry {
        let end = |certificates: &[Certificate]| {
            certificates
                .first()
                .map(|certificate| certificate.not_after)
        };
        let authorities = match self {
            Self::Managed(tls) => tls.in_use.authorities.clone(),
            Self::Files { bundle, .. } => {
                Certificate::read_all(bundle.as_deref().unwrap_or_default())
            }
        };
        Expiry {
            server: end(&self.chain()),
            authority: end(&authorities),
        }
    }

    /// How often [`Certificates::refresh`] is due.
    pub fn period(&self) -> Duration {
        match self {
            Self::Managed(tls) => tls.period(),
            Self::Files { .. } => FILE_PERIOD,
        }
    }

    /// Takes over changes at `now`, the API server's time. `registered`: the bundle that clients
    /// were last seen to trust.
    pub async fn refresh(
        &mut self,
        registered: Option<&str>,
        now: SystemTime,
    ) -> anyhow::Result<()> {
        match self {
            Self::Managed(tls) => {
                let before = tls.in_use.chain.clone();
                tls.tick(registered, now, steady()).await?;
                if tls.in_use.chain != before {
                    tracing::info!("New certificate found, reloading");
                }
            }
            Self::Files { follow: false, .. } => {}
            Self::Files {
                tls,
                authorities,
                bundle,
                last_error,
                ..
            } => {
                let reloaded = tls.reload().await;
                let kept = if let Reload::Kept(error) = &reloaded {
                    Some(error.to_string())
                } else {
                    None
                };
                // Files that cannot be used are found at every look, and last_error once.
                if matches!(reloaded, Reload::Replaced) || kept.is_some() && kept != *last_error {
                    tracing::info!("New certificate found, reloading");
                }
                *last_error = kept;
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
}
