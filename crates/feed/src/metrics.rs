//! What is measured about the feed's readers.

use std::time::Duration;

use prometheus::core::Collector;
use prometheus::{Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, Opts, Registry};

/// From a change to its message, in seconds.
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

/// Why a client was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The TLS handshake failed, for want of a certificate that we trust for instance.
    Handshake,
    /// Its certificate names no allowed client.
    Name,
    /// There are as many readers as there may be.
    Crowded,
    /// This process does not lead.
    NotLeading,
}

impl Refusal {
    const ALL: [Self; 4] = [Self::Handshake, Self::Name, Self::Crowded, Self::NotLeading];

    fn name(self) -> &'static str {
        match self {
            Self::Handshake => "handshake",
            Self::Name => "name",
            Self::Crowded => "crowded",
            Self::NotLeading => "not_leading",
        }
    }
}

impl Metrics {
    /// Adds the metrics to a registry.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counter = |name, help, label| IntCounterVec::new(Opts::new(name, help), &[label]);
        let lag = HistogramOpts::new(
            "plimsoll_feed_lag_seconds",
            "Time from a change to the message that tells it.",
        );
        let metrics = Self {
            readers: IntGauge::new("plimsoll_feed_readers", "Streams that are being read.")?,
            messages: counter(
                "plimsoll_feed_messages_total",
                "Messages to readers by kind.",
                "kind",
            )?,
            coalesced: IntCounter::new(
                "plimsoll_feed_coalesced_total",
                "Changes that a reader was too slow for; later ones took their place.",
            )?,
            refused: counter(
                "plimsoll_feed_refused_total",
                "Connections and calls that were refused.",
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
