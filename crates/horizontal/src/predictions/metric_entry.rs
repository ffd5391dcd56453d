//! One metric of an object: with its history, or without memory for one.

use crate::predictions::pipeline::MetricPipeline;
use crate::predictions::read::ReadChunk;
use crate::predictions::result::MetricResult;

/// One metric, with the question about it that has no answer yet.
pub(super) struct MetricEntry {
    /// The number tells it from one that had its place before.
    pub(super) number: u64,
    state: State,
}

enum State {
    Admitted(Box<Admitted>),
    /// There is no memory for it, or that is not known yet. Texts of the object are not kept, for
    /// there may be any number of such metrics.
    Waiting(Box<Waiting>),
}

struct Admitted {
    pipeline: MetricPipeline,
    asked: Option<ReadChunk>,
}

struct Waiting {
    needed_bytes: usize,
    result: MetricResult,
    is_changed: bool,
}

impl MetricEntry {
    /// A metric that waits for memory.
    pub(super) fn new(number: u64, identifier: String, needed_bytes: usize) -> Self {
        let result = MetricResult {
            identifier,
            ..MetricResult::default()
        };
        Self {
            number,
            state: State::Waiting(Box::new(Waiting {
                needed_bytes,
                result,
                is_changed: false,
            })),
        }
    }

    /// The history; none while there is no memory for it.
    pub(super) fn pipeline(&self) -> Option<&MetricPipeline> {
        match &self.state {
            State::Admitted(admitted) => Some(&admitted.pipeline),
            State::Waiting(_) => None,
        }
    }

    pub(super) fn pipeline_mut(&mut self) -> Option<&mut MetricPipeline> {
        match &mut self.state {
            State::Admitted(admitted) => Some(&mut admitted.pipeline),
            State::Waiting(_) => None,
        }
    }

    /// The history, if it is to be read now.
    pub(super) fn due(&self, now: i64) -> Option<&MetricPipeline> {
        self.pipeline()
            .filter(|pipeline| !self.is_asked() && pipeline.is_due(now))
    }

    /// Whether a question about it has no answer yet.
    pub(super) fn is_asked(&self) -> bool {
        matches!(&self.state, State::Admitted(admitted) if admitted.asked.is_some())
    }

    /// Remembers the part of the history that is asked for.
    pub(super) fn begin(&mut self, chunk: ReadChunk) {
        if let State::Admitted(admitted) = &mut self.state {
            admitted.asked = Some(chunk);
        }
    }

    /// The part that was asked for, and the history that it belongs to.
    pub(super) fn end(&mut self) -> Option<(ReadChunk, &mut MetricPipeline)> {
        match &mut self.state {
            State::Admitted(admitted) => Some((admitted.asked.take()?, &mut admitted.pipeline)),
            State::Waiting(_) => None,
        }
    }

    pub(super) fn result(&self) -> &MetricResult {
        match &self.state {
            State::Admitted(admitted) => admitted.pipeline.result(),
            State::Waiting(waiting) => &waiting.result,
        }
    }

    /// The memory that it takes, or would take.
    pub(super) fn needed_bytes(&self) -> usize {
        match &self.state {
            State::Admitted(admitted) => admitted.pipeline.needed_bytes(),
            State::Waiting(waiting) => waiting.needed_bytes,
        }
    }

    /// Begins to read its history.
    pub(super) fn admit(&mut self, mut pipeline: MetricPipeline) {
        if self.result().is_refused {
            pipeline.await_history();
        }
        self.state = State::Admitted(Box::new(Admitted {
            pipeline,
            asked: None,
        }));
    }

    /// Gives up its history, since there is no memory for it.
    pub(super) fn refuse(&mut self, why: &str) {
        let before = self.result();
        if before.is_refused && before.missing.as_deref() == Some(why) {
            return;
        }
        let identifier = before.identifier.clone();
        let result = MetricResult {
            identifier,
            missing: Some(why.to_owned()),
            is_refused: true,
            ..MetricResult::default()
        };
        let needed_bytes = self.needed_bytes();
        self.state = State::Waiting(Box::new(Waiting {
            needed_bytes,
            result,
            is_changed: true,
        }));
    }

    /// Whether its outlook is newer than what was published.
    pub(super) fn is_changed(&self) -> bool {
        match &self.state {
            State::Admitted(admitted) => admitted.pipeline.is_changed,
            State::Waiting(waiting) => waiting.is_changed,
        }
    }

    pub(super) fn published(&mut self) {
        match &mut self.state {
            State::Admitted(admitted) => admitted.pipeline.is_changed = false,
            State::Waiting(waiting) => waiting.is_changed = false,
        }
    }
}
