//! Samples of usage, as they enter the histories of their containers.

use crate::{Accepted, SampleError};
use jiff::Timestamp;
use model::ContainerUsage;

use super::RecommenderState;

/// What came of a batch of samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ingested {
    /// Samples that entered a history.
    pub accepted: usize,
    /// Samples that were there before.
    pub repeated: usize,
    /// Samples of containers that are not known: of pods that have just come or gone, or that no
    /// object selects.
    pub unknown: usize,
    /// Samples with a time in the future.
    pub future: usize,
}

impl RecommenderState {
    /// Adds what a source of usage has read.
    pub fn add_usage(&mut self, usage: &[ContainerUsage], now: Timestamp) -> Ingested {
        self.begin_usage(usage, now);
        self.take_usage(usage, now, |_, _, _| ())
    }

    /// Compares what a source of usage has read with the clock; it is added in portions after this.
    pub fn begin_usage(&mut self, usage: &[ContainerUsage], now: Timestamp) {
        if let Some(first) = usage.iter().map(|usage| usage.sample.at).min() {
            self.stored_history.measured(first);
        }
        self.clock
            .measure(usage.iter().map(|usage| usage.sample.at), now);
    }

    /// Adds a portion of what a source has read, and shows every sample that entered a history to
    /// `judge`.
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
