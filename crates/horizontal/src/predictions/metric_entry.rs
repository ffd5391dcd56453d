//! One metric of a prediction: admitted with its history, or waiting for memory.

use super::ReadChunk;
use crate::predictions::pipeline::MetricPipeline;
use crate::predictions::result::MetricResult;

pub(super) struct MetricEntry {
    /// Distinguishes the metric from a previous one at its index.
    pub(super) number: u64,
    /// Chunk that is being read; `None` while the metric waits for memory.
    in_progress: Option<ReadChunk>,
    state: Result<Box<MetricPipeline>, Box<Waiting>>,
}

/// A metric that has no memory, or was not checked yet. The texts of its spec are not kept, since
/// their number is not limited.
struct Waiting {
    needed_bytes: usize,
    result: MetricResult,
    is_changed: bool,
}

impl MetricEntry {
    pub(super) fn new(number: u64, identifier: String, needed_bytes: usize) -> Self {
        let result = MetricResult {
            identifier,
            ..MetricResult::default()
        };
        Self {
            number,
            in_progress: None,
            state: Err(Box::new(Waiting {
                needed_bytes,
                result,
                is_changed: false,
            })),
        }
    }

    pub(super) fn pipeline(&self) -> Option<&MetricPipeline> {
        self.state.as_deref().ok()
    }

    pub(super) fn pipeline_mut(&mut self) -> Option<&mut MetricPipeline> {
        self.state.as_deref_mut().ok()
    }

    pub(super) fn due(&self, now: i64) -> Option<&MetricPipeline> {
        self.pipeline()
            .filter(|pipeline| !self.is_in_progress() && pipeline.is_due(now))
    }

    pub(super) fn is_in_progress(&self) -> bool {
        self.in_progress.is_some()
    }

    pub(super) fn begin(&mut self, chunk: ReadChunk) {
        self.in_progress = self.pipeline().map(|_| chunk);
    }

    /// Returns the chunk that was being read, and the pipeline.
    pub(super) fn end(&mut self) -> Option<(ReadChunk, &mut MetricPipeline)> {
        let chunk = self.in_progress.take()?;
        Some((chunk, self.pipeline_mut()?))
    }

    pub(super) fn result(&self) -> &MetricResult {
        match &self.state {
            Ok(pipeline) => pipeline.result(),
            Err(waiting) => &waiting.result,
        }
    }

    pub(super) fn needed_bytes(&self) -> usize {
        match &self.state {
            Ok(pipeline) => pipeline.needed_bytes(),
            Err(waiting) => waiting.needed_bytes,
        }
    }

    pub(super) fn admit(&mut self, mut pipeline: MetricPipeline) {
        if self.result().is_refused {
            pipeline.await_history();
        }
        self.in_progress = None;
        self.state = Ok(Box::new(pipeline));
    }

    /// Drops the history because of a memory limit.
    pub(super) fn refuse(&mut self, why: &str) {
        let before = self.result();
        if before.is_refused && before.missing.as_deref() == Some(why) {
            return;
        }
        let result = MetricResult {
            identifier: before.identifier.clone(),
            missing: Some(why.to_owned()),
            is_refused: true,
            ..MetricResult::default()
        };
        let needed_bytes = self.needed_bytes();
        self.in_progress = None;
        self.state = Err(Box::new(Waiting {
            needed_bytes,
            result,
            is_changed: true,
        }));
    }

    /// Whether the result is newer than the published one; the next call returns false.
    pub(super) fn take_change(&mut self) -> bool {
        let is_changed = match &mut self.state {
            Ok(pipeline) => &mut pipeline.is_changed,
            Err(waiting) => &mut waiting.is_changed,
        };
        std::mem::take(is_changed)
    }
}

/// Fraction of a share that stays free when a metric is admitted: an eighth.
const RESERVE: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimits {
    pub namespace_bytes: usize,
    pub total_bytes: usize,
}

impl MemoryLimits {
    /// Largest memory of one namespace such that all of them fit: each gets the memory that it
    /// needs or this much.
    pub(super) fn share(&self, mut needed: Vec<usize>) -> usize {
        needed.sort_unstable();
        let mut rest = self.total_bytes;
        let count = needed.len();
        for (index, bytes) in needed.into_iter().enumerate() {
            let equal = rest / (count - index);
            let bytes = bytes.min(self.namespace_bytes);
            if bytes > equal {
                return equal;
            }
            rest -= bytes;
        }
        self.namespace_bytes
    }

    /// Largest used memory of a share after a metric is admitted. The reserve lets histories grow,
    /// and prevents a refused metric from being read anew whenever a little memory becomes free.
    pub(super) fn most_to_begin(share: usize) -> usize {
        share - share / RESERVE
    }

    /// The reason for refusing a metric of a namespace that gets `share`.
    pub(super) fn reason(&self, share: usize) -> String {
        let (whose, part, bytes) = if share < self.namespace_bytes {
            ("all namespaces", "", self.total_bytes)
        } else {
            ("the namespace", "a quarter of ", self.namespace_bytes)
        };
        let mib = bytes >> 20;
        format!(
            "the forecasts of {whose} take more memory than {part}predictions.memoryLimit, {mib} MiB"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(needed: &[usize], expected: usize) {
        let limits = MemoryLimits {
            namespace_bytes: 60,
            total_bytes: 100,
        };
        let share = limits.share(needed.to_vec());
        assert_eq!(share, expected, "{needed:?}");
        let used: usize = needed.iter().map(|bytes| bytes.min(&share)).sum();
        assert!(used <= 100, "{needed:?}");
    }

    #[test]
    fn small_needs_are_met_and_the_rest_is_divided() {
        check(&[], 60);
        check(&[10, 50, 30], 60);
        check(&[1000, 10, 30], 60);
        check(&[1000, 10, 40], 50);
        check(&[1000, 1000, 10], 45);
        check(&[1000; 200], 0);
    }

    #[test]
    fn the_reason_names_the_limit_that_is_reached() {
        let limits = MemoryLimits {
            namespace_bytes: 64 << 20,
            total_bytes: 256 << 20,
        };
        let namespace = "the forecasts of the namespace take more memory than a quarter of predictions.memoryLimit, 64 MiB";
        assert_eq!(limits.reason(64 << 20), namespace);
        let all = "the forecasts of all namespaces take more memory than predictions.memoryLimit, 256 MiB";
        assert_eq!(limits.reason(30 << 20), all);
    }
}
