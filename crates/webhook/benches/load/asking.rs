//! Asks for reviews and notes how long each answer took since it was due, whether or not the review
//! was sent in time: a server, or an asker, that is held up for a moment shows in every review that
//! was due meanwhile.
//!
//! One thread that never sleeps while anything is due, and no timers: it sends what is due, and
//! takes the answers that are there. It asks in rounds: the kernel takes the core from a thread of
//! real-time priority that never lets go of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

use crate::arrivals::Arrivals;
use crate::cluster::review;
use crate::connection::{Answered, Connection};
use crate::latencies::Latencies;
use crate::readiness::Readiness;
use crate::server::Server;

const CONNECTIONS: usize = 32;
/// Different reviews, each sent again and again.
const REVIEWS: usize = 2000;
/// A round and the pause before it. Linux lets such threads have 95 % of each second
/// (`sched_rt_runtime_us`). Rounds are short, so that a stall of the machine is in one of them.
pub(crate) const ROUND: Duration = Duration::from_millis(100);
const PAUSE: Duration = Duration::from_millis(12);

pub(crate) struct Asker {
    connections: Vec<Connection>,
    readiness: Readiness,
    requests: Vec<Vec<u8>>,
}

/// What came of asking.
#[derive(Default)]
pub(crate) struct Asked {
    /// How long the rounds took together.
    pub(crate) took: Duration,
    /// From when a review was due to its answer.
    pub(crate) latencies: Latencies,
    /// The 99th percentile of each round, in milliseconds.
    pub(crate) p99_by_round: Vec<f64>,
    /// By how much reviews were sent late although a connection was free for them: the asker's own
    /// fault, part of the latencies.
    pub(crate) late: Latencies,
    /// Reviews that found no connection free when they were due.
    pub(crate) crowded: usize,
    /// Answers that left the pod as it was, since the server had too much to do.
    pub(crate) unchanged: usize,
}

impl Asked {
    /// Adds one round.
    fn add(&mut self, mut round: Self) {
        self.took += round.took;
        self.p99_by_round.push(round.latencies.percentile_ms(0.99));
        self.latencies.append(round.latencies);
        self.late.append(round.late);
        self.crowded += round.crowded;
        self.unchanged += round.unchanged;
    }

    /// Answers, by the time of the rounds.
    pub(crate) fn per_second(&self) -> f64 {
        self.latencies.count() as f64 / self.took.as_secs_f64()
    }
}

impl Asker {
    pub(crate) fn new(server: &Server) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(
            server.certificate.as_bytes(),
        )?)?;
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let config = Arc::new(config);
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

    /// Asks on all connections at once: each review is due when a connection is free for it.
    pub(crate) fn as_fast_as_possible(&mut self, rounds: u32) -> Result<Asked> {
        self.in_rounds(rounds, |_, begin| {
            std::iter::from_fn(move || {
                Some(Instant::now()).filter(|now| now.duration_since(begin) < ROUND)
            })
        })
    }

    /// Asks so many times per second on average, whatever becomes of it.
    pub(crate) fn at_rate(&mut self, per_second: f64, rounds: u32) -> Result<Asked> {
        self.in_rounds(rounds, |round, begin| {
            let arrivals = Arrivals::new(per_second, round).take_while(|arrival| *arrival < ROUND);
            arrivals.map(move |arrival| begin + arrival)
        })
    }

    fn in_rounds<D>(&mut self, rounds: u32, due: impl Fn(u32, Instant) -> D) -> Result<Asked>
    where
        D: Iterator<Item = Instant>,
    {
        let mut asked = Asked::default();
        for round in 0..rounds {
            std::thread::sleep(PAUSE);
            let (begin, mut answered) = (Instant::now(), Asked::default());
            self.ask(due(round, begin), &mut answered)?;
            answered.took = begin.elapsed();
            asked.add(answered);
        }
        Ok(asked)
    }

    /// `due` says when the next review is due, and ends with the last one.
    fn ask(&mut self, mut due: impl Iterator<Item = Instant>, asked: &mut Asked) -> Result<()> {
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
                asked.late.add(now.duration_since(due_now.max(free_since)));
                asked.crowded += usize::from(free_since > due_now);
                let request = requests.next().context("a review")?;
                connections
                    .get_mut(number)
                    .context("a connection")?
                    .ask(request, due_now)?;
                waiting += 1;
                next = None;
            }
            let was_crowded = free.is_empty();
            for number in readiness.now()? {
                if let Some(Answered { due, is_changed }) = connections
                    .get_mut(number)
                    .context("a connection")?
                    .look()?
                {
                    asked.latencies.add(due.elapsed());
                    asked.unchanged += usize::from(!is_changed);
                    free.push(number);
                    waiting -= 1;
                }
            }
            if was_crowded && !free.is_empty() {
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
