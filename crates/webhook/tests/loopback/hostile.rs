//! Hostile and broken clients, none of which blocks the API server.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kube::Api;
use serving::certificates::{ManagedConfig, RotationPolicy, Source};
use serving::serve::{Limits, raise_connection_limit};
use serving::tls::ServingProfile;
use testing::{Pace, eventually};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;
use webhook::serve::LIMITS;

use crate::api_server::ApiServer;
use crate::client::{Connection, trusting};
use crate::fixture::{NAME, Replica};

/// Shorter timeouts than in production.
const SHORT: Limits = Limits {
    header_timeout: Duration::from_secs(2),
    request_timeout: Duration::from_secs(2),
    ..LIMITS
};
/// Maximum time of a response.
const IN_TIME: Duration = Duration::from_secs(10);
const IDLE: usize = 5000;

/// Serialises tests that measure the memory of this process.
static MEASURING: Mutex<()> = Mutex::const_new(());

struct Fixture {
    replica: Replica,
    connector: TlsConnector,
}

impl Fixture {
    async fn new(limits: Limits) -> Result<Self> {
        let api_server = ApiServer::default();
        let managed = ManagedConfig {
            secrets: Api::namespaced(api_server.client(), "suite"),
            secret: "vpa-tls-certs".to_owned(),
            authority: "test".to_owned(),
            names: vec![NAME.to_owned()],
            profile: RotationPolicy::default(),
            serving: ServingProfile::default(),
        };
        let replica =
            Replica::start(Source::Managed(Box::new(managed)), &api_server, limits).await?;
        let secret = api_server.get("vpa-tls-certs").context("no secret")?;
        let secret: k8s_openapi::api::core::v1::Secret = serde_json::from_value(secret)?;
        let bundle = secret
            .data
            .context("no data")?
            .remove("caCert.pem")
            .context("no CA bundle")?;
        Ok(Self {
            replica,
            connector: trusting(&String::from_utf8(bundle.0)?)?,
        })
    }

    fn address(&self) -> SocketAddr {
        self.replica.address
    }

    async fn open(&self) -> Result<Connection> {
        Connection::open(self.address(), NAME, &self.connector).await
    }

    /// Expects a response in time on a new connection.
    async fn responds(&self) -> Result<()> {
        let sent = Instant::now();
        self.open().await?.admit("in-time").await?;
        ensure!(
            sent.elapsed() < IN_TIME,
            "a response took {:?}",
            sent.elapsed()
        );
        Ok(())
    }
}

fn resident_bytes() -> Result<usize> {
    let pages = std::fs::read_to_string("/proc/self/statm")?;
    Ok(pages.split(' ').nth(1).context("statm")?.parse::<usize>()? * 4096)
}

#[tokio::test(flavor = "multi_thread")]
async fn large_bodies_are_refused_without_using_memory() -> Result<()> {
    let _turn = MEASURING.lock().await;
    let fixture = Fixture::new(LIMITS).await?;
    let before = resident_bytes()?;
    for _ in 0..20 {
        let mut connection = fixture.open().await?;
        // The connection may be closed before the whole body was sent.
        if let Ok((code, text)) = connection.post(&vec![b' '; 10 << 20]).await {
            assert_eq!((code, text.as_str()), (413, "request payload too large\n"));
        }
    }
    let grown = resident_bytes()?.saturating_sub(before);
    ensure!(grown < 100 << 20, "{grown} bytes more");
    fixture.responds().await
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_bodies_are_admitted() -> Result<()> {
    let fixture = Fixture::new(LIMITS).await?;
    for body in [
        "",
        "{}",
        "null",
        "[",
        "\u{0}",
        r#"{"request":null}"#,
        r#"{"request":{"uid":7}}"#,
    ] {
        let (code, text) = fixture.open().await?.post(body.as_bytes()).await?;
        let review: serde_json::Value =
            serde_json::from_str(&text).with_context(|| format!("{body:?}: {code} {text}"))?;
        ensure!(
            code == 200 && review["response"]["allowed"] == true,
            "{body:?}: {code} {text}"
        );
    }
    let nested = "[".repeat(1 << 20);
    let (code, text) = fixture.open().await?.post(nested.as_bytes()).await?;
    ensure!(
        code == 200 && text.contains(r#""allowed":true"#),
        "{code} {text}"
    );
    fixture.responds().await
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_clients_are_disconnected() -> Result<()> {
    let fixture = Fixture::new(SHORT).await?;
    // An unfinished handshake.
    let mut halfway = Vec::new();
    for _ in 0..100 {
        let mut stream = TcpStream::connect(fixture.address()).await?;
        stream
            .write_all(&[0x16, 0x03, 0x01, 0x02, 0x00, 0x01])
            .await?;
        halfway.push(stream);
    }
    // A body that does not arrive.
    let mut slow = fixture.open().await?;
    slow.send_head(1000).await?;
    fixture.responds().await?;
    let (code, _) = slow.response().await?;
    assert_eq!(code, 504);
    for mut stream in halfway {
        let mut rest = Vec::new();
        timeout(Pace::WITHIN.limit, stream.read_to_end(&mut rest))
            .await
            .context("it stays open")?
            .ok();
    }
    // Headers that arrive byte by byte.
    let mut dripping = fixture.open().await?;
    eventually("it is closed", Pace::WITHIN, async || {
        ensure!(dripping.drip().await.is_err(), "it is open");
        Ok(())
    })
    .await?;
    fixture.responds().await
}

#[tokio::test(flavor = "multi_thread")]
async fn five_thousand_idle_connections_block_no_other_client() -> Result<()> {
    let _turn = MEASURING.lock().await;
    // Both ends of each are in this process.
    raise_connection_limit(2 * IDLE + 1000)?;
    let fixture = Fixture::new(LIMITS).await?;
    let before = resident_bytes()?;
    let mut idle = Vec::new();
    for number in 0..IDLE {
        idle.push(
            TcpStream::connect(fixture.address())
                .await
                .with_context(|| format!("connection {number}"))?,
        );
    }
    for _ in 0..20 {
        fixture.responds().await?;
    }
    let grown = resident_bytes()?.saturating_sub(before);
    ensure!(grown < 200 << 20, "{grown} bytes more");
    eprintln!("{IDLE} idle connections: {} KiB each", grown / IDLE / 1024);
    Ok(())
}
