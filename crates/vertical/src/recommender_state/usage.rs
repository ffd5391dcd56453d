//! Input of usage and OOM kills, and what was recommended when they came.
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

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use api::vpa::UpdateMode;
use jiff::{SignedDuration, Timestamp};
use model::{ContainerRef, ContainerUsage, Cpu, Memory, ResourceList, Sample, Selector, WHOLE_POD};
use sizing::MemoryRules;
use view::oom_kill::oom_kills;
use view::{ContainerStatus, ObjectKey, OomKill, Phase, Pod, View};

use super::RecommenderState;
use crate::{Accepted, SampleError};

/// Number of intervals after its start for which a pod may have no usage. A metrics server takes one or
/// two.
const MAX_UNMEASURED_ROUNDS: u32 = 3;

/// Judgement of an answer of a source of usage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgedUsage {
    /// Ready pods without a sample, although they have run for some rounds.
    pub unmeasured: Vec<ObjectKey>,
    /// Whether it answered. A part of the samples is an answer. An empty list is not while pods run:
    /// prometheus-adapter answers so while its Prometheus is down.
    pub is_answer: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ingested {
    /// Samples that entered a history.
    pub accepted: usize,
    /// Samples that were known before.
    pub repeated: usize,
    /// Samples of unknown containers: of new or deleted pods, or of pods that no object selects.
    pub unknown: usize,
    /// Samples with a time in the future.
    pub future: usize,
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

/// Recommendation in effect for a container, for `vpa_quality_*`.
#[derive(Debug, Clone, Copy)]
pub struct Recommended<'a> {
    pub update_mode: Option<UpdateMode>,
    /// Uncapped target; `None` without a recommendation.
    pub uncapped: Option<&'a ResourceList>,
}

/// The samples of each pod, which follow each other.
fn by_pod(usage: &[ContainerUsage]) -> impl Iterator<Item = &[ContainerUsage]> {
    usage.chunk_by(|one, other| {
        let [one, other] = [one, other].map(|usage| &usage.container);
        (&one.namespace, &one.pod) == (&other.namespace, &other.pod)
    })
}

impl RecommenderState {
    /// Begins a round: compares the samples with the clock. [`Self::take_usage`] adds them.
    pub fn begin_usage(&mut self, usage: &[ContainerUsage], now: Timestamp) {
        // One vote per pod: a tenant may make up containers.
        let times = by_pod(usage).filter_map(|pod| pod.iter().map(|usage| usage.sample.at).max());
        if let Some(first) = self.clock.measure(times, now) {
            self.stored_history.measured(first);
        }
    }

    /// The usage of pods that are sized as a whole: the sums over their containers. A pod without a sample
    /// of each running container has none, since its sum would be too small.
    pub fn whole_pods(&self, usage: &[ContainerUsage]) -> Vec<ContainerUsage> {
        if !self.cluster.has_whole_pods() {
            return Vec::new();
        }
        let whole = by_pod(usage).filter_map(|all| {
            let ContainerRef { namespace, pod, .. } = &all.first()?.container;
            if !self.cluster.sizes_whole(namespace, pod) {
                return None;
            }
            let object = self.cluster.pod(&ObjectKey::new(&**namespace, &**pod))?;
            let containers = object.containers.iter().map(|it| (&it.name, &it.status));
            let sidecars = object.sidecars.iter().map(|it| (&it.name, &it.status));
            let mut containers = containers.chain(sidecars);
            let is_measured = |name: &str| all.iter().any(|it| it.container.container == name);
            let is_complete = containers.all(|(name, status)| {
                is_measured(name) || !ContainerStatus::is_running(status.as_ref())
            });
            is_complete.then_some(())?;
            let sum = |amount: fn(&Sample) -> Option<i64>| {
                let mut amounts = all.iter().map(|it| amount(&it.sample));
                amounts.try_fold(0, |sum: i64, it| Some(sum.saturating_add(it?)))
            };
            Some(ContainerUsage {
                container: ContainerRef {
                    container: WHOLE_POD.to_owned(),
                    ..all[0].container.clone()
                },
                sample: Sample {
                    at: all.iter().map(|it| it.sample.at).max()?,
                    cpu: sum(|it| it.cpu.map(Cpu::millicores)).map(Cpu::from_millicores),
                    memory: sum(|it| it.memory.map(Memory::bytes)).map(Memory::from_bytes),
                },
            })
        });
        whole.collect()
    }

    /// Adds a batch of samples. Calls `judge` for each sample that entered a history.
    pub fn take_usage(
        &mut self,
        usage: &[ContainerUsage],
        now: Timestamp,
        judge: impl Fn(&Self, &ContainerUsage, Accepted),
    ) -> Ingested {
        let mut ingested = Ingested::default();
        for usage in usage {
            match self
                .cluster
                .add_sample(&usage.container, &usage.sample, now)
            {
                Ok(accepted) if accepted.cpu || accepted.memory => {
                    ingested.accepted += 1;
                    judge(self, usage, accepted);
                }
                Ok(_) => ingested.repeated += 1,
                Err(SampleError::UnknownContainer(_)) => ingested.unknown += 1,
                Err(SampleError::Future { .. }) => ingested.future += 1,
            }
        }
        ingested
    }

    /// The pods of every object, each with every selector that matches it. Finished pods use nothing.
    pub fn measurable_pods(&self) -> impl Iterator<Item = (&ObjectKey, &Selector)> {
        let live = self.cluster.pods().filter(|pod| !pod.is_finished());
        live.flat_map(move |pod| {
            let vpas = self.cluster.vpas_of(&pod.key.namespace, &pod.key.name);
            let vpas = vpas.filter_map(|mut of_selector| of_selector.next());
            vpas.filter_map(move |vpa| Some((&pod.key, self.vpas.get(&vpa)?.selector()?)))
        })
    }

