//! Writes the annotations of VPA objects whose recommendations are rolled back, each once.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rollout::RollbackChange;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::inputs::Inputs;
use super::reporter::Reporter;
use crate::pod_writer::PodWriter;

/// The time after which a write that failed is tried again.
const RETRY: Duration = Duration::from_mins(1);

pub(super) struct Rollbacks {
    writer: PodWriter,
    /// The VPA objects of the changes that the last pass asked for, by UID, and when a write that failed is
    /// tried again.
    asked: HashMap<String, Option<Instant>>,
    pub(super) writing: JoinSet<Written>,
}

pub(super) struct Written {
    change: Arc<RollbackChange>,
    is_ok: bool,
}

impl Rollbacks {
    pub(super) fn new(writer: PodWriter) -> Self {
        Self {
            writer,
            asked: HashMap::new(),
            writing: JoinSet::new(),
        }
    }

    /// Begins the writes that a pass asks for. Until the view shows one, each pass asks for it.
    pub(super) fn ask(&mut self, changes: Vec<Arc<RollbackChange>>) {
        let now = Instant::now();
        (self.asked).retain(|uid, _| changes.iter().any(|change| change.uid == *uid));
        for change in changes {
            let known = self.asked.get(&change.uid);
            if known.is_some_and(|retry_at| retry_at.is_none_or(|at| at > now)) {
                continue;
            }
            self.asked.insert(change.uid.clone(), None);
            let writer = self.writer.clone();
            self.writing.spawn(async move {
                let is_ok = writer.roll_back(&change).await;
                Written { change, is_ok }
            });
        }
    }

    /// Reports a write. One that failed is tried again by a later pass.
    pub(super) fn end(&mut self, written: &Written, reporter: &Reporter, inputs: &Inputs) {
        let Written { change, is_ok } = written;
        if *is_ok {
            let vpa = inputs.vpa(&change.vpa);
            reporter.rolled_back(change, vpa.as_deref());
        } else {
            let retry_at = Some(Instant::now() + RETRY);
            self.asked.insert(change.uid.clone(), retry_at);
        }
    }
}
