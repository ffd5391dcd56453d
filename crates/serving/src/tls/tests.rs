//! Certificates that change while they are in use, in volumes like a kubelet's.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::extract::Request;
use axum::routing::get;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use runtime::Tasks;
use runtime::http_endpoints::EndpointPort;
use rustls::ClientConfig;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls_pki_types::ServerName;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::http_endpoints::serve_endpoints;
use crate::http_server::{Limits, serve};

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: rcgen::Certificate,
}

struct Pair {
    certificate: rcgen::Certificate,
    key: KeyPair,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, "test authority");
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Self {
            issuer: Issuer::new(params, key),
            certificate,
        }
    }

    fn issue(&self) -> Pair {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        Pair {
            certificate: params.signed_by(&key, &self.issuer).unwrap(),
            key,
        }
    }
}

/// A mounted Secret as a kubelet keeps it: files are links through `..data`, which is moved in one
/// step.
struct Secret {
    folder: TempDir,
    revision: usize,
}

impl Secret {
    fn new(pair: &Pair) -> Self {
        let mut secret = Self {
            folder: tempfile::tempdir().unwrap(),
            revision: 0,
        };
        secret.hold(pair, "");
        for name in ["tls.crt", "tls.key", "ca.crt"] {
            symlink(Path::new("..data").join(name), secret.path(name)).unwrap();
        }
        secret
    }

    fn hold(&mut self, pair: &Pair, client_ca: &str) {
        let (certificate, key) = (pair.certificate.pem(), pair.key.serialize_pem());
        self.update(&certificate, &key, client_ca);
    }

    fn update(&mut self, certificate: &str, key: &str, client_ca: &str) {
        self.revision += 1;
        let revision = format!("..revision-{}", self.revision);
        std::fs::create_dir(self.path(&revision)).unwrap();
        let files = [
            ("tls.crt", certificate),
            ("tls.key", key),
            ("ca.crt", client_ca),
        ];
        for (name, text) in files {
            std::fs::write(self.path(&revision).join(name), text).unwrap();
        }
        symlink(&revision, self.path("..next")).unwrap();
        std::fs::rename(self.path("..next"), self.path("..data")).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn files(&self) -> TlsFiles {
        TlsFiles {
            certificate: self.path("tls.crt"),
            private_key: self.path("tls.key"),
            authorities: None,
        }
    }

    fn files_with_authorities(&self) -> TlsFiles {
        TlsFiles {
            authorities: Some(self.path("ca.crt")),
            ..self.files()
        }
    }
}

async fn start(tls: ServingTls) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let shown = |request: Request| async move {
        let peer = request.extensions().get::<PeerCertificates>();
        let shown = peer.map_or(0, |peer| peer.0.len());
        format!("{shown} shown, hello")
    };
    let router = Router::new().route("/", get(shown));
    let (tls, shutdown) = (Some(tls.current()), CancellationToken::new());
    tokio::spawn(serve(listener, router, tls, Limits::default(), shutdown));
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
            let key = aws_lc_rs::sign::any_supported_type(&key).unwrap();
            // Built by hand, so that the key may also be a wrong one.
            let shown = CertifiedKey::new(vec![pair.certificate.der().clone()], key);
            builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(shown)))
        }
    };
    config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
    TlsConnector::from(Arc::new(config))
}

/// Makes one request on a new connection. Returns the server's certificate.
async fn request(
    address: SocketAddr,
    client: &TlsConnector,
) -> io::Result<CertificateDer<'static>> {
    let (shown, text) = exchange(address, client).await?;
    if text.ends_with("hello") {
        Ok(shown)
    } else {
        Err(io::Error::other(text))
    }
}

