//! TLS to a store: trusted server certificates and client certificates.

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use sources::prometheus::{Connection, Prometheus, PrometheusError, UsageSettings, Window};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// A CA and certificates signed by it, as files.
struct Certificates {
    folder: TempDir,
    authority: CertificateDer<'static>,
    server: (CertificateDer<'static>, PrivateKeyDer<'static>),
}

impl Certificates {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut params = CertificateParams::new([]).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let authority = params.self_signed(&key).expect("signed");
        let issuer = Issuer::new(params, key);
        let issue = |name: &str| {
            let key = KeyPair::generate().expect("a key");
            let params = CertificateParams::new([name.to_owned()]).expect("a name");
            (params.signed_by(&key, &issuer).expect("signed"), key)
        };
        let (client, client_key) = issue("plimsoll");
        let (server, server_key) = issue("127.0.0.1");
        let files = [
            ("ca", authority.pem()),
            ("crt", client.pem()),
            ("key", client_key.serialize_pem()),
        ];
        for (name, content) in files {
            fs::write(folder.path().join(name), content).expect("a file");
        }
        let server_key = PrivateKeyDer::try_from(server_key.serialize_der()).expect("a key");
        Self {
            folder,
            authority: authority.der().clone(),
            server: (server.der().clone(), server_key),
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Serves clients with a certificate of the CA as long as the test runs; returns the URL.
    async fn serve(&self) -> String {
        let mut trusted = RootCertStore::empty();
        trusted.add(self.authority.clone()).expect("an authority");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let clients =
            WebPkiClientVerifier::builder_with_provider(Arc::new(trusted), Arc::clone(&provider));
        let (certificate, key) = &self.server;
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_client_cert_verifier(clients.build().expect("a verifier"))
            .with_single_cert(vec![certificate.clone()], key.clone_key())
            .expect("a certificate");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .expect("a free port");
        let address = listener.local_addr().expect("a bound address");
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(mut stream) = acceptor.accept(stream).await else {
                    continue;
                };
                let _ = stream.read(&mut [0; 4096]).await;
                let body = r#"{"data":{"resultType":"matrix","result":[]}}"#;
                let answer = format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                    body.len()
                );
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = stream.shutdown().await;
            }
        });
        format!("https://{address}")
    }
}

/// `expected`: whether the two sides accept each other.
async fn check(certificates: &Certificates, change: impl FnOnce(&mut Connection), expected: bool) {
    let mut connection = Connection {
        address: certificates.serve().await,
        ca_file: Some(certificates.file("ca")),
        client_certificate: Some((certificates.file("crt"), certificates.file("key"))),
        query_timeout: Duration::from_secs(30),
        ..Connection::default()
    };
    change(&mut connection);
    let client = Prometheus::connect(&connection, Arc::new(|_| ()))
        .await
        .expect("a client");
    let (now, step) = (Timestamp::UNIX_EPOCH, "1s".parse().expect("a step"));
    let window = Window::new(now, now, step).expect("one point");
    let series = UsageSettings::default().cpu_candidates().remove(0);
    match client.read_usage(&series, "shop", window, |_| ()).await {
        Ok(()) => assert!(expected, "{connection:?}"),
        Err(PrometheusError::Unreachable(why)) => assert!(!expected, "{connection:?}: {why}"),
        Err(error) => panic!("{connection:?}: {error}"),
    }
}

#[tokio::test]
async fn both_sides_show_certificates_that_the_other_trusts() {
    let certificates = Certificates::new();
    check(&certificates, |_| (), true).await;
    let anonymous = |connection: &mut Connection| connection.client_certificate = None;
    check(&certificates, anonymous, false).await;
    let other = Certificates::new();
    let trusts_other = |connection: &mut Connection| connection.ca_file = Some(other.file("ca"));
    check(&certificates, trusts_other, false).await;
    let trusts_all =
        |connection: &mut Connection| (connection.ca_file, connection.insecure) = (None, true);
    check(&certificates, trusts_all, true).await;
}
