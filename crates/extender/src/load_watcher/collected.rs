//! The newest load of each window, as the REST API answers it.

use std::sync::{Arc, OnceLock};

use axum::body::Bytes;
use jiff::Timestamp;
use placement::{LoadSnapshot, Window, WindowLoad};
use serde::Deserialize;

use super::{MAX_AGE, document};

/// Source of the load of nodes, with load-watcher's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Provider {
    /// metrics-server, or another provider of `metrics.k8s.io`.
    KubernetesMetricsServer,
    /// Prometheus, or another store with its API.
    Prometheus,
}

#[derive(Debug)]
pub(super) struct WindowRecord {
    pub(super) window: Window,
    pub(super) collected_at: Timestamp,
    pub(super) provider: Provider,
    /// Names of the metrics of CPU, memory, network and disk; empty if they have none.
    pub(super) metric_names: Arc<[String; 4]>,
    /// Load without bad values.
    pub(super) load: WindowLoad,
    /// JSON of all nodes, built by the first request.
    document: OnceLock<Bytes>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Collected {
    records: [Option<Arc<WindowRecord>>; 3],
}

impl Provider {
    pub fn name(self) -> &'static str {
        match self {
            Self::KubernetesMetricsServer => "KubernetesMetricsServer",
            Self::Prometheus => "Prometheus",
        }
    }
}

impl WindowRecord {
    pub(super) fn new(
        window: Window,
        collected_at: Timestamp,
        provider: Provider,
        metric_names: Arc<[String; 4]>,
        load: WindowLoad,
    ) -> Self {
        Self {
            window,
            collected_at,
            provider,
            metric_names,
            load,
            document: OnceLock::new(),
        }
    }

    /// load-watcher's JSON of all nodes. Requests share one copy.
    pub(super) fn document(&self) -> Bytes {
        let build = || document::all_nodes(self).into();
        self.document.get_or_init(build).clone()
    }
}

impl Collected {
    /// Replaces the record of a window unless it is newer.
    pub(super) fn update(&mut self, record: WindowRecord) {
        let held = &mut self.records[record.window as usize];
        if held
            .as_ref()
            .is_none_or(|held| held.load.end <= record.load.end)
        {
            *held = Some(Arc::new(record));
        }
    }

    /// All records, of the longest window first.
    pub(super) fn records(&self) -> impl Iterator<Item = &Arc<WindowRecord>> {
        self.records.iter().flatten()
    }

    /// The records of the window and of shorter ones, longest first, without stale or empty ones.
    pub(super) fn fresh(
        &self,
        longest: Window,
        now: Timestamp,
    ) -> impl Iterator<Item = &Arc<WindowRecord>> {
        let records = self.records[longest as usize..].iter().flatten();
        records.filter(move |record| {
            !record.load.nodes.is_empty() && now.duration_since(record.load.end) <= MAX_AGE
        })
    }

    pub(super) fn snapshot(&self) -> LoadSnapshot {
        let mut snapshot = LoadSnapshot::default();
        for record in self.records() {
            snapshot.update(record.window, record.load.clone());
        }
        snapshot
    }

    pub(super) fn newest(&self) -> Option<Timestamp> {
        self.records().map(|record| record.load.end).max()
    }
}
