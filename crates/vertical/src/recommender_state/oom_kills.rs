//! OOM kills: which of them count, and the objects whose recommendations they change.
//!
//! The watch reports kills while a pod is known. Earlier ones are found in the pod when it is
//! loaded, so no kill before the start of this process, or in the first moment of a pod, is lost. A
//! kill that was found and is also reported counts once.
//!
//! An earlier kill may already be in the stored history. Checkpoints leave out the open memory
//! window, which lasts one interval, so a kill is certainly stored only if the checkpoint was
//! written one interval after it or later. Then it is ignored, otherwise it counts. Between the end
//! of its window and the end of that interval it may count twice, which is the lesser evil. A kill
//! older than the whole retention never counts.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use model::ContainerRef;
use sizing::MemoryRules;
use view::oom_kill::oom_kills;
use view::{ObjectKey, OomKill, Pod, View};

use super::RecommenderState;

pub(super) fn container(kill: &OomKill) -> ContainerRef {
    let (namespace, pod) = (kill.pod.namespace.clone(), kill.pod.name.clone());
    ContainerRef {
        namespace,
        pod,
        container: kill.container.clone(),
    }
}

/// Numbers of OOM kills by result. Those that were found before they were reported count once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OomKillCounts {
    /// Kills that entered a history.
    pub accepted: u64,
    /// Kills that are too old, or of unknown containers.
    pub refused: u64,
    /// Kills that are in the stored history.
    pub stored: u64,
}

impl RecommenderState {
    /// Adds a reported kill. An unknown pod is loaded first; the kills found in it are counted too.
    /// Returns whether any kill entered a history.
    pub fn add_oom_kill(
        &mut self,
        kill: &OomKill,
        view: &View,
        now: Timestamp,
        count: &mut OomKillCounts,
    ) -> bool {
        let before = count.accepted;
        self.load_pod_of(kill, view, now, count);
        if !self.is_found(kill) {
            self.record(kill, now, count);
        }
        count.accepted > before
    }

    /// The objects of this recommender that select a pod.
    pub fn vpas_of(&self, pod: &ObjectKey) -> impl Iterator<Item = ObjectKey> {
        self.cluster.vpas_of(&pod.namespace, &pod.name).into_iter()
    }

    /// Adds the kills in the status of a pod that is loaded.
    pub(super) fn find_oom_kills(
        &mut self,
        pod: &Arc<Pod>,
        now: Timestamp,
        count: &mut OomKillCounts,
    ) {
        let kills = oom_kills(None, pod);
        self.found_oom_kills.remove(&pod.key);
        if !kills.is_empty() {
            let found = kills.iter().map(|kill| (kill.container.clone(), kill.at));
            self.found_oom_kills
                .insert(pod.key.clone(), found.collect());
        }
        for kill in &kills {
            self.record(kill, now, count);
        }
    }

    /// Whether a kill was found when its pod was loaded.
    fn is_found(&self, kill: &OomKill) -> bool {
        let mut found = self.found_oom_kills.get(&kill.pod).into_iter().flatten();
        kill.seen_in.is_some() && found.any(|(name, at)| *name == kill.container && *at == kill.at)
    }

    /// Loads the pod of a kill: pods are loaded in batches, which a kill does not wait for.
    fn load_pod_of(
        &mut self,
        kill: &OomKill,
        view: &View,
        now: Timestamp,
        count: &mut OomKillCounts,
    ) {
        if self.cluster.pod(&kill.pod).is_some() {
            return;
        }
        let pod = view.pods.get(&kill.pod).or(kill.seen_in.as_ref());
        if let Some(pod) = pod.filter(|pod| self.is_wanted(pod)) {
            self.load_pod(pod, view, now, count);
        }
    }

    fn record(&mut self, kill: &OomKill, now: Timestamp, count: &mut OomKillCounts) {
        let container = container(kill);
        let MemoryRules {
            interval_ns,
            interval_count,
            ..
        } = self.cluster.memory_rules(&container);
        let interval = SignedDuration::from_nanos(interval_ns);
        let is_old = self.clock.at_most(now).duration_since(kill.at)
            >= SignedDuration::from_nanos(interval_ns.saturating_mul(interval_count));
        if is_old {
            count.refused += 1;
            return;
        }
        // History from a clock that was ahead says nothing about kills of the present.
        let stored = self.stored_until(kill).filter(|stored| *stored <= now);
        if stored.is_some_and(|stored| stored.duration_since(kill.at) >= interval) {
            count.stored += 1;
            return;
        }
        match self
            .cluster
            .record_oom(&container, kill.at, kill.memory, now)
        {
            Ok(true) => {
                tracing::info!(pod = %kill.pod, container = kill.container, at = %kill.at, "OOM kill");
                count.accepted += 1;
            }
            Ok(false) => count.refused += 1,
            Err(error) => {
                tracing::debug!(%error, "refused an OOM kill");
                count.refused += 1;
            }
        }
    }

    /// The time of the last checkpoint of the killed container, if that was loaded.
    fn stored_until(&self, kill: &OomKill) -> Option<Timestamp> {
        let loaded = self.vpas_of(&kill.pod).filter(|key| {
            self.history.is_none()
                && self
                    .vpas
                    .get(key)
                    .is_some_and(|own| own.rounds.loaded.contains(&kill.container))
        });
        loaded
            .filter_map(|key| self.stored_history.stored_until(&key, &kill.container))
            .max()
    }
}
