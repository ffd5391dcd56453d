//! Serving certificates that follow their files.
//!
//! Certificate, key and client CA change together: they are one `rustls::ServerConfig`, swapped whole between two
//! handshakes. Files are compared by content every few seconds, because a kubelet replaces mounted Secrets by moving a
//! symbolic link, which no watch on the file itself reports. A new set that does not fit together (a half-written one,
//! for instance) leaves the old one in place and is tried again.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::{self, PemObject as _};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// How often the files are compared with what is served.
pub const RELOAD_PERIOD: Duration = Duration::from_secs(5);

/// Makes aws-lc-rs the process's one cryptography library. Later calls change nothing.
pub fn install_crypto_provider() {
    // An error says that another thread was first, with the same provider: there is no other in the build.
    drop(aws_lc_rs::default_provider().install_default());
}

/// Where certificates are read from, all in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The serving certificate and its intermediates, leaf first.
    pub certificate: PathBuf,
    /// The serving certificate's private key.
    pub private_key: PathBuf,
    /// Authorities that clients' certificates must come from. Without it clients need none.
    pub client_ca: Option<PathBuf>,
}

/// Why a set of files cannot be served.
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
}

/// What a comparison with the files did.
#[derive(Debug)]
pub enum Reload {
    /// The files are those being served.
    Unchanged,
    /// New handshakes use the new files.
    Replaced,
    /// The new files do not serve; the old ones stay.
    Kept(TlsError),
}

/// The certificates being served. Clones share them.
#[derive(Debug, Clone)]
pub struct ServingTls {
    files: Arc<TlsFiles>,
    current: Arc<ArcSwap<Loaded>>,
}

#[derive(Debug)]
struct Loaded {
    contents: Contents,
    config: Arc<ServerConfig>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Contents {
    certificate: Vec<u8>,
    private_key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

impl ServingTls {
    /// Reads the files for the first time; they must fit together.
    pub async fn load(files: TlsFiles) -> Result<Self, TlsError> {
        let contents = Contents::read(&files).await?;
        let config = Arc::new(contents.config(&files)?);
        let current = Arc::new(ArcSwap::from_pointee(Loaded { contents, config }));
        Ok(Self { files: Arc::new(files), current })
    }

    /// What the next handshake uses.
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current.load().config)
    }

    /// Compares the files with what is served and takes over a change.
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

    async fn changed(&self) -> Result<Option<Loaded>, TlsError> {
        let contents = Contents::read(&self.files).await?;
        if contents == self.current.load().contents {
            return Ok(None);
        }
        let config = Arc::new(contents.config(&self.files)?);
        Ok(Some(Loaded { contents, config }))
    }

    /// Reloads every `period`, for ever. A lasting error is said once.
    pub async fn follow_files(self, period: Duration) {
        let mut said = None;
        loop {
            tokio::time::sleep(period).await;
            let trouble = match self.reload().await {
                Reload::Unchanged => None,
                Reload::Replaced => {
                    tracing::info!(certificate = %self.files.certificate.display(), "serving a new certificate");
                    None
                }
                Reload::Kept(error) => Some(error.to_string()),
            };
            if let Some(error) = trouble.as_ref().filter(|_| trouble != said) {
                tracing::error!(%error, "keeping the old certificate: the new one cannot be served");
            }
            said = trouble;
        }
    }
}

impl Contents {
    async fn read(files: &TlsFiles) -> Result<Self, TlsError> {
        let client_ca = match &files.client_ca {
            Some(path) => Some(read(path).await?),
            None => None,
        };
        Ok(Self {
            certificate: read(&files.certificate).await?,
            private_key: read(&files.private_key).await?,
            client_ca,
        })
    }

    fn config(&self, files: &TlsFiles) -> Result<ServerConfig, TlsError> {
        let chain = certificates(&self.certificate, &files.certificate)?;
        let key = PrivateKeyDer::from_pem_slice(&self.private_key)
            .map_err(|error| TlsError::Pem { path: files.private_key.clone(), error })?;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?;
        let builder = match self.client_ca.as_deref().zip(files.client_ca.as_deref()) {
            Some((pem, path)) => builder.with_client_cert_verifier(verifier(pem, path, provider)?),
            None => builder.with_no_client_auth(),
        };
        // Refuses a key that is not the certificate's.
        let mut config = builder.with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

async fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    tokio::fs::read(path).await.map_err(|error| TlsError::Read { path: path.to_owned(), error })
}

fn certificates(pem: &[u8], path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let chain = chain.map_err(|error| TlsError::Pem { path: path.to_owned(), error })?;
    if chain.is_empty() { Err(TlsError::NoCertificate(path.to_owned())) } else { Ok(chain) }
}

fn verifier(
    pem: &[u8],
    path: &Path,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem, path)? {
        roots.add(certificate)?;
    }
    Ok(WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build()?)
}
