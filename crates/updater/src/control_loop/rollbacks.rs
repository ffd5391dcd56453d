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

/// UID of the VPA object, and whether the change rolls its recommendation back.
type Key = (String, bool);

fn key(change: &RollbackChange) -> Key {
    (change.uid.clone(), change.rollback.is_some())
}

pub(super) struct Rollbacks {
    writer: PodWriter,
    /// The changes that the last pass asked for, and when a write that failed is tried again.
    submitted: HashMap<Key, Option<Instant>>,
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
            submitted: HashMap::new(),
            writing: JoinSet::new(),
        }
    }

    /// Begins the writes that a pass asks for. Until the view shows one, each pass asks for it.
    pub(super) fn submit(&mut self, changes: Vec<Arc<RollbackChange>>) {
        let now = Instant::now();
        (self.submitted).retain(|known, _| changes.iter().any(|change| key(change) == *known));
        for change in changes {
            let known = self.submitted.get(&key(&change));
            if known.is_some_and(|retry_at| retry_at.is_none_or(|at| at > now)) {
                continue;
            }
            self.submitted.insert(key(&change), None);
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
            self.submitted.insert(key(change), retry_at);
        }
    }
}
