//! Metrics of the feed server.

use std::time::Duration;

use prometheus::{Histogram, IntCounter, IntCounterVec, IntGauge};

/// Delay from a change to its message, in seconds.
const LAG_BUCKETS: [f64; 12] = [
    0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0,
];

runtime::metrics! {
    /// All metrics of a server. Clones share them.
    pub struct Metrics {
        pub(crate) readers: IntGauge = "plimsoll_feed_readers", "Open streams.";
        pub(crate) messages: IntCounterVec { kind: ["reset", "apply", "delete"] }
            = "plimsoll_feed_messages_total", "Messages to readers by kind.";
        pub(crate) coalesced: IntCounter = "plimsoll_feed_coalesced_total",
            "Changes replaced by later ones before a slow reader received them.";
        pub(crate) refused: IntCounterVec { reason: Refusal::ALL.map(Refusal::name) }
            = "plimsoll_feed_refused_total", "Refused connections and calls by reason.";
        pub(crate) lag: Histogram [LAG_BUCKETS] = "plimsoll_feed_lag_seconds",
            "Delay from a change to its message in seconds.";
        pub(crate) oversized: IntCounter = "plimsoll_feed_oversized_values_total",
            "Values left out because they are larger than 1 MiB; readers use the status of the object.";
    }
}

/// Reasons for refusing a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The TLS handshake failed, for example without a trusted certificate.
    Handshake,
    /// The certificate names no allowed client.
    Name,
    TooManyReaders,
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
