//! Input of usage samples.

use crate::{Accepted, SampleError};
use jiff::Timestamp;
use model::ContainerUsage;

use super::RecommenderState;

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
}
