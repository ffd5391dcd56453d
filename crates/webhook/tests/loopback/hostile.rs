//! Clients that mean no good, or are broken: none of them keeps the API server from its answers.

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

use crate::client::{Connection, trusting};
use crate::objects::Objects;
use crate::running::{NAME, Replica};

/// A little less patient than in production.
const SHORT: Limits = Limits {
    header_timeout: Duration::from_secs(2),
    request_timeout: Duration::from_secs(2),
    ..LIMITS
};
/// Answers come within the API server's patience.
const IN_TIME: Duration = Duration::from_secs(10);
const IDLE: usize = 5000;

/// Tests that measure the memory of this process take turns.
static MEASURING: Mutex<()> = Mutex::const_new(());

struct Stage {
    replica: Replica,
    connector: TlsConnector,
}

impl Stage {
    async fn new(limits: Limits) -> Result<Self> {
        let objects = Objects::default();
        let managed = ManagedConfig {
            secrets: Api::namespaced(objects.client(), "suite"),
            secret: "vpa-tls-certs".to_owned(),
            authority: "test".to_owned(),
            names: vec![NAME.to_owned()],
            profile: RotationPolicy::default(),
            serving: ServingProfile::default(),
        };
        let replica = Replica::start(Source::Managed(Box::new(managed)), &objects, limits).await?;
        let secret = objects.get("vpa-tls-certs").context("no secret")?;
        let secret: k8s_openapi::api::core::v1::Secret = serde_json::from_value(secret)?;
        let bundle = secret
            .data
            .context("no data")?
            .remove("caCert.pem")
            .context("no authorities")?;
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

    /// The API server, with a connection of its own, gets its answer.
    async fn answers(&self) -> Result<()> {
        let asked = Instant::now();
        self.open().await?.admit("in-time").await?;
        ensure!(
            asked.elapsed() < IN_TIME,
            "an answer took {:?}",
            asked.elapsed()
        );
        Ok(())
    }
}

fn resident_bytes() -> Result<usize> {
    let pages = std::fs::read_to_string("/proc/self/statm")?;
    Ok(pages.split(' ').nth(1).context("statm")?.parse::<usize>()? * 4096)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_of_ten_megabytes_is_refused_and_costs_little() -> Result<()> {
    let _turn = MEASURING.lock().await;
    let stage = Stage::new(LIMITS).await?;
    let before = resident_bytes()?;
    for _ in 0..20 {
        let mut connection = stage.open().await?;
        // The refusal may come before everything was sent, and the connection be closed then.
        if let Ok((code, text)) = connection.post(&vec![b' '; 10 << 20]).await {
            assert_eq!((code, text.as_str()), (413, "request payload too large\n"));
        }
    }
    let grown = resident_bytes()?.saturating_sub(before);
    ensure!(grown < 100 << 20, "{grown} bytes more");
    stage.answers().await
}

#[tokio::test(flavor = "multi_thread")]
async fn nonsense_is_admitted_or_refused_but_never_the_end() -> Result<()> {
    let stage = Stage::new(LIMITS).await?;
    for body in [
        "",
        "{}",
        "null",
        "[",
        "\u{0}",
        r#"{"request":null}"#,
        r#"{"request":{"uid":7}}"#,
    ] {
        let (code, text) = stage.open().await?.post(body.as_bytes()).await?;
        let answer: serde_json::Value =
            serde_json::from_str(&text).with_context(|| format!("{body:?}: {code} {text}"))?;
        ensure!(
            code == 200 && answer["response"]["allowed"] == true,
            "{body:?}: {code} {text}"
        );
    }
    let nested = "[".repeat(1 << 20);
    let (code, text) = stage.open().await?.post(nested.as_bytes()).await?;
    ensure!(
        code == 200 && text.contains(r#""allowed":true"#),
        "{code} {text}"
    );
    stage.answers().await
}

#[tokio::test(flavor = "multi_thread")]
async fn those_who_dawdle_are_shown_out() -> Result<()> {
    let stage = Stage::new(SHORT).await?;
    // A handshake that stops halfway.
    let mut halfway = Vec::new();
    for _ in 0..100 {
        let mut stream = TcpStream::connect(stage.address()).await?;
        stream
            .write_all(&[0x16, 0x03, 0x01, 0x02, 0x00, 0x01])
            .await?;
        halfway.push(stream);
    }
    // A body that does not come.
    let mut slow = stage.open().await?;
    slow.send_head(1000).await?;
    stage.answers().await?;
    let (code, _) = slow.answer().await?;
    assert_eq!(code, 504);
    for mut stream in halfway {
        let mut rest = Vec::new();
        timeout(Pace::WITHIN.limit, stream.read_to_end(&mut rest))
            .await
            .context("it stays open")?
            .ok();
    }
    // Headers that come drop by drop.
    let mut dripping = stage.open().await?;
    eventually("it is closed", Pace::WITHIN, async || {
        ensure!(dripping.drip().await.is_err(), "it is open");
        Ok(())
    })
    .await?;
    stage.answers().await
}

#[tokio::test(flavor = "multi_thread")]
async fn five_thousand_idle_connections_keep_nobody_waiting() -> Result<()> {
    let _turn = MEASURING.lock().await;
    // Both ends of each are in this process.
    raise_connection_limit(2 * IDLE + 1000)?;
    let stage = Stage::new(LIMITS).await?;
    let before = resident_bytes()?;
    let mut idle = Vec::new();
    for number in 0..IDLE {
        idle.push(
            TcpStream::connect(stage.address())
                .await
                .with_context(|| format!("connection {number}"))?,
        );
    }
    for _ in 0..20 {
        stage.answers().await?;
    }
    let grown = resident_bytes()?.saturating_sub(before);
    ensure!(grown < 200 << 20, "{grown} bytes more");
    eprintln!("{IDLE} idle connections: {} KiB each", grown / IDLE / 1024);
    Ok(())
}
