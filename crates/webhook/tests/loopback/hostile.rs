//! Hostile and broken clients, none of which blocks the API server.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::ByteString;
use serving::certificates::RotationPolicy;
use serving::http_server::{Limits, raise_connection_limit};
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
use crate::rotation::managed;

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
        let managed = managed(&api_server, RotationPolicy::default());
        let replica = Replica::start(managed, &api_server, limits).await?;
        let mut secret = api_server.get("vpa-tls-certs").context("no secret")?;
        let bundle: ByteString = serde_json::from_value(secret["data"]["caCert.pem"].take())?;
        let connector = trusting(&String::from_utf8(bundle.0)?)?;
        Ok(Self { replica, connector })
    }

    async fn open(&self) -> Result<Connection> {
        Connection::open(self.replica.address, NAME, &self.connector).await
    }

    /// Expects a response in time on a new connection.
    async fn responds(&self) -> Result<()> {
        let sent = Instant::now();
        self.open().await?.admit("in-time").await?;
        let took = sent.elapsed();
        ensure!(took < IN_TIME, "a response took {took:?}");
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
    let (empty, unnamed) = (r#"{"request":null}"#, r#"{"request":{"uid":7}}"#);
    let nested = "[".repeat(1 << 20);
    for body in ["", "{}", "null", "[", "\u{0}", empty, unnamed, &nested] {
        let (code, text) = fixture.open().await?.post(body.as_bytes()).await?;
        let review: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        let is_admitted = code == 200 && review["response"]["allowed"] == true;
        ensure!(is_admitted, "{body:.99}: {code} {text}");
    }
    fixture.responds().await
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_clients_are_disconnected() -> Result<()> {
    let fixture = Fixture::new(SHORT).await?;
    // An unfinished handshake.
    let mut halfway = Vec::new();
    for _ in 0..100 {
        let mut stream = TcpStream::connect(fixture.replica.address).await?;
        stream.write_all(b"\x16\x03\x01\x02\x00\x01").await?;
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
        let closed = timeout(Pace::WITHIN.limit, stream.read_to_end(&mut rest)).await;
        closed.context("it stays open")?.ok();
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
async fn headers_without_an_end_are_refused_and_take_little_memory() -> Result<()> {
    const CONNECTIONS: usize = 1000;
    const SENT: usize = 400_000;
    let _turn = MEASURING.lock().await;
    raise_connection_limit(2 * CONNECTIONS + 1000)?;
    let fixture = Fixture::new(LIMITS).await?;
    let before = resident_bytes()?;
    let mut open = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut connection = fixture.open().await?;
        connection.admit("first").await?;
        // It is closed in the middle.
        drop(connection.endless_header(SENT).await);
        open.push(connection);
    }
    let grown = resident_bytes()?.saturating_sub(before);
    eprintln!(
        "{CONNECTIONS} endless headers: {} KiB each",
        grown / CONNECTIONS / 1024
    );
    ensure!(grown < CONNECTIONS * SENT / 4, "{grown} bytes more");
    let mut last = open.pop().context("a connection")?;
    ensure!(last.admit("second").await.is_err(), "it is still open");
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
        let opened = TcpStream::connect(fixture.replica.address).await;
        idle.push(opened.with_context(|| format!("connection {number}"))?);
    }
    for _ in 0..20 {
        fixture.responds().await?;
    }
    let grown = resident_bytes()?.saturating_sub(before);
    ensure!(grown < 200 << 20, "{grown} bytes more");
    eprintln!("{IDLE} idle connections: {} KiB each", grown / IDLE / 1024);
    Ok(())
}