/// Makes one request on a new connection. Returns the server's certificate and the response.
async fn exchange(
    address: SocketAddr,
    client: &TlsConnector,
) -> io::Result<(CertificateDer<'static>, String)> {
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TcpStream::connect(address).await?;
    let mut stream = client.connect(name, stream).await?;
    let chain = stream.get_ref().1.peer_certificates().unwrap();
    let shown = chain[0].clone().into_owned();
    let request = b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(request).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    Ok((shown, text))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_change_under_load_without_a_failed_handshake() {
    let authority = Authority::new();
    let first = authority.issue();
    let mut secret = Secret::new(&first);
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
        secret.hold(&next, "");
        let reloaded = tls.reload().await;
        assert!(matches!(reloaded, Reload::Replaced), "{rotation}");
        let shown = request(address, &client).await.unwrap();
        assert_eq!(shown, *next.certificate.der(), "{rotation}");
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
    let mut secret = Secret::new(&old);
    let tls = ServingTls::load(secret.files()).await.unwrap();
    let address = start(tls.clone()).await;
    let client = client(&authority, None, "http/1.1");
    let (pem, key, old_key) = (
        new.certificate.pem(),
        new.key.serialize_pem(),
        old.key.serialize_pem(),
    );
    let invalid = "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n";
    for (certificate, key, expected) in [
        (&*pem, &*old_key, "certificate or private key"),
        ("", &key, "no certificate"),
        (&pem, "", "tls.key"),
        (invalid, &key, "tls.crt"),
    ] {
        secret.update(certificate, key, "");
        let Reload::Kept(error) = tls.reload().await else {
            panic!("{expected}: the pair was taken")
        };
        assert!(error.to_string().contains(expected), "{error}");
        let shown = request(address, &client).await.unwrap();
        assert_eq!(shown, *old.certificate.der(), "{expected}");
    }
    secret.hold(&new, "");
    assert!(matches!(tls.reload().await, Reload::Replaced));
    assert!(matches!(tls.reload().await, Reload::Unchanged));
    let shown = request(address, &client).await.unwrap();
    assert_eq!(shown, *new.certificate.der());
}

#[tokio::test]
async fn clients_need_a_certificate_of_the_present_authority() {
    let (server, old, new) = (Authority::new(), Authority::new(), Authority::new());
    let pair = server.issue();
    let mut secret = Secret::new(&pair);
    secret.hold(&pair, &old.certificate.pem());
    let files = secret.files_with_authorities();
    let tls = ServingTls::load(files).await.unwrap();
    let address = start(tls.clone()).await;
    let (of_old, of_new) = (old.issue(), new.issue());
    let may = async |own: Option<&Pair>| {
        let asked = request(address, &client(&server, own, "http/1.1")).await;
        asked.is_ok()
    };
    let may_all = async || {
        let old = may(Some(&of_old)).await;
        [may(None).await, old, may(Some(&of_new)).await]
    };
    assert_eq!(may_all().await, [false, true, false]);

    let both = old.certificate.pem() + &new.certificate.pem();
    for (authorities, expected) in [
        (both, [false, true, true]),
        (new.certificate.pem(), [false, false, true]),
    ] {
        secret.hold(&pair, &authorities);
        assert!(matches!(tls.reload().await, Reload::Replaced));
        assert_eq!(may_all().await, expected);
    }
}

#[tokio::test]
async fn a_server_may_request_client_certificates_without_verifying_them() {
    let (server, stranger) = (Authority::new(), Authority::new());
    let pair = server.issue();
    let secret = Secret::new(&pair);
    let asking = ServingProfile {
        request_client_certificates: true,
        ..ServingProfile::default()
    };
    let address = start(ServingTls::load_with(secret.files(), asking).await.unwrap()).await;
    let own = stranger.issue();
    for (own, expected) in [(None, "0 shown, hello"), (Some(&own), "1 shown, hello")] {
        let client = client(&server, own, "http/1.1");
        let (_, text) = exchange(address, &client).await.unwrap();
        assert!(text.ends_with(expected), "{text}");
    }
    // A certificate with another key proves nothing.
    let thief = Pair {
        certificate: own.certificate.clone(),
        key: KeyPair::generate().unwrap(),
    };
    let client = client(&server, Some(&thief), "http/1.1");
    assert!(exchange(address, &client).await.is_err());
}

#[tokio::test]
async fn a_server_may_leave_out_the_newer_protocol() {
    let server = Authority::new();
    let pair = server.issue();
    let secret = Secret::new(&pair);
    let older = ServingProfile {
        http1_only: true,
        ..ServingProfile::default()
    };
    let address = start(ServingTls::load_with(secret.files(), older).await.unwrap()).await;
    for (protocol, expected) in [("http/1.1", true), ("h2", false)] {
        let asked = request(address, &client(&server, None, protocol)).await;
        assert_eq!(asked.is_ok(), expected, "{protocol}");
    }
}

#[tokio::test]
async fn a_client_shows_and_trusts_what_its_files_say_now() {
    let (ours, other) = (Authority::new(), Authority::new());
    let server = ours.issue();
    let mut secret = Secret::new(&server);
    secret.hold(&server, &ours.certificate.pem());
    let files = secret.files_with_authorities();
    let address = start(ServingTls::load(files).await.unwrap()).await;

    let (mine, theirs) = (ours.issue(), other.issue());
    let mut secret = Secret::new(&theirs);
    let error = ClientTls::load(secret.files()).await.unwrap_err();
    assert_eq!(error.to_string(), "no CA bundle that verifies the server");
    let mut update = |own: &Pair, trusted: &Authority| {
        secret.hold(own, &trusted.certificate.pem());
        secret.files_with_authorities()
    };
    let client = ClientTls::load(update(&theirs, &ours)).await.unwrap();
    let may_connect = async || {
        // The server speaks HTTP/1.1 to clients that do not require HTTP/2.
        let mut config = (*client.config()).clone();
        config.alpn_protocols.clear();
        let client = TlsConnector::from(Arc::new(config));
        request(address, &client).await.is_ok()
    };
    assert!(!may_connect().await, "a certificate of another authority");
    for (trusted, expected) in [(&ours, true), (&other, false), (&ours, true)] {
        update(&mine, trusted);
        assert!(matches!(client.reload().await, Reload::Replaced));
        assert_eq!(may_connect().await, expected);
    }
    assert_eq!(client.config().alpn_protocols, [b"h2"]);
}

#[tokio::test]
async fn a_client_that_asks_for_http_2_gets_it() {
    let authority = Authority::new();
    let pair = authority.issue();
    let secret = Secret::new(&pair);
    let address = start(ServingTls::load(secret.files()).await.unwrap()).await;
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    let client = client(&authority, None, "h2");
    let mut stream = client.connect(name, stream).await.unwrap();
    // An HTTP/2 connection begins with SETTINGS (frame type 4) from the server.
    stream
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .await
        .unwrap();
    let mut frame = [0; 9];
    stream.read_exact(&mut frame).await.unwrap();
    assert_eq!(frame[3], 4);
}

#[tokio::test(start_paused = true)]
async fn files_are_followed() {
    let authority = Authority::new();
    let (old, new) = (authority.issue(), authority.issue());
    let mut secret = Secret::new(&old);
    let tls = ServingTls::load(secret.files()).await.unwrap();
    let before = tls.config();
    let following = tokio::spawn(tls.clone().follow_files(RELOAD_PERIOD));
    secret.hold(&new, "");
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

#[tokio::test]
async fn endpoints_are_served_over_tls_where_they_have_a_certificate() {
    let authority = Authority::new();
    let pair = authority.issue();
    let secret = Secret::new(&pair);
    let shutdown = CancellationToken::new();
    let (tasks, _failures) = Tasks::new(shutdown.clone());
    let port = async |folder: &str| EndpointPort {
        listener: TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap(),
        router: Router::new().route("/", get(|| async { "hello" })),
        certificate_folder: Some(secret.path(folder)),
        tasks: tasks.clone(),
        shutdown: shutdown.clone(),
    };
    let error = serve_endpoints(port("absent").await).await.unwrap_err();
    assert!(error.to_string().contains("absent/tls.crt"), "{error}");
    let port = port(".").await;
    let address = port.listener.local_addr().unwrap();
    let server = serve_endpoints(port).await.unwrap();
    let client = client(&authority, None, "http/1.1");
    let shown = request(address, &client).await.unwrap();
    assert_eq!(shown, *pair.certificate.der());
    shutdown.cancel();
    server.await.unwrap();
}
