//! Input of usage samples, and the pods that samples are expected of.

use std::collections::HashSet;

use jiff::{SignedDuration, Timestamp};
use model::{ContainerUsage, Selector};
use view::{ObjectKey, Phase, Pod};

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

/// Numbers of samples by result.
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

impl RecommenderState {
    /// Adds the samples of a round.
    pub fn add_usage(&mut self, usage: &[ContainerUsage], now: Timestamp) -> Ingested {
        self.begin_usage(usage, now);
        self.take_usage(usage, now, |_, _, _| ())
    }

    /// Begins a round: compares the samples with the clock. [`Self::take_usage`] adds them.
    pub fn begin_usage(&mut self, usage: &[ContainerUsage], now: Timestamp) {
        // One vote per pod: a tenant may make up containers. The samples of a pod follow each other.
        let of_one_pod = |one: &ContainerUsage, other: &ContainerUsage| {
            let [one, other] = [one, other].map(|usage| &usage.container);
            (&one.namespace, &one.pod) == (&other.namespace, &other.pod)
        };
        let times = usage
            .chunk_by(of_one_pod)
            .filter_map(|pod| pod.iter().map(|usage| usage.sample.at).max());
        if let Some(first) = self.clock.measure(times, now) {
            self.stored_history.measured(first);
        }
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

    /// The pods of every object, each with the object's selector. Finished pods use nothing.
    pub fn measurable_pods(&self) -> impl Iterator<Item = (&ObjectKey, &Selector)> {
        let live = self.cluster.pods().filter(|pod| !pod.is_finished());
        live.flat_map(move |pod| {
            let vpas = self.vpas_of(&pod.key);
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
}
