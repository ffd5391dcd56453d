//! One metric of a prediction: admitted with its history, or waiting for memory.

use crate::predictions::pipeline::MetricPipeline;
use crate::predictions::read_range::ReadChunk;
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