    /// Judges what a source of usage said at `now`, where it answered all requests or not.
    pub fn judge_usage(
        &self,
        usage: &[ContainerUsage],
        is_complete: bool,
        now: Timestamp,
    ) -> JudgedUsage {
        let measured = usage.iter().map(|usage| &usage.container);
        let measured: HashSet<(&str, &str)> = measured
            .map(|container| (&*container.namespace, &*container.pod))
            .collect();
        let patience = self.config.usage_interval * MAX_UNMEASURED_ROUNDS;
        let patience = SignedDuration::try_from(patience).unwrap_or(SignedDuration::MAX);
        let is_expected = |pod: &Pod| {
            let is_ready = pod.phase == Phase::Running && pod.ready_after_seconds.is_some();
            let started = pod.started_at;
            is_ready && started.is_some_and(|at| now.duration_since(at) > patience)
        };
        let expected = self.cluster.pods().filter(|pod| is_expected(pod));
        let mut unmeasured: Vec<_> = expected
            .map(|pod| &pod.key)
            .filter(|key| !measured.contains(&(&key.namespace, &key.name)))
            .cloned()
            .collect();
        unmeasured.sort_unstable();
        JudgedUsage {
            is_answer: !usage.is_empty() || is_complete && unmeasured.is_empty(),
            unmeasured,
        }
    }

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
        // Pods are loaded in batches, which a kill does not wait for.
        if self.cluster.pod(&kill.pod).is_none() {
            let pod = view.pods.get(&kill.pod).or(kill.seen_in.as_ref());
            if let Some(pod) = pod.filter(|pod| self.is_wanted(pod)) {
                self.load_pod(pod, view, now, count);
            }
        }
        if !self.is_found(kill) {
            self.record(kill, now, count);
        }
        count.accepted > before
    }

    /// The objects of this recommender that select a pod.
    pub fn vpas_of(&self, pod: &ObjectKey) -> impl Iterator<Item = ObjectKey> {
        self.cluster.vpas_of(&pod.namespace, &pod.name).flatten()
    }

    /// Adds the objects of this recommender that select a pod, those of each selector once for all pods.
    /// `objects` is filled by this alone.
    pub fn add_vpas_of(&self, pod: &ObjectKey, objects: &mut BTreeSet<ObjectKey>) {
        for mut of_selector in self.cluster.vpas_of(&pod.namespace, &pod.name) {
            if of_selector
                .next()
                .is_some_and(|first| objects.insert(first))
            {
                objects.extend(of_selector);
            }
        }
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

    /// The same kill as one of the pod as a whole, if that is sized and no limit of the container itself
    /// was the cause.
    fn of_whole_pod(&self, kill: &OomKill) -> Option<OomKill> {
        let ObjectKey { namespace, name } = &kill.pod;
        if !self.cluster.sizes_whole(namespace, name) {
            return None;
        }
        let pod = (kill.seen_in.as_ref()).or_else(|| self.cluster.pod(&kill.pod))?;
        let of_pod = pod.resources.as_ref().and_then(|it| it.requests.memory);
        pod.is_kill_of_whole(&kill.container).then(|| OomKill {
            container: WHOLE_POD.to_owned(),
            memory: of_pod.unwrap_or_default().max(kill.memory),
            ..kill.clone()
        })
    }

    fn record(&mut self, kill: &OomKill, now: Timestamp, count: &mut OomKillCounts) {
        let whole = self.of_whole_pod(kill);
        if whole.is_some() {
            // For objects that size the container.
            let _ = self
                .cluster
                .record_oom(&kill.container_ref(), kill.at, kill.memory, now);
        }
        let kill = whole.as_ref().unwrap_or(kill);
        let container = kill.container_ref();
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
                let (pod, bytes) = (&kill.pod, kill.memory.bytes());
                tracing::info!(%pod, container = kill.container, at = %kill.at, request_bytes = bytes, "OOM kill");
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
            !self.is_backfilled(&kill.container)
                && self
                    .vpas
                    .get(key)
                    .is_some_and(|own| own.rounds.loaded.contains(&kill.container))
        });
        loaded
            .filter_map(|key| self.stored_history.stored_until(&key, &kill.container))
            .max()
    }

    /// The recommendation of the object that selects a container; of several objects the last
    /// linked one, as upstream. `None` if the container is not sized.
    pub fn recommended(&self, container: &ContainerRef) -> Option<Recommended<'_>> {
        let vpas = self.cluster.vpas_of(&container.namespace, &container.pod);
        let vpa = vpas.last()?.next_back()?;
        let object = &self.vpas.get(&vpa)?.vpa.object;
        if object.spec.is_off(&container.container) {
            return None;
        }
        let status = object.status.as_ref();
        let recommendation = status.and_then(|status| status.recommendation.as_ref());
        let mut containers = recommendation.iter().flat_map(|it| &it.containers);
        let found = containers.find(|it| it.container_name == container.container);
        let policy = object.spec.update_policy.as_ref();
        Some(Recommended {
            update_mode: policy.and_then(|policy| policy.update_mode),
            uncapped: found.map(|found| &found.uncapped_target),
        })
    }

    /// The memory peak of an OOM kill now; `None` while its pod is unknown.
    pub fn oom_peak(&self, kill: &OomKill) -> Option<Memory> {
        self.cluster.oom_peak(&kill.container_ref(), kill.memory)
    }
}
