//! Certificates that follow their files, on the side that serves and on the side that connects.
//!
//! Certificate, key and authorities change together: they are one configuration of `rustls`,
//! swapped whole between two handshakes. Files are compared by content every few seconds, because a
//! kubelet replaces mounted Secrets by moving a symbolic link, which no watch on the file itself
//! reports. A new set that does not fit together (a half-written one, for instance) leaves the old
//! one in place and is tried again.

mod peer;
mod profile;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::crypto::aws_lc_rs;
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_pki_types::pem::{self, PemObject as _};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use peer::AnyClientCertificate;

pub use peer::PeerCertificates;
pub use profile::{CipherSuites, MinTlsVersion, ServingProfile};

/// How often the files are compared with what is served.
pub const RELOAD_PERIOD: Duration = Duration::from_secs(5);

/// Where certificates are read from, all in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The own certificate and its intermediates, leaf first.
    pub certificate: PathBuf,
    /// The own certificate's private key.
    pub private_key: PathBuf,
    /// Authorities that the other side's certificate must come from. A server without them asks its
    /// clients for none; a client needs them.
    pub authorities: Option<PathBuf>,
}

/// Why a set of files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {path}: {error}")]
    Read {
        /// Which one.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A file is not the PEM that it should be.
    #[error("{path}: {error}")]
    Pem {
        /// Which one.
        path: PathBuf,
        /// Why.
        error: pem::Error,
    },
    /// A file holds no certificate.
    #[error("{0}: no certificate")]
    NoCertificate(PathBuf),
    /// The certificate and key do not fit together or cannot be used.
    #[error("certificate or private key: {0}")]
    Pair(#[from] rustls::Error),
    /// The client authorities cannot be used.
    #[error("client certificate authority: {0}")]
    ClientCa(#[from] VerifierBuilderError),
    /// A client must not trust everybody.
    #[error("no authorities of servers")]
    NoAuthorities,
}

/// What a comparison with the files did.
#[derive(Debug)]
pub enum Reload {
    /// The files are those in use.
    Unchanged,
    /// New handshakes use the new files.
    Replaced,
    /// The new files cannot be used; the old ones stay.
    Kept(TlsError),
}

/// What the next handshake of a server uses.
pub type CurrentServerTls = Arc<dyn Fn() -> Arc<ServerConfig> + Send + Sync>;

/// The certificates of a server.
pub type ServingTls = FileTls<ServerConfig>;

/// The certificates of a client, with the authorities of its servers.
pub type ClientTls = FileTls<ClientConfig>;

/// The certificates in use. Clones share them.
#[derive(Clone)]
pub struct FileTls<C> {
    files: Arc<TlsFiles>,
    configure: Arc<Configure<C>>,
    current: Arc<ArcSwap<LoadedFiles<C>>>,
}

type Configure<C> = dyn Fn(&FileContents, &TlsFiles) -> Result<C, TlsError> + Send + Sync;

struct LoadedFiles<C> {
    contents: FileContents,
    config: Arc<C>,
}

#[derive(Clone, PartialEq, Eq)]
struct FileContents {
    certificate: Vec<u8>,
    private_key: Vec<u8>,
    authorities: Option<Vec<u8>>,
}

impl<C> fmt::Debug for FileTls<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileTls")
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

impl ServingTls {
    /// Reads the files for the first time; they must fit together.
    pub async fn load(files: TlsFiles) -> Result<Self, TlsError> {
        Self::load_with(files, ServingProfile::default()).await
    }

    /// The same, with a say in what is offered to clients.
    pub async fn load_with(files: TlsFiles, profile: ServingProfile) -> Result<Self, TlsError> {
        Self::follow(files, move |contents, files| {
            contents.server(files, &profile)
        })
        .await
    }

    /// The certificates that the next handshake shows, in PEM.
    pub fn certificate(&self) -> String {
        String::from_utf8_lossy(&self.current.load().contents.certificate).into_owned()
    }

    /// What the next handshake uses, for as long as it is asked for.
    pub fn current(&self) -> CurrentServerTls {
        let followed = self.clone();
        Arc::new(move || followed.config())
    }
}

impl ClientTls {
    /// Reads the files for the first time; they must fit together. Connections are for HTTP/2.
    pub async fn load(files: TlsFiles) -> Result<Self, TlsError> {
        Self::follow(files, FileContents::client).await
    }

    /// The same, waiting until the files can be used. A lasting reason why not is last_error once.
    pub async fn load_when_available(files: TlsFiles) -> Self {
        let mut last_error = None;
        loop {
            match Self::load(files.clone()).await {
                Ok(tls) => return tls,
                Err(error) => {
                    let error = error.to_string();
                    if last_error.as_ref() != Some(&error) {
                        tracing::warn!(error, "waiting for the certificates of a client");
                    }
                    last_error = Some(error);
                }
            }
            tokio::time::sleep(RELOAD_PERIOD).await;
        }
    }
}

impl<C> FileTls<C> {
    async fn follow(
        files: TlsFiles,
        configure: impl Fn(&FileContents, &TlsFiles) -> Result<C, TlsError> + Send + Sync + 'static,
    ) -> Result<Self, TlsError> {
        let contents = FileContents::read(&files).await?;
        let config = Arc::new(configure(&contents, &files)?);
        let current = Arc::new(ArcSwap::from_pointee(LoadedFiles { contents, config }));
        Ok(Self {
            files: Arc::new(files),
            configure: Arc::new(configure),
            current,
        })
    }

    /// What the next handshake uses.
    pub fn config(&self) -> Arc<C> {
        Arc::clone(&self.current.load().config)
    }

    /// Compares the files with what is in use and takes over a change.
    pub async fn reload(&self) -> Reload {
        match self.changed().await {
            Ok(None) => Reload::Unchanged,
            Ok(Some(loaded)) => {
                self.current.store(Arc::new(loaded));
                Reload::Replaced
            }
            Err(error) => Reload::Kept(error),
        }
    }

    async fn changed(&self) -> Result<Option<LoadedFiles<C>>, TlsError> {
        let contents = FileContents::read(&self.files).await?;
        if contents == self.current.load().contents {
            return Ok(None);
        }
        let config = Arc::new((self.configure)(&contents, &self.files)?);
        Ok(Some(LoadedFiles { contents, config }))
    }

    /// Reloads every `period`, for ever. A lasting error is last_error once.
    pub async fn follow_files(self, period: Duration) {
        let mut last_error = None;
        loop {
            tokio::time::sleep(period).await;
            let trouble = match self.reload().await {
                Reload::Unchanged => None,
                Reload::Replaced => {
                    tracing::info!(certificate = %self.files.certificate.display(), "using a new certificate");
                    None
                }
                Reload::Kept(error) => Some(error.to_string()),
            };
            if let Some(error) = trouble.as_ref().filter(|_| trouble != last_error) {
                tracing::error!(%error, "keeping the old certificate: the new one cannot be used");
            }
            last_error = trouble;
        }
    }
}

impl FileContents {
    async fn read(files: &TlsFiles) -> Result<Self, TlsError> {
        let authorities = match &files.authorities {
            Some(path) => Some(read(path).await?),
            None => None,
        };
        Ok(Self {
            certificate: read(&files.certificate).await?,
            private_key: read(&files.private_key).await?,
            authorities,
        })
    }

    fn server(&self, files: &TlsFiles, profile: &ServingProfile) -> Result<ServerConfig, TlsError> {
        let roots = self.authorities(files)?;
        let (chain, key) = self.pair(files)?;
        server_config(chain, key, roots, profile)
    }

    fn client(&self, files: &TlsFiles) -> Result<ClientConfig, TlsError> {
        let roots = self.authorities(files)?.ok_or(TlsError::NoAuthorities)?;
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(MinTlsVersion::default().versions())?;
        let (chain, key) = self.pair(files)?;
        let mut config = builder
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(config)
    }

    fn pair(
        &self,
        files: &TlsFiles,
    ) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
        let chain = certificates(&self.certificate, &files.certificate)?;
        let key =
            PrivateKeyDer::from_pem_slice(&self.private_key).map_err(|error| TlsError::Pem {
                path: files.private_key.clone(),
                error,
            })?;
        Ok((chain, key))
    }

    fn authorities(&self, files: &TlsFiles) -> Result<Option<RootCertStore>, TlsError> {
        let found = self
            .authorities
            .as_deref()
            .zip(files.authorities.as_deref());
        found.map(|(pem, path)| roots(pem, path)).transpose()
    }
}

/// The authorities in the text of a file.
pub(crate) fn roots(pem: &[u8], path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem, path)? {
        roots.add(certificate)?;
    }
    Ok(roots)
}

