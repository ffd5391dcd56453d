//! TLS configurations of servers and clients that follow their files.
//!
//! Certificate, private key and CA bundle form one `rustls` configuration, which is replaced as a
//! whole between two handshakes. The contents of the files are compared every few seconds: a
//! kubelet replaces mounted Secrets by moving a symbolic link, which a watch on the file does not
//! report. A new set that does not match (a half-written one, for instance) is ignored and tried
//! again.

mod profile;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use arc_swap::ArcSwap;
use runtime::LogOnce;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs, verify_tls12_signature,
    verify_tls13_signature,
};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    ClientConfig, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, ServerConfig,
    SignatureScheme,
};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};

pub use profile::{CipherSuites, MinTlsVersion, ServingProfile};

/// The interval between two comparisons of the files.
pub const RELOAD_PERIOD: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate chain, leaf first.
    pub certificate: PathBuf,
    pub private_key: PathBuf,
    /// The CA bundle that verifies the peer. Required for a client. A server without it requests no
    /// client certificates.
    pub authorities: Option<PathBuf>,
}

impl TlsFiles {
    /// The files of a mounted Secret: tls.crt, tls.key and ca.crt.
    pub fn in_folder(folder: &Path) -> Self {
        Self {
            certificate: folder.join("tls.crt"),
            private_key: folder.join("tls.key"),
            authorities: Some(folder.join("ca.crt")),
        }
    }
}

/// The result of a comparison with the files.
#[derive(Debug)]
pub enum Reload {
    /// The files are in use already.
    Unchanged,
    /// New handshakes use the new files.
    Replaced,
    /// The new files cannot be used; the previous ones stay in use.
    Kept(anyhow::Error),
}

/// Returns the TLS configuration for the next handshake of a server.
pub type CurrentServerTls = Arc<dyn Fn() -> Arc<ServerConfig> + Send + Sync>;

pub type ServingTls = FileTls<ServerConfig>;

pub type ClientTls = FileTls<ClientConfig>;

/// A TLS configuration that follows its files. Clones share it.
#[derive(Clone)]
pub struct FileTls<C> {
    files: Arc<TlsFiles>,
    configure: Arc<Configure<C>>,
    current: Arc<ArcSwap<LoadedFiles<C>>>,
}

type Configure<C> = dyn Fn(&TlsContents, &TlsFiles) -> Result<C> + Send + Sync;

struct LoadedFiles<C> {
    contents: TlsContents,
    config: Arc<C>,
}

/// The contents of [`TlsFiles`], in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct TlsContents {
    /// The certificate chain, leaf first.
    pub certificate: Vec<u8>,
    pub private_key: Vec<u8>,
    /// The CA bundle that verifies the peer.
    pub authorities: Option<Vec<u8>>,
}

impl fmt::Debug for TlsContents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsContents").finish_non_exhaustive()
    }
}

impl<C> fmt::Debug for FileTls<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileTls")
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

impl ServingTls {
    pub async fn load(files: TlsFiles) -> Result<Self> {
        Self::load_with(files, ServingProfile::default()).await
    }

    /// Loads the files, which must match, with TLS options.
    pub async fn load_with(files: TlsFiles, profile: ServingProfile) -> Result<Self> {
        let configure =
            move |contents: &TlsContents, files: &TlsFiles| contents.server(files, &profile);
        Self::of(TlsContents::read(&files).await?, files, configure)
    }

    /// The certificate chain for the next handshake, in PEM.
    pub fn certificate(&self) -> String {
        String::from_utf8_lossy(&self.current.load().contents.certificate).into_owned()
    }

    /// Returns a function that gives the configuration for the next handshake.
    pub fn current(&self) -> CurrentServerTls {
        let followed = self.clone();
        Arc::new(move || followed.config())
    }
}

impl ClientTls {
    /// Loads the files, which must match. Connections negotiate HTTP/2.
    pub async fn load(files: TlsFiles) -> Result<Self> {
        Self::with(TlsContents::read(&files).await?, files)
    }

    /// Uses contents that are not read from files; errors name their `places`.
    pub fn with(contents: TlsContents, places: TlsFiles) -> Result<Self> {
        Self::of(contents, places, TlsContents::client)
    }

    /// Waits until the files can be loaded. Logs a persistent error once.
    pub async fn load_when_available(files: TlsFiles) -> Self {
        let mut logged = LogOnce::default();
        loop {
            match Self::load(files.clone()).await {
                Ok(tls) => return tls,
                Err(error) => {
                    if let Some(error) = logged.update(Some(error.to_string())) {
                        tracing::warn!(error, "cannot load the client certificate; retrying");
                    }
                }
            }
            tokio::time::sleep(RELOAD_PERIOD).await;
        }
    }
}

impl<C> FileTls<C> {
    fn of(
        contents: TlsContents,
        files: TlsFiles,
        configure: impl Fn(&TlsContents, &TlsFiles) -> Result<C> + Send + Sync + 'static,
    ) -> Result<Self> {
        let config = Arc::new(configure(&contents, &files)?);
        let current = Arc::new(ArcSwap::from_pointee(LoadedFiles { contents, config }));
        Ok(Self {
            files: Arc::new(files),
            configure: Arc::new(configure),
            current,
        })
    }

    pub fn config(&self) -> Arc<C> {
        Arc::clone(&self.current.load().config)
    }

    pub async fn reload(&self) -> Reload {
        match TlsContents::read(&self.files).await {
            Ok(contents) => self.replace(contents),
            Err(error) => Reload::Kept(error),
        }
    }

