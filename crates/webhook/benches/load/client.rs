//! The client. It measures latencies from the time at which a review is due, not from that at which
//! it is sent, so a stall of server or client counts for each review due meanwhile.
//!
//! One thread without timers: in a round it polls continuously. Between rounds it sleeps, because
//! the kernel takes the core away from a thread of real-time priority that never does. Reviews arrive at
//! random, as a Poisson process, like the creation of pods by many controllers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use testing::measured::Latencies;

use crate::cluster::review;
use crate::connection::{Connection, Readiness, Reviewed};
use crate::server::Server;

const CONNECTIONS: usize = 32;
/// Number of different reviews, sent in turn.
const REVIEWS: usize = 2000;
/// Length of a round and of the pause before it. Linux limits threads of real-time priority to 95 %
/// of each second (`sched_rt_runtime_us`). Rounds are short, so that a stall hits only one.
pub(crate) const ROUND: Duration = Duration::from_millis(100);
const PAUSE: Duration = Duration::from_millis(12);

pub(crate) struct Client {
    connections: Vec<Connection>,
    readiness: Readiness,
    requests: Vec<Vec<u8>>,
}

#[derive(Default)]
pub(crate) struct LoadResult {
    /// Time of all rounds together.
    pub(crate) took: Duration,
    /// Times from a review being due to its response.
    pub(crate) latencies: Latencies,
    /// The 99th percentile of each round, in milliseconds.
    pub(crate) p99_by_round: Vec<f64>,
    /// Delays of the client in sending reviews while a connection was free; part of the latencies.
    pub(crate) late: Latencies,
    /// Number of reviews without a free connection when they were due.
    pub(crate) without_connection: usize,
    /// Number of pods admitted unchanged, because of overload.
    pub(crate) unchanged: usize,
}

impl LoadResult {
    fn add(&mut self, mut round: Self) {
        self.took += round.took;
        self.p99_by_round.push(round.latencies.percentile_ms(0.99));
        self.latencies.append(round.latencies);
        self.late.append(round.late);
        self.without_connection += round.without_connection;
        self.unchanged += round.unchanged;
    }

    /// Responses per second of the rounds.
    pub(crate) fn per_second(&self) -> f64 {
        self.latencies.count() as f64 / self.took.as_secs_f64()
    }
}

pub(crate) fn tls_config(server: &Server) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let certificate = server.certificate.as_bytes();
    roots.add(CertificateDer::from_pem_slice(certificate)?)?;
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}

impl Client {
    pub(crate) fn new(server: &Server) -> Result<Self> {
        let config = Arc::new(tls_config(server)?);
        let open = |_| Connection::open(server.address, Arc::clone(&config));
        let connections = (0..CONNECTIONS).map(open).collect::<Result<Vec<_>>>()?;
        Ok(Self {
            readiness: Readiness::of(&connections)?,
            connections,
            requests: (0..REVIEWS).map(|number| request(number * 7)).collect(),
        })
    }

    pub(crate) fn review_bytes(&self) -> usize {
        self.requests.first().map_or(0, Vec::len)
    }

    /// Sends reviews on all connections: each is due when a connection is free.
    pub(crate) fn as_fast_as_possible(&mut self, rounds: u32) -> Result<LoadResult> {
        self.in_rounds(rounds, |_, begin| {
            std::iter::from_fn(move || {
                Some(Instant::now()).filter(|now| now.duration_since(begin) < ROUND)
            })
        })
    }

    /// Sends reviews with random arrivals at this average rate.
    pub(crate) fn at_rate(&mut self, per_second: f64, rounds: u32) -> Result<LoadResult> {
        self.in_rounds(rounds, |round, begin| {
            let arrivals = Arrivals::new(per_second, round).take_while(|arrival| *arrival < ROUND);
            arrivals.map(move |arrival| begin + arrival)
        })
    }

    fn in_rounds<D>(&mut self, rounds: u32, due: impl Fn(u32, Instant) -> D) -> Result<LoadResult>
    where
        D: Iterator<Item = Instant>,
    {
        let mut all = LoadResult::default();
        for round in 0..rounds {
            std::thread::sleep(PAUSE);
            let (begin, mut result) = (Instant::now(), LoadResult::default());
            self.round(due(round, begin), &mut result)?;
            result.took = begin.elapsed();
            all.add(result);
        }
        Ok(all)
    }

    /// Sends one review for each time of `due`.
    fn round(
        &mut self,
        mut due: impl Iterator<Item = Instant>,
        result: &mut LoadResult,
    ) -> Result<()> {
        let Self {
            connections,
            readiness,
            requests,
        } = self;
        let mut requests = requests.iter().cycle();
        let mut free: Vec<usize> = (0..connections.len()).collect();
        let mut waiting = 0_usize;
        let mut free_since = Instant::now();
        let (mut next, mut is_over) = (None, false);
        while !is_over || waiting > 0 {
            if next.is_none() && !is_over && !free.is_empty() {
                next = due.next();
                is_over = next.is_none();
            }
            let now = Instant::now();
            if let Some(due_now) = next.filter(|due| *due <= now)
                && let Some(number) = free.pop()
            {
                result.late.add(now.duration_since(due_now.max(free_since)));
                result.without_connection += usize::from(free_since > due_now);
                let request = requests.next().context("a review")?;
                let connection = connections.get_mut(number).context("a connection")?;
                connection.send(request, due_now)?;
                waiting += 1;
                next = None;
            }
            let were_all_busy = free.is_empty();
            for number in readiness.now()? {
                let connection = connections.get_mut(number).context("a connection")?;
                if let Some(Reviewed { due, is_patched }) = connection.poll()? {
                    result.latencies.add(due.elapsed());
                    result.unchanged += usize::from(!is_patched);
                    free.push(number);
                    waiting -= 1;
                }
            }
            if were_all_busy && !free.is_empty() {
                free_since = Instant::now();
            }
        }
        Ok(())
    }
}

fn request(number: usize) -> Vec<u8> {
    let body = review(number).to_string();
    let length = body.len();
    format!("POST /?timeout=10s HTTP/1.1\r\nhost: webhook\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}")
        .into_bytes()
}

/// An endless ascending sequence of arrival times. Each `series` is deterministic.
pub(crate) struct Arrivals {
    mean: Duration,
    last: Duration,
    state: u64,
}

impl Arrivals {
    pub(crate) fn new(per_second: f64, series: u32) -> Self {
        Self {
            mean: Duration::from_secs_f64(1.0 / per_second),
            last: Duration::ZERO,
            state: series.into(),
        }
    }

    /// Uniformly distributed in (0, 1]. Steele, Lea, Flood: Fast splittable pseudorandom number
    /// generators (2014), `SplitMix64`.
    fn uniform(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((mixed ^ (mixed >> 31)) >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }
}

impl Iterator for Arrivals {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let pause = -self.uniform().ln();
        self.last += self.mean.mul_f64(pause);
        Some(self.last)
    }
}
