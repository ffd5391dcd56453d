//! The source of a server's certificates: self-managed in a Secret, or files.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Context as _;

use super::issue::Certificate;
use super::{ManagedConfig, ManagedTls};
use crate::tls::{CurrentServerTls, Reload, ServingProfile, ServingTls, TlsFiles};
use runtime::api_server_clock::{ApiServerClock, steady};

/// Interval between two comparisons of the files.
const FILE_PERIOD: Duration = Duration::from_secs(1);
/// Retry interval of loading the certificates.
const RETRY: Duration = Duration::from_secs(2);

pub enum Source {
    Managed(Box<ManagedConfig>),
    /// From files that another program maintains.
    Files(Files),
}

#[derive(Debug, Clone)]
pub struct Files {
    pub files: TlsFiles,
    /// The CA bundle for clients; `None` where another program maintains it.
    pub authorities: Option<PathBuf>,
    pub follow: bool,
    pub serving: ServingProfile,
}

pub enum Certificates {
    Managed(Box<ManagedTls>),
    /// From files that another program maintains.
    Files {
        tls: ServingTls,
        /// The file of the CA bundle for clients.
        authorities: Option<PathBuf>,
        /// The CA bundle as last read.
        bundle: Option<String>,
        follow: bool,
        last_error: Option<String>,
    },
}

impl Source {
    /// Loads the certificates. Self-managed ones are retried until the API server responds; files
    /// must exist. `clock` is set by the client that reads the Secret.
    pub async fn get(self, clock: &ApiServerClock) -> anyhow::Result<Certificates> {
        match self {
            Self::Managed(managed) => loop {
                match ManagedTls::start((*managed).clone(), clock).await {
                    Ok(tls) => return Ok(Certificates::Managed(Box::new(tls))),
                    Err(error) => {
                        let error = format_args!("{error:#}");
                        tracing::warn!(%error, "cannot load certificates; retrying");
                    }
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
                    .context("cannot load the serving certificate")?;
                // An empty file is ignored: the bundle that clients have is better.
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
        .with_context(|| format!("cannot read the CA bundle {}", path.display()))
}

impl Certificates {
    /// The TLS configuration for the next handshake.
    pub fn current(&self) -> CurrentServerTls {
        match self {
            Self::Managed(tls) => tls.current(),
            Self::Files { tls, .. } => tls.current(),
        }
    }

    /// The CA bundle for clients; `None` where another program maintains it.
    pub fn bundle(&self) -> Option<String> {
        match self {
            Self::Managed(tls) => Some(tls.bundle()),
            Self::Files { bundle, .. } => bundle.clone(),
        }
    }

    pub fn are_managed(&self) -> bool {
        matches!(self, Self::Managed(_))
    }

    /// The served chain, leaf first.
    pub(super) fn chain(&self) -> Vec<Certificate> {
        match self {
            Self::Managed(tls) => tls.in_use.chain.clone(),
            Self::Files { tls, .. } => Certificate::read_all(&tls.certificate()),
        }
    }

    /// The expiry of the server certificate and of the current CA, in seconds since 1970, if known.
    pub(super) fn expiry(&self) -> [Option<i64>; 2] {
        let authorities = match self {
            Self::Managed(tls) => tls.in_use.authorities.clone(),
            Self::Files { bundle, .. } => {
                Certificate::read_all(bundle.as_deref().unwrap_or_default())
            }
        };
        [self.chain(), authorities].map(|chain| chain.first().map(|one| one.not_after))
    }

    /// The interval between two calls of [`Certificates::refresh`].
    pub fn period(&self) -> Duration {
        match self {
            Self::Managed(tls) => tls.period(),
            Self::Files { .. } => FILE_PERIOD,
        }
    }

    /// Rotates or reloads the certificates at `now`, the API server's time. `registered` is the CA
    /// bundle that clients have, if known.
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
                // Unusable files fail every reload and are logged once.
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
                    return Err(error).context("keeping the previous certificate");
                }
            }
        }
        Ok(())
    }
}
