//! Asks for reviews on many connections and notes how long each answer took.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::cluster::review;
use crate::server::Server;

const CONNECTIONS: usize = 32;
/// Different reviews, each sent again and again.
const REVIEWS: usize = 2000;

pub(crate) struct Asker {
    runtime: Runtime,
    server: std::net::SocketAddr,
    connector: TlsConnector,
    requests: Arc<Vec<Vec<u8>>>,
}

/// How long answers took.
#[derive(Default)]
pub(crate) struct Latencies {
    sorted: Vec<Duration>,
    /// Answers that left the pod as it was, since the server had too much to do.
    unchanged: usize,
}

impl Latencies {
    pub(crate) fn count(&self) -> usize {
        self.sorted.len()
    }

    pub(crate) fn unchanged(&self) -> usize {
        self.unchanged
    }

    pub(crate) fn percentile_ms(&self, share: f64) -> f64 {
        let last = self.sorted.len().saturating_sub(1);
        self.sorted.get((last as f64 * share) as usize).map_or(f64::NAN, |latency| latency.as_secs_f64() * 1e3)
    }

    pub(crate) fn summary(&self) -> String {
        let at = |share| self.percentile_ms(share);
        let (p50, p99, p999, most) = (at(0.5), at(0.99), at(0.999), at(1.0));
        let unchanged = self.unchanged;
        format!(
            "p50 {p50:.3} ms, p99 {p99:.3} ms, p99.9 {p999:.3} ms, at most {most:.3} ms, {unchanged} pods left as they were"
        )
    }
}

impl Asker {
    pub(crate) fn new(server: &Server) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(server.certificate.as_bytes())?)?;
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        // The thread never sleeps, and must look often whether an answer has come.
        let runtime = Builder::new_current_thread().enable_all().event_interval(4).build()?;
        let requests = (0..REVIEWS).map(|number| request(number * 7)).collect();
        Ok(Self {
            runtime,
            server: server.address,
            connector: TlsConnector::from(Arc::new(config)),
            requests: Arc::new(requests),
        })
    }

    pub(crate) fn review_bytes(&self) -> usize {
        self.requests.first().map_or(0, Vec::len)
    }

    /// Asks without a pause on all connections.
    pub(crate) fn as_fast_as_possible(&self, duration: Duration) -> Result<Latencies> {
        self.ask(duration, None)
    }

    /// Asks so many times per second.
    pub(crate) fn at_rate(&self, per_second: f64, duration: Duration) -> Result<Latencies> {
        self.ask(duration, Some(Duration::from_secs_f64(1.0 / per_second)))
    }

    fn ask(&self, duration: Duration, interval: Option<Duration>) -> Result<Latencies> {
        self.runtime.block_on(async {
            let mut connections = Vec::new();
            for _ in 0..CONNECTIONS {
                connections.push(self.connect().await?);
            }
            let begin = Instant::now();
            let mut tasks = JoinSet::new();
            for (number, connection) in connections.into_iter().enumerate() {
                let requests = Arc::clone(&self.requests);
                tasks.spawn(keep_asking(connection, requests, number, begin, duration, interval));
            }
            let mut all = Latencies::default();
            for asked in tasks.join_all().await {
                let Latencies { sorted, unchanged } = asked?;
                all.sorted.extend(sorted);
                all.unchanged += unchanged;
            }
            all.sorted.sort_unstable();
            Ok(all)
        })
    }

    async fn connect(&self) -> Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.server).await?;
        stream.set_nodelay(true)?;
        Ok(self.connector.connect(ServerName::try_from("webhook")?, stream).await?)
    }
}

fn request(number: usize) -> Vec<u8> {
    let body = review(number).to_string();
    let length = body.len();
    format!("POST /?timeout=10s HTTP/1.1\r\nhost: webhook\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}")
        .into_bytes()
}

async fn keep_asking(
    mut connection: TlsStream<TcpStream>,
    requests: Arc<Vec<Vec<u8>>>,
    first: usize,
    begin: Instant,
    duration: Duration,
    interval: Option<Duration>,
) -> Result<Latencies> {
    let mut latencies = Latencies::default();
    let mut buffer = vec![0; 16 * 1024];
    for turn in 0.. {
        let number = first + turn * CONNECTIONS;
        let due = match interval {
            None => Instant::now(),
            Some(interval) => begin + interval.mul_f64(number as f64),
        };
        if due.duration_since(begin) >= duration {
            break;
        }
        while Instant::now() < due {
            tokio::task::yield_now().await;
        }
        let request = requests.get(number % requests.len()).context("a request")?;
        connection.write_all(request).await?;
        let is_changed = read_answer(&mut connection, &mut buffer).await?;
        latencies.sorted.push(due.elapsed());
        latencies.unchanged += usize::from(!is_changed);
    }
    Ok(latencies)
}

/// Reads one answer, which must admit the pod; gives whether it changes it.
async fn read_answer(connection: &mut TlsStream<TcpStream>, buffer: &mut [u8]) -> Result<bool> {
    let mut filled = 0;
    loop {
        let room = buffer.get_mut(filled..).context("a long answer")?;
        let read = connection.read(room).await?;
        ensure!(read > 0, "the connection was closed");
        filled += read;
        let text = std::str::from_utf8(buffer.get(..filled).context("what was read")?)?;
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).context("no length")?;
        if body.len() >= length.parse()? {
            ensure!(head.starts_with("HTTP/1.1 200") && body.contains("\"allowed\":true"), "{text}");
            return Ok(body.contains("\"patch\":"));
        }
    }
}
