//! Metrics of the feed server.

use std::time::Duration;

use prometheus::core::Collector;
use prometheus::{Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, Opts, Registry};

/// Delay from a change to its message, in seconds.
const LAG_BUCKETS: [f64; 12] = [
    0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0,
];

/// All metrics of a server. Clones share them.
#[derive(Debug, Clone)]
pub struct Metrics {
    pub(crate) readers: IntGauge,
    pub(crate) messages: IntCounterVec,
    pub(crate) coalesced: IntCounter,
    pub(crate) refused: IntCounterVec,
    pub(crate) lag: Histogram,
    pub(crate) oversized: IntCounter,
}

/// Reasons for refusing a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The TLS handshake failed, for example without a trusted certificate.
    Handshake,
    /// The certificate names no allowed client.
    Name,
    /// The limit of readers is reached.
    TooManyReaders,
    /// This process is not the leader.
    NotLeading,
}

impl Refusal {
    const ALL: [Self; 4] = [
        Self::Handshake,
        Self::Name,
        Self::TooManyReaders,
        Self::NotLeading,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Handshake => "handshake",
            Self::Name => "name",
            Self::TooManyReaders => "crowded",
            Self::NotLeading => "not_leading",
        }
    }
}

impl Metrics {
    /// Creates and registers the metrics.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counter = |name, help, label| IntCounterVec::new(Opts::new(name, help), &[label]);
        let lag = HistogramOpts::new(
            "plimsoll_feed_lag_seconds",
            "Delay from a change to its message in seconds.",
        );
        let metrics = Self {
            readers: IntGauge::new("plimsoll_feed_readers", "Open streams.")?,
            messages: counter(
                "plimsoll_feed_messages_total",
                "Messages to readers by kind.",
                "kind",
            )?,
            coalesced: IntCounter::new(
                "plimsoll_feed_coalesced_total",
                "Changes replaced by later ones before a slow reader received them.",
            )?,
            refused: counter(
                "plimsoll_feed_refused_total",
                "Refused connections and calls by reason.",
                "reason",
            )?,
            lag: Histogram::with_opts(lag.buckets(LAG_BUCKETS.to_vec()))?,
            oversized: IntCounter::new(
                "plimsoll_feed_oversized_values_total",
                "Values left out because they are larger than 1 MiB; readers use the status of the object.",
            )?,
        };
        for kind in ["reset", "apply", "delete"] {
            metrics.messages.with_label_values(&[kind]);
        }
        for refusal in Refusal::ALL {
            metrics.refused.with_label_values(&[refusal.name()]);
        }
        let all: [Box<dyn Collector>; 6] = [
            Box::new(metrics.readers.clone()),
            Box::new(metrics.messages.clone()),
            Box::new(metrics.coalesced.clone()),
            Box::new(metrics.refused.clone()),
            Box::new(metrics.lag.clone()),
            Box::new(metrics.oversized.clone()),
        ];
        all.into_iter()
            .try_for_each(|collector| registry.register(collector))?;
        Ok(metrics)
    }

    pub(crate) fn sent(&self, kind: &str, coalesced: u64, waited: Option<Duration>) {
        self.messages.with_label_values(&[kind]).inc();
        self.coalesced.inc_by(coalesced);
        if let Some(waited) = waited {
            self.lag.observe(waited.as_secs_f64());
        }
    }

    pub(crate) fn refused(&self, refusal: Refusal) {
        self.refused.with_label_values(&[refusal.name()]).inc();
    }
}
