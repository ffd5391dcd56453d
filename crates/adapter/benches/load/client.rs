//! Sends requests as the API server does for the HPA controller: a few connections with the front
//! proxy's certificate, each request at its time.
//!
//! Times are absolute, and each thread sleeps until shortly before its next request and then
//! watches the clock: late timers would send bursts that no autoscaler sends. The latency of a
//! request counts from its scheduled time.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use rustls_pki_types::ServerName;
use testing::measured::Latencies;

use crate::cluster::path;
use crate::server::Server;

/// The number of the HPA controller's workers.
const CONNECTIONS: usize = 5;
/// The time before a request in which the thread does not sleep.
const WATCH: Duration = Duration::from_micros(150);
/// The HPA controller of a cluster.
const CALLER: &str = "X-Remote-User: system:serviceaccount:kube-system:horizontal-pod-autoscaler\r\n\
                      X-Remote-Group: system:serviceaccounts\r\nX-Remote-Group: system:serviceaccounts:kube-system\r\n\
                      X-Remote-Group: system:authenticated\r\n";

pub(crate) struct LoadClient {
    address: SocketAddr,
    config: Arc<ClientConfig>,
}

impl LoadClient {
    pub(crate) fn new(server: &Server) -> Self {
        Self {
            address: server.address,
            config: Arc::clone(&server.client),
        }
    }

    /// Sends this number of requests per second; without a number, as many as possible.
    pub(crate) fn ask(&self, per_second: Option<f64>, duration: Duration) -> Result<Latencies> {
        let interval = per_second.map(|rate| Duration::from_secs_f64(1.0 / rate));
        let begin = Instant::now() + Duration::from_millis(100);
        let all: Result<Vec<_>> = thread::scope(|scope| {
            let connection =
                |first| scope.spawn(move || self.keep_asking(first, begin, duration, interval));
            let threads: Vec<_> = (0..CONNECTIONS).map(connection).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?)
                .collect()
        });
        Ok(all?.into_iter().flatten().collect())
    }

    fn keep_asking(
        &self,
        first: usize,
        begin: Instant,
        duration: Duration,
        interval: Option<Duration>,
    ) -> Result<Vec<Duration>> {
        let mut connection = self.connect()?;
        let (mut latencies, mut buffer) = (Vec::new(), vec![0; 64 * 1024]);
        for turn in 0.. {
            let number = first + turn * CONNECTIONS;
            let due = interval.map_or_else(Instant::now, |interval| {
                begin + interval.mul_f64(number as f64)
            });
            if due.saturating_duration_since(begin) >= duration {
                break;
            }
            wait_until(due);
            let path = path(number);
            let request = format!(
                "GET {path} HTTP/1.1\r\nhost: adapter\r\naccept: application/vnd.kubernetes.protobuf, */*\r\n{CALLER}\r\n"
            );
            connection.write_all(request.as_bytes())?;
            let is_last = read_answer(&mut connection, &mut buffer)?;
            latencies.push(due.elapsed());
            if is_last {
                connection = self.connect()?;
            }
        }
        Ok(latencies)
    }

    fn connect(&self) -> Result<StreamOwned<ClientConnection, TcpStream>> {
        let stream = TcpStream::connect(self.address)?;
        stream.set_nodelay(true)?;
        Ok(StreamOwned::new(
            ClientConnection::new(Arc::clone(&self.config), ServerName::try_from("adapter")?)?,
            stream,
        ))
    }
}

fn wait_until(due: Instant) {
    if let Some(rest) = due
        .saturating_duration_since(Instant::now())
        .checked_sub(WATCH)
    {
        thread::sleep(rest);
    }
    while Instant::now() < due {
        std::hint::spin_loop();
    }
}

/// Reads a response, which must have a value. Returns whether the server closes the connection.
fn read_answer(
    connection: &mut StreamOwned<ClientConnection, TcpStream>,
    buffer: &mut [u8],
) -> Result<bool> {
    let mut filled = 0;
    loop {
        let read = connection.read(buffer.get_mut(filled..).context("a long answer")?)?;
        ensure!(read > 0, "the connection was closed");
        filled += read;
        let text = std::str::from_utf8(buffer.get(..filled).context("what was read")?)?;
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .context("no length")?;
        if body.len() >= length.parse()? {
            ensure!(
                head.starts_with("HTTP/1.1 200") && body.contains("\"value\":\""),
                "{text}"
            );
            return Ok(head.lines().any(|line| line == "connection: close"));
        }
    }
}
