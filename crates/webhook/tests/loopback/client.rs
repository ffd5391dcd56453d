//! A client like the API server, with TLS and persistent connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rustls::client::WantsClientCert;
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Time limit of a connection and of a response.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Connection {
    stream: TlsStream<TcpStream>,
}

pub(crate) fn trusting(bundle: &str) -> Result<TlsConnector> {
    let config = verifying(bundle)?.with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

pub(crate) fn trusting_as(
    bundle: &str,
    (certificate, key): (String, String),
) -> Result<TlsConnector> {
    let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes())?];
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes())?;
    let config = verifying(bundle)?.with_client_auth_cert(chain, key)?;
    Ok(TlsConnector::from(Arc::new(config)))
}

fn verifying(bundle: &str) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>> {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
        roots.add(authority?)?;
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    Ok(builder
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots))
}

impl Connection {
    pub(crate) async fn open(
        address: SocketAddr,
        name: &str,
        connector: &TlsConnector,
    ) -> Result<Self> {
        let opening = async {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            connector
                .connect(ServerName::try_from(name.to_owned())?, stream)
                .await
                .context("handshake")
        };
        let stream = timeout(PATIENCE, opening)
            .await
            .context("no connection")??;
        Ok(Self { stream })
    }

    /// Sends a body. Returns the code and text of the response.
    pub(crate) async fn post(&mut self, body: &[u8]) -> Result<(u16, String)> {
        let exchange = timeout(PATIENCE, self.exchange(body)).await;
        exchange.context("no response")?
    }

    async fn exchange(&mut self, body: &[u8]) -> Result<(u16, String)> {
        self.send_head(body.len()).await?;
        self.stream.write_all(body).await?;
        self.response().await
    }

    /// Sends headers that announce a body of `length` bytes.
    pub(crate) async fn send_head(&mut self, length: usize) -> Result<()> {
        let head = format!(
            "POST /?timeout=10s HTTP/1.1\r\nhost: webhook\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        );
        self.stream.write_all(head.as_bytes()).await?;
        Ok(())
    }

    /// Sends a header of this length that does not end.
    pub(crate) async fn endless_header(&mut self, length: usize) -> Result<()> {
        let head = format!("GET / HTTP/1.1\r\nx: {}", "a".repeat(length));
        self.stream.write_all(head.as_bytes()).await?;
        Ok(self.stream.flush().await?)
    }

    /// Sends one byte of unfinished headers.
    pub(crate) async fn drip(&mut self) -> Result<()> {
        self.stream.write_all(b"P").await?;
        Ok(self.stream.flush().await?)
    }

    pub(crate) async fn response(&mut self) -> Result<(u16, String)> {
        let mut seen = Vec::new();
        loop {
            let mut part = [0; 4096];
            let read = self.stream.read(&mut part).await?;
            ensure!(read > 0, "closed after {} bytes", seen.len());
            seen.extend_from_slice(&part[..read]);
            let text = String::from_utf8_lossy(&seen);
            let Some((head, body)) = text.split_once("\r\n\r\n") else {
                continue;
            };
            let length = head.lines().find_map(|line| {
                let line = line.to_ascii_lowercase();
                line.strip_prefix("content-length: ")?.parse().ok()
            });
            if body.len() >= length.unwrap_or(0) {
                let code = head.split(' ').nth(1).context("no code")?.parse()?;
                return Ok((code, body.to_owned()));
            }
        }
    }

    /// Sends a review of a pod and expects it to be admitted.
    pub(crate) async fn admit(&mut self, uid: &str) -> Result<Value> {
        let (code, text) = self.post(pod_review(uid).to_string().as_bytes()).await?;
        ensure!(code == 200, "{code} {text}");
        let answer: Value = serde_json::from_str(&text)?;
        let response = &answer["response"];
        ensure!(
            response["allowed"] == true && response["uid"] == uid,
            "{answer}"
        );
        Ok(answer)
    }
}

/// A review of a pod as the API server sends it.
pub(crate) fn pod_review(uid: &str) -> Value {
    let kind = json!({"group": "", "version": "v1", "kind": "Pod"});
    let resource = json!({"group": "", "version": "v1", "resource": "pods"});
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": uid,
            "kind": kind,
            "resource": resource,
            "requestKind": kind,
            "requestResource": resource,
            "namespace": "shop",
            "operation": "CREATE",
            "userInfo": {"username": "system:kube-controller-manager"},
            "object": {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"generateName": "web-", "namespace": "shop"},
                "spec": {"containers": [{"name": "app", "image": "web"}]},
            },
            "oldObject": null,
            "dryRun": false,
        },
    })
}
