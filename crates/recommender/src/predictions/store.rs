//! What is known of all objects, shared by the task that finds it out and the one that tells it.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;

use horizontal::predictions::PredictionResult;
use tokio::sync::watch;

/// What is known, by the unique identifier of each object. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct PredictionStore {
    results: Arc<Mutex<BTreeMap<String, Arc<PredictionResult>>>>,
    /// Counts the changes; 0 before it is known which objects there are.
    revision: watch::Sender<u64>,
}

impl PredictionStore {
    /// What is known; nothing before it is known which objects there are.
    pub(super) fn all(&self) -> Option<BTreeMap<String, Arc<PredictionResult>>> {
        (*self.revision.borrow() > 0).then(|| self.lock().clone())
    }

    /// Wakes after changes.
    pub(super) fn revisions(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    /// Adds what is newly known, and drops objects that are not among those there are.
    pub(super) fn update(&self, news: Vec<PredictionResult>, there: impl Fn(&str) -> bool) {
        {
            let mut results = self.lock();
            results.retain(|uid, _| there(uid));
            results.extend(
                news.into_iter()
                    .map(|result| (result.spec.uid.clone(), Arc::new(result))),
            );
        }
        self.revision.send_modify(|revision| *revision += 1);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<PredictionResult>>> {
        self.results.lock()
    }
}
