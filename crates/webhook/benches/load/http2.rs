//! Processor time of the server's process per review as the API server sends them: over one
//! connection with HTTP/2, at a moderate rate.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use axum::body::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::interval;
use tokio_rustls::TlsConnector;

use crate::cluster::review;
use crate::server::Server;

/// Reviews per second, and the number sent at the same moment.
const RATES: [(u32, u32); 3] = [(200, 1), (1000, 1), (1000, 20)];
const LASTS: Duration = Duration::from_secs(5);
/// `/proc` counts processor time in hundredths of a second.
const MICROSECONDS_PER_TICK: f64 = 10_000.0;

/// Prints the processor time per review at each rate.
pub(crate) fn measure(server: &Server, mut config: ClientConfig) -> Result<()> {
    config.alpn_protocols = vec![b"h2".to_vec()];
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut sender = connect(server, config).await?;
        for (rate, burst) in RATES {
            send(&mut sender, rate, burst).await?;
            let before = ticks(server)?;
            let sent = send(&mut sender, rate, burst).await?;
            let [user, system] = [0, 1].map(|index| -> Result<f64> {
                let used = ticks(server)?[index] - before[index];
                Ok(used * MICROSECONDS_PER_TICK / f64::from(sent))
            });
            let (user, system) = (user?, system?);
            println!(
                "HTTP/2, {rate} reviews/s in bursts of {burst}: {:.0} us of processor time each ({user:.0} user, {system:.0} system)",
                user + system
            );
        }
        Ok(())
    })
}

async fn connect(server: &Server, config: ClientConfig) -> Result<SendRequest<Full<Bytes>>> {
    let stream = TcpStream::connect(server.address).await?;
    stream.set_nodelay(true)?;
    let name = ServerName::try_from("webhook")?;
    let stream = TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await?;
    let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

/// Sends reviews for a while; returns their number.
async fn send(sender: &mut SendRequest<Full<Bytes>>, rate: u32, burst: u32) -> Result<u32> {
    let every = Duration::from_secs(1) * burst / rate;
    let bursts = LASTS.div_duration_f64(every) as u32;
    let mut timer = interval(every);
    let mut answers = JoinSet::new();
    for number in 0..bursts {
        timer.tick().await;
        for index in 0..burst {
            let body = Bytes::from(review((number * burst + index) as usize * 7).to_string());
            let request = http::Request::post("https://webhook/")
                .header("content-type", "application/json")
                .body(Full::new(body))?;
            sender.ready().await?;
            let answer = sender.send_request(request);
            answers.spawn(async move { answer.await?.into_body().collect().await });
        }
        while let Some(answer) = answers.join_next().await {
            let body = answer??.to_bytes();
            ensure!(body.windows(9).any(|word| word == b"JSONPatch"), "no patch");
        }
    }
    Ok(bursts * burst)
}

/// User and system time of the process in hundredths of a second.
fn ticks(server: &Server) -> Result<[f64; 2]> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", server.process_id()))?;
    let (_, fields) = stat.rsplit_once(')').context("stat")?;
    let mut fields = fields.split_whitespace().skip(11);
    let mut next = || -> Result<f64> { Ok(fields.next().context("stat")?.parse()?) };
    Ok([next()?, next()?])
}