    /// Uses other contents if they have changed.
    pub fn replace(&self, contents: TlsContents) -> Reload {
        if contents == self.current.load().contents {
            return Reload::Unchanged;
        }
        match (self.configure)(&contents, &self.files).map(Arc::new) {
            Ok(config) => {
                self.current
                    .store(Arc::new(LoadedFiles { contents, config }));
                Reload::Replaced
            }
            Err(error) => Reload::Kept(error),
        }
    }

    /// Reloads the files every `period` and never returns. Logs a persistent error once.
    pub async fn follow_files(self, period: Duration) {
        let mut logged = LogOnce::default();
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
            if let Some(error) = logged.update(trouble) {
                tracing::error!(%error, "cannot use the new certificate; keeping the previous one");
            }
        }
    }
}

impl TlsContents {
    async fn read(files: &TlsFiles) -> Result<Self> {
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

    fn server(&self, files: &TlsFiles, profile: &ServingProfile) -> Result<ServerConfig> {
        let roots = self.authorities(files)?;
        let (chain, key) = self.pair(files)?;
        server_config(chain, key, roots, profile)
    }

    fn client(&self, files: &TlsFiles) -> Result<ClientConfig> {
        let roots = self.authorities(files)?;
        let roots = roots.context("no CA bundle that verifies the server")?;
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(MinTlsVersion::default().versions())
            .map_err(|error| unusable(&error))?;
        let (chain, key) = self.pair(files)?;
        let mut config = builder
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .map_err(|error| unusable(&error))?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(config)
    }

    fn pair(
        &self,
        files: &TlsFiles,
    ) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
        let chain = certificates(&self.certificate, &files.certificate)?;
        let key = PrivateKeyDer::from_pem_slice(&self.private_key)
            .map_err(|error| anyhow!("{}: {error}", files.private_key.display()))?;
        Ok((chain, key))
    }

    fn authorities(&self, files: &TlsFiles) -> Result<Option<RootCertStore>> {
        let found = self.authorities.as_ref().zip(files.authorities.as_ref());
        found.map(|(pem, path)| roots(pem, path)).transpose()
    }
}

/// Checks that a text is a CA bundle, in PEM.
pub fn check_authorities(pem: &[u8], place: &Path) -> Result<()> {
    roots(pem, place).map(drop)
}

pub(crate) fn roots(pem: &[u8], path: &Path) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem, path)? {
        roots.add(certificate).map_err(|error| unusable(&error))?;
    }
    Ok(roots)
}

/// Builds a server configuration. With `clients`, clients must present a certificate of one of
/// these CAs. Without, the profile says whether a client certificate is requested.
pub(crate) fn server_config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    clients: Option<RootCertStore>,
    profile: &ServingProfile,
) -> Result<ServerConfig> {
    let provider = Arc::new(profile.provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(profile.min_version.versions())
        .map_err(|error| unusable(&error))?;
    let builder = match clients {
        Some(roots) => {
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
            let verifier = verifier.build();
            let verifier =
                verifier.map_err(|error| anyhow!("CA of client certificates: {error}"))?;
            builder.with_client_cert_verifier(verifier)
        }
        None if profile.request_client_certificates => {
            builder.with_client_cert_verifier(AnyClientCertificate::new(&provider))
        }
        None => builder.with_no_client_auth(),
    };
    // Fails if the key is not the certificate's.
    let config = builder.with_single_cert(chain, key);
    let mut config = config.map_err(|error| unusable(&error))?;
    let (http2, http1) = (b"h2".to_vec(), b"http/1.1".to_vec());
    config.alpn_protocols = if profile.http1_only {
        vec![http1]
    } else {
        vec![http2, http1]
    };
    Ok(config)
}

pub(crate) async fn read(path: &Path) -> Result<Vec<u8>> {
    let text = tokio::fs::read(path).await;
    text.map_err(|error| anyhow!("cannot read {}: {error}", path.display()))
}

/// Certificate and private key do not match or cannot be used.
fn unusable(error: &rustls::Error) -> anyhow::Error {
    anyhow!("certificate or private key: {error}")
}

fn certificates(pem: &[u8], path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let chain = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|error| anyhow!("{}: {error}", path.display()))?;
    ensure!(!chain.is_empty(), "{}: no certificate", path.display());
    Ok(chain)
}

/// The certificate chain of a client, leaf first; never empty. An extension of each request of the
/// connection. Its issuer is not verified: see
/// [`ServingProfile::request_client_certificates`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerCertificates(pub Arc<[CertificateDer<'static>]>);

impl PeerCertificates {
    /// The certificate chain of a connection's client, if it presented one.
    pub(crate) fn of(connection: &rustls::ServerConnection) -> Option<Self> {
        let chain = connection.peer_certificates()?.iter();
        let chain: Arc<[_]> = chain.map(|one| one.clone().into_owned()).collect();
        (!chain.is_empty()).then_some(Self(chain))
    }
}

/// A verifier that requests a client certificate, accepts connections without one, and accepts any
/// whose private key the client has: each request decides whether it trusts the certificate, in crate
/// `delegated_auth`. CAs change while connections are open, and a client cannot read why a handshake
/// failed.
#[derive(Debug)]
struct AnyClientCertificate {
    algorithms: WebPkiSupportedAlgorithms,
}

impl AnyClientCertificate {
    fn new(provider: &CryptoProvider) -> Arc<Self> {
        Arc::new(Self {
            algorithms: provider.signature_verification_algorithms,
        })
    }
}

impl ClientCertVerifier for AnyClientCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    /// Empty: with hints, some clients withhold a certificate that the next set of CAs accepts.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
