//! Watch of the checkpoints, whose history must never be lost.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Result, ensure};
use api::checkpoint::VerticalPodAutoscalerCheckpoint as Checkpoint;
use e2e::{Follow, follow};
use k8s_openapi::jiff::Timestamp;
use kube::runtime::watcher::Event;
use kube::{Api, ResourceExt as _};
use parking_lot::Mutex;

/// Watches checkpoints of containers whose workloads stay.
pub(super) struct CheckpointWatch {
    seen: Arc<Mutex<Seen>>,
    _watch: Follow,
}

#[derive(Default)]
struct Seen {
    /// Time of the last sample and number of samples, by name.
    last: BTreeMap<String, (Timestamp, u64)>,
    listing: Vec<String>,
    losses: Vec<String>,
    writes: usize,
}

impl CheckpointWatch {
    /// From now on, of those whose names begin like this.
    pub(super) fn of(checkpoints: Api<Checkpoint>, prefix: &'static str) -> Self {
        let seen = Arc::<Mutex<Seen>>::default();
        let noted = Arc::clone(&seen);
        let watch = follow(checkpoints, move |event| noted.lock().note(event, prefix));
        Self {
            seen,
            _watch: watch,
        }
    }

    /// Checks that no history was lost; returns the number of writes.
    pub(super) fn check(&self) -> Result<usize> {
        let seen = self.seen.lock();
        ensure!(seen.losses.is_empty(), "lost histories: {:?}", seen.losses);
        Ok(seen.writes)
    }
}

impl Seen {
    fn note(&mut self, event: Event<Checkpoint>, prefix: &str) {
        match event {
            Event::Init => self.listing.clear(),
            Event::InitApply(checkpoint) => {
                self.listing.push(checkpoint.name_any());
                self.apply(&checkpoint, prefix);
            }
            Event::InitDone => {
                let gone = self.last.keys().filter(|name| !self.listing.contains(name));
                let gone = gone.map(|name| format!("{name} is gone"));
                self.losses.extend(gone.collect::<Vec<_>>());
            }
            Event::Apply(checkpoint) => self.apply(&checkpoint, prefix),
            Event::Delete(checkpoint) => {
                let name = checkpoint.name_any();
                if name.starts_with(prefix) {
                    self.losses.push(format!("{name} was deleted"));
                }
            }
        }
    }

    fn apply(&mut self, checkpoint: &Checkpoint, prefix: &str) {
        let name = checkpoint.name_any();
        let Some(status) = checkpoint
            .status
            .as_ref()
            .filter(|_| name.starts_with(prefix))
        else {
            return;
        };
        let Some(last) = status.last_sample_start.as_ref().map(|time| time.0) else {
            return;
        };
        self.writes += 1;
        let samples = u64::try_from(status.total_samples_count).unwrap_or_default();
        let (before, most) = self.last.get(&name).copied().unwrap_or((last, samples));
        // Another replica may have missed the samples of a fault, and never most of them.
        if last < before || samples < most / 2 {
            self.losses.push(format!(
                "{name}: {most} samples until {before}, then {samples} until {last}"
            ));
        }
        self.last
            .insert(name, (last.max(before), samples.max(most)));
    }
}