/// A server that shows `chain`; with `clients`, to nobody whose certificate does not come from one
/// of them. Without, the profile says whether clients are asked for one.
pub(crate) fn server_config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    clients: Option<RootCertStore>,
    profile: &ServingProfile,
) -> Result<ServerConfig, TlsError> {
    let provider = Arc::new(profile.provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(profile.min_version.versions())?;
    let builder = match clients {
        Some(roots) => builder.with_client_cert_verifier(
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
                .build()?,
        ),
        None if profile.request_client_certificates => {
            builder.with_client_cert_verifier(AnyClientCertificate::new(&provider))
        }
        None => builder.with_no_client_auth(),
    };
    // Refuses a key that is not the certificate's.
    let mut config = builder.with_single_cert(chain, key)?;
    let (http2, http1) = (b"h2".to_vec(), b"http/1.1".to_vec());
    config.alpn_protocols = if profile.http1_only {
        vec![http1]
    } else {
        vec![http2, http1]
    };
    Ok(config)
}

pub(crate) async fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    tokio::fs::read(path).await.map_err(|error| TlsError::Read {
        path: path.to_owned(),
        error,
    })
}

fn certificates(pem: &[u8], path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let chain = chain.map_err(|error| TlsError::Pem {
        path: path.to_owned(),
        error,
    })?;
    if chain.is_empty() {
        Err(TlsError::NoCertificate(path.to_owned()))
    } else {
        Ok(chain)
    }
}
