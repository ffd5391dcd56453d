//! Results of all predictions, shared by the reader of histories and the controller.

use std::collections::BTreeMap;
use std::sync::Arc;

use horizontal::predictions::PredictionResult;
use parking_lot::Mutex;
use tokio::sync::watch;

/// Results of predictions by UID. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct PredictionStore {
    results: Arc<Mutex<BTreeMap<String, Arc<PredictionResult>>>>,
    /// Number of updates; 0 before the first one.
    revision: watch::Sender<u64>,
}

impl PredictionStore {
    /// Returns all results; `None` before the first update.
    pub(crate) fn all(&self) -> Option<BTreeMap<String, Arc<PredictionResult>>> {
        (*self.revision.borrow() > 0).then(|| self.results.lock().clone())
    }

    /// Notifies of updates.
    pub(crate) fn revisions(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    /// Adds results, and drops those of deleted predictions.
    pub(crate) fn update(&self, changed: Vec<PredictionResult>, exists: impl Fn(&str) -> bool) {
        {
            let by_uid = |result: PredictionResult| (result.spec.uid.clone(), Arc::new(result));
            let mut results = self.results.lock();
            results.retain(|uid, _| exists(uid));
            results.extend(changed.into_iter().map(by_uid));
        }
        self.revision.send_modify(|revision| *revision += 1);
    }
}
