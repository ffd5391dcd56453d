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

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::Router;
    use axum::routing::get;
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
    use rustls::ClientConfig;
    use rustls_pki_types::ServerName;
    use tempfile::TempDir;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio_rustls::TlsConnector;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::serve::{Limits, serve};

    struct Authority {
        issuer: Issuer<'static, KeyPair>,
        certificate: rcgen::Certificate,
    }

    /// A certificate and its key.
    struct Pair {
        certificate: rcgen::Certificate,
        key: KeyPair,
    }

    impl Authority {
        fn new() -> Self {
            let mut params = CertificateParams::new([]).unwrap();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.distinguished_name.push(DnType::CommonName, "test authority");
            let key = KeyPair::generate().unwrap();
            let certificate = params.self_signed(&key).unwrap();
            Self { issuer: Issuer::new(params, key), certificate }
        }

        fn issue(&self) -> Pair {
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
            Pair { certificate: params.signed_by(&key, &self.issuer).unwrap(), key }
        }
    }

    /// A mounted Secret as a kubelet keeps it: files are links through `..data`, which is moved in one step.
    struct Secret {
        folder: TempDir,
        revision: usize,
    }

    impl Secret {
        fn new(certificate: &str, key: &str) -> Self {
            let mut secret = Self { folder: tempfile::tempdir().unwrap(), revision: 0 };
            secret.update(certificate, key, "");
            for name in ["tls.crt", "tls.key", "ca.crt"] {
                symlink(Path::new("..data").join(name), secret.path(name)).unwrap();
            }
            secret
        }

        fn update(&mut self, certificate: &str, key: &str, client_ca: &str) {
            self.revision += 1;
            let revision = format!("..revision-{}", self.revision);
            std::fs::create_dir(self.path(&revision)).unwrap();
            for (name, text) in [("tls.crt", certificate), ("tls.key", key), ("ca.crt", client_ca)] {
                std::fs::write(self.path(&revision).join(name), text).unwrap();
            }
            symlink(&revision, self.path("..next")).unwrap();
            std::fs::rename(self.path("..next"), self.path("..data")).unwrap();
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn files(&self) -> TlsFiles {
            TlsFiles { certificate: self.path("tls.crt"), private_key: self.path("tls.key"), client_ca: None }
        }
    }

    async fn start(tls: ServingTls) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/", get(|| async { "hello" }));
        tokio::spawn(serve(listener, router, Some(tls), Limits::default(), CancellationToken::new()));
        address
    }

    fn client(trusted: &Authority, own: Option<&Pair>, alpn: &str) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        roots.add(trusted.certificate.der().clone()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match own {
            None => builder.with_no_client_auth(),
            Some(pair) => {
                let key = PrivateKeyDer::try_from(pair.key.serialize_der()).unwrap();
                builder.with_client_auth_cert(vec![pair.certificate.der().clone()], key).unwrap()
            }
        };
        config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
        TlsConnector::from(Arc::new(config))
    }

    /// Makes one request on a connection of its own; gives the certificate that the server showed.
    async fn request(address: SocketAddr, client: &TlsConnector) -> io::Result<CertificateDer<'static>> {
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = client.connect(name, TcpStream::connect(address).await?).await?;
        let shown = stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned();
        stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        if text.ends_with("hello") { Ok(shown) } else { Err(io::Error::other(text)) }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn certificates_change_under_load_without_a_failed_handshake() {
        let authority = Authority::new();
        let first = authority.issue();
        let mut secret = Secret::new(&first.certificate.pem(), &first.key.serialize_pem());
        let tls = ServingTls::load(secret.files()).await.unwrap();
        let address = start(tls.clone()).await;
        let client = client(&authority, None, "http/1.1");

        let (served, stop) = (Arc::new(AtomicUsize::new(0)), CancellationToken::new());
        let load: Vec<_> = (0..8)
            .map(|_| {
                let (client, served, stop) = (client.clone(), Arc::clone(&served), stop.clone());
                tokio::spawn(async move {
                    while !stop.is_cancelled() {
                        request(address, &client).await.unwrap();
                        served.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        for rotation in 1..=20 {
            let next = authority.issue();
            secret.update(&next.certificate.pem(), &next.key.serialize_pem(), "");
            assert!(matches!(tls.reload().await, Reload::Replaced), "rotation {rotation}");
            assert_eq!(request(address, &client).await.unwrap(), *next.certificate.der(), "rotation {rotation}");
            while served.load(Ordering::Relaxed) < rotation * 10 {
                tokio::task::yield_now().await;
            }
        }
        stop.cancel();
        for connections in load {
            connections.await.expect("no request failed");
        }
    }

    #[tokio::test]
    async fn a_new_pair_that_does_not_fit_leaves_the_old_one() {
        let authority = Authority::new();
        let (old, new) = (authority.issue(), authority.issue());
        let mut secret = Secret::new(&old.certificate.pem(), &old.key.serialize_pem());
        let tls = ServingTls::load(secret.files()).await.unwrap();
        let address = start(tls.clone()).await;
        let client = client(&authority, None, "http/1.1");
        for (certificate, key, expected) in [
            (new.certificate.pem(), old.key.serialize_pem(), "certificate or private key"),
            (String::new(), new.key.serialize_pem(), "no certificate"),
            (new.certificate.pem(), String::new(), "tls.key"),
            (
                "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n".to_owned(),
                new.key.serialize_pem(),
                "tls.crt",
            ),
        ] {
            secret.update(&certificate, &key, "");
            let Reload::Kept(error) = tls.reload().await else { panic!("{expected}: the pair was taken") };
            assert!(error.to_string().contains(expected), "{error}");
            assert_eq!(request(address, &client).await.unwrap(), *old.certificate.der(), "{expected}");
        }
        secret.update(&new.certificate.pem(), &new.key.serialize_pem(), "");
        assert!(matches!(tls.reload().await, Reload::Replaced));
        assert!(matches!(tls.reload().await, Reload::Unchanged));
        assert_eq!(request(address, &client).await.unwrap(), *new.certificate.der());
    }

    #[tokio::test]
    async fn clients_need_a_certificate_of_the_present_authority() {
        let (server, old, new) = (Authority::new(), Authority::new(), Authority::new());
        let pair = server.issue();
        let (certificate, key) = (pair.certificate.pem(), pair.key.serialize_pem());
        let mut secret = Secret::new(&certificate, &key);
        secret.update(&certificate, &key, &old.certificate.pem());
        let files = TlsFiles { client_ca: Some(secret.path("ca.crt")), ..secret.files() };
        let tls = ServingTls::load(files).await.unwrap();
        let address = start(tls.clone()).await;
        let (of_old, of_new) = (old.issue(), new.issue());
        let may = async |own: Option<&Pair>| request(address, &client(&server, own, "http/1.1")).await.is_ok();
        assert_eq!((may(None).await, may(Some(&of_old)).await, may(Some(&of_new)).await), (false, true, false));

        let both = old.certificate.pem() + &new.certificate.pem();
        for (authorities, expected) in [(both, (false, true, true)), (new.certificate.pem(), (false, false, true))] {
            secret.update(&certificate, &key, &authorities);
            assert!(matches!(tls.reload().await, Reload::Replaced));
            assert_eq!((may(None).await, may(Some(&of_old)).await, may(Some(&of_new)).await), expected);
        }
    }

    #[tokio::test]
    async fn a_client_that_asks_for_http_2_gets_it() {
        let authority = Authority::new();
        let pair = authority.issue();
        let secret = Secret::new(&pair.certificate.pem(), &pair.key.serialize_pem());
        let address = start(ServingTls::load(secret.files()).await.unwrap()).await;
        let name = ServerName::try_from("localhost").unwrap();
        let stream = TcpStream::connect(address).await.unwrap();
        let mut stream = client(&authority, None, "h2").connect(name, stream).await.unwrap();
        // An HTTP/2 connection begins with SETTINGS (frame type 4) from the server.
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
        let mut frame = [0; 9];
        stream.read_exact(&mut frame).await.unwrap();
        assert_eq!(frame[3], 4);
    }

    #[tokio::test(start_paused = true)]
    async fn files_are_followed() {
        let authority = Authority::new();
        let (old, new) = (authority.issue(), authority.issue());
        let mut secret = Secret::new(&old.certificate.pem(), &old.key.serialize_pem());
        let tls = ServingTls::load(secret.files()).await.unwrap();
        let before = tls.config();
        let following = tokio::spawn(tls.clone().follow_files(RELOAD_PERIOD));
        secret.update(&new.certificate.pem(), &new.key.serialize_pem(), "");
        let taken_over = async {
            while Arc::ptr_eq(&before, &tls.config()) {
                tokio::time::sleep(RELOAD_PERIOD).await;
            }
        };
        tokio::time::timeout(Duration::from_hours(1), taken_over)
            .await
            .expect("an hour of the stopped clock is enough");
        following.abort();
    }
}
