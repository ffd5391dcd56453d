//! What is known of all objects, shared by the task that finds it out and the one that tells it.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;

use horizontal::predictions::Outlook;
use tokio::sync::watch;

/// What is known, by the unique identifier of each object. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct PredictionStore {
    outlooks: Arc<Mutex<BTreeMap<String, Arc<Outlook>>>>,
    /// Counts the changes; 0 before it is known which objects there are.
    revision: watch::Sender<u64>,
}

impl PredictionStore {
    /// What is known; nothing before it is known which objects there are.
    pub(super) fn all(&self) -> Option<BTreeMap<String, Arc<Outlook>>> {
        (*self.revision.borrow() > 0).then(|| self.lock().clone())
    }

    /// Wakes after changes.
    pub(super) fn revisions(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    /// Adds what is newly known, and drops objects that are not among those there are.
    pub(super) fn update(&self, news: Vec<Outlook>, there: impl Fn(&str) -> bool) {
        {
            let mut outlooks = self.lock();
            outlooks.retain(|uid, _| there(uid));
            outlooks.extend(
                news.into_iter()
                    .map(|outlook| (outlook.job.uid.clone(), Arc::new(outlook))),
            );
        }
        self.revision.send_modify(|revision| *revision += 1);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Outlook>>> {
        self.outlooks.lock()
    }
}
