//! The pods that usage is expected of.

use std::collections::HashSet;

use jiff::{SignedDuration, Timestamp};
use model::{ContainerUsage, Selector};
use view::{ObjectKey, Phase, Pod};

use super::{RecommenderState, Target};

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

impl RecommenderState {
    /// The pods of every object, each with the object's selector. Finished pods use nothing.
    pub fn measurable_pods(&self) -> impl Iterator<Item = (&ObjectKey, &Selector)> {
        let live = self.pods.iter().filter(|(_, pod)| !pod.is_finished());
        live.flat_map(move |(key, _)| {
            self.vpas_of(key)
                .filter_map(move |vpa| match &self.vpas.get(&vpa)?.target {
                    Target::Known { selector, .. } => Some((key, selector)),
                    Target::Unknown => None,
                })
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
        let expected = self.pods.iter().filter(|(_, pod)| is_expected(pod));
        let unmeasured: Vec<_> = expected
            .map(|(key, _)| key)
            .filter(|key| !measured.contains(&(&key.namespace, &key.name)))
            .cloned()
            .collect();
        JudgedUsage {
            is_answer: !usage.is_empty() || is_complete && unmeasured.is_empty(),
            unmeasured,
        }
    }
}
