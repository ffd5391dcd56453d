//! Writes the annotations of VPA objects whose recommendations are rolled back, each once.

use std::sync::Arc;

use rollout::RollbackChange;
use tokio::task::JoinSet;

use super::inputs::Inputs;
use super::reporter::Reporter;
use crate::pod_writer::PodWriter;

pub(super) struct Rollbacks {
    writer: PodWriter,
    /// The changes of the last pass that were not refused.
    asked: Vec<Arc<RollbackChange>>,
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
            asked: Vec::new(),
            writing: JoinSet::new(),
        }
    }

    /// Begins the writes that a pass asks for. Until the view shows one, each pass asks for it.
    pub(super) fn ask(&mut self, changes: Vec<Arc<RollbackChange>>) {
        let is_about = |known: &Arc<RollbackChange>, uid: &str| known.uid == uid;
        (self.asked).retain(|known| changes.iter().any(|it| is_about(known, &it.uid)));
        for change in changes {
            if self.asked.iter().any(|known| is_about(known, &change.uid)) {
                continue;
            }
            self.asked.push(Arc::clone(&change));
            let writer = self.writer.clone();
            self.writing.spawn(async move {
                let is_ok = writer.roll_back(&change).await;
                Written { change, is_ok }
            });
        }
    }

    /// Reports a write. One that failed is begun again by the next pass.
    pub(super) fn end(&mut self, written: &Written, reporter: &Reporter, inputs: &Inputs) {
        let Written { change, is_ok } = written;
        if *is_ok {
            let vpa = inputs.vpa(&change.vpa);
            reporter.rolled_back(change, vpa.as_deref());
        } else {
            self.asked.retain(|known| known.uid != change.uid);
        }
    }
}
