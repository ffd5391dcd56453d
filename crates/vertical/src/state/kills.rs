//! Kills for want of memory: which of them count, and the objects whose numbers they change.
//!
//! Kills that happen while a pod is known are told one by one. Those from before are found in the
//! pod when it is taken over, so that neither a kill before the start of this process is lost nor
//! one in the first moment of a pod. A kill that was found in this way and is told as well counts
//! once.
//!
//! A kill from before may be in the stored history already. What is stored leaves out the window of
//! memory that is open, and a window lasts for one interval, so a kill is surely in there only if
//! it was stored an interval after the kill or later. Then it is passed over, and otherwise it
//! counts. Between the end of its window and the end of that interval it may count twice, which is
//! the lesser evil. A kill of which all history would have been dropped by now never counts.

use std::collections::BTreeMap;
use std::iter::Sum;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use model::{ContainerRef, Selector};
use sizing::MemoryRules;
use view::oom::oom_kills;
use view::{ObjectKey, OomKill, Pod, View};

use super::{State, selectors};

/// The container that was killed.
pub(super) fn container(kill: &OomKill) -> ContainerRef {
    let (namespace, pod) = (kill.pod.namespace.clone(), kill.pod.name.clone());
    ContainerRef {
        namespace,
        pod,
        container: kill.container.clone(),
    }
}

/// What became of a kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KillFate {
    /// It entered a history.
    Accepted,
    /// It is too old to matter, or of a container that is not known.
    Refused,
    /// Stored history has it.
    Stored,
    /// It was found in the pod before it was told.
    Counted,
}

/// What became of some kills.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KillCount {
    /// They entered a history.
    pub accepted: u64,
    /// They are too old to matter, or of containers that are not known.
    pub refused: u64,
    /// Stored history has them.
    pub stored: u64,
}

impl KillCount {
    /// Counts one more. One that was counted before is none.
    pub fn add(&mut self, fate: KillFate) {
        match fate {
            KillFate::Accepted => self.accepted += 1,
            KillFate::Refused => self.refused += 1,
            KillFate::Stored => self.stored += 1,
            KillFate::Counted => {}
        }
    }
}

impl Sum for KillCount {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), |total, count| Self {
            accepted: total.accepted + count.accepted,
            refused: total.refused + count.refused,
            stored: total.stored + count.stored,
        })
    }
}

/// Container and time of the kills that were found in each pod. Few pods have any.
#[derive(Debug, Default)]
pub(super) struct FoundKills(BTreeMap<ObjectKey, Vec<(String, Timestamp)>>);

impl FoundKills {
    fn set(&mut self, pod: &ObjectKey, kills: &[OomKill]) {
        self.forget(pod);
        if !kills.is_empty() {
            self.0.insert(
                pod.clone(),
                kills
                    .iter()
                    .map(|kill| (kill.container.clone(), kill.at))
                    .collect(),
            );
        }
    }

    fn include(&self, kill: &OomKill) -> bool {
        let found = self.0.get(&kill.pod).into_iter().flatten();
        kill.seen_in.is_some()
            && found
                .into_iter()
                .any(|(name, at)| *name == kill.container && *at == kill.at)
    }

    pub(super) fn forget(&mut self, pod: &ObjectKey) {
        self.0.remove(pod);
    }
}

impl State {
    /// Adds a kill that was told. Its pod is taken over first if it is not known yet; what is found
    /// in it goes into `count`, as the kill does. Gives whether anything entered a history.
    pub fn add_kill(
        &mut self,
        kill: &OomKill,
        view: &View,
        now: Timestamp,
        count: &mut KillCount,
    ) -> bool {
        let before = count.accepted;
        *count = [*count, self.load_pod_of(kill, view, now)]
            .into_iter()
            .sum();
        let fate = if self.found_kills.include(kill) {
            KillFate::Counted
        } else {
            self.record(kill, now)
        };
        count.add(fate);
        count.accepted > before
    }

    /// The objects that this recommender is in charge of and that size a pod.
    pub fn autoscalers_of(&self, pod: &ObjectKey) -> impl Iterator<Item = ObjectKey> {
        self.cluster
            .autoscalers_of(&pod.namespace, &pod.name)
            .into_iter()
    }

    /// Adds the kills that a pod tells of when it is taken over.
    pub(super) fn find_kills(&mut self, pod: &Arc<Pod>, now: Timestamp) -> KillCount {
        let kills = oom_kills(None, pod);
        self.found_kills.set(&pod.key, &kills);
        let mut count = KillCount::default();
        for kill in &kills {
            count.add(self.record(kill, now));
        }
        count
    }

    /// Pods are taken over when changes have settled, which a kill does not wait for.
    fn load_pod_of(&mut self, kill: &OomKill, view: &View, now: Timestamp) -> KillCount {
        if self.pods.contains_key(&kill.pod) {
            return KillCount::default();
        }
        let Some(pod) = view.pods.get(&kill.pod).or(kill.seen_in.as_ref()) else {
            return KillCount::default();
        };
        let selects = |(namespace, selector): (&str, &Selector)| {
            namespace == pod.key.namespace && selector.matches(&pod.labels)
        };
        let is_wanted = !self.charge.memory_saver || selectors(&self.autoscalers).any(selects);
        if is_wanted {
            self.load_pod(pod, now)
        } else {
            KillCount::default()
        }
    }

    fn record(&mut self, kill: &OomKill, now: Timestamp) -> KillFate {
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
            return KillFate::Refused;
        }
        // History that a clock ahead has dated in the future holds no kill of the present.
        let stored = self.stored_until(kill).filter(|stored| *stored <= now);
        if stored.is_some_and(|stored| stored.duration_since(kill.at) >= interval) {
            return KillFate::Stored;
        }
        match self
            .cluster
            .record_oom(&container, kill.at, kill.memory, now)
        {
            Ok(true) => {
                tracing::info!(pod = %kill.pod, container = kill.container, at = %kill.at, "killed for want of memory");
                KillFate::Accepted
            }
            Ok(false) => KillFate::Refused,
            Err(error) => {
                tracing::debug!(%error, "a kill for want of memory cannot be used");
                KillFate::Refused
            }
        }
    }

    /// When the history of the killed container was last stored, of what was taken over from there.
    fn stored_until(&self, kill: &OomKill) -> Option<Timestamp> {
        let loaded = self.autoscalers_of(&kill.pod).filter(|key| {
            self.history.is_none()
                && self
                    .autoscalers
                    .get(key)
                    .is_some_and(|own| own.loaded.contains(&kill.container))
        });
        loaded
            .filter_map(|key| self.past.stored_until(&key, &kill.container))
            .max()
    }
}
