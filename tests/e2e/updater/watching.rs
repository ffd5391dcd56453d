//! How few pods of each workload were ever available, as a watch saw it.

use std::collections::BTreeMap;

use anyhow::Result;
use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, ResourceExt as _};
use tokio::sync::watch;

/// By workload: pods by name and whether they are available, and how few ever were since the first list.
#[derive(Debug, Default)]
struct Seen {
    is_listed: bool,
    pods: BTreeMap<String, BTreeMap<String, bool>>,
    fewest: BTreeMap<String, usize>,
}

/// Watches pods.
pub(crate) struct Watching {
    seen: watch::Receiver<Seen>,
    task: tokio::task::JoinHandle<Result<(), watcher::Error>>,
}

impl Watching {
    /// From now on.
    pub(crate) async fn of(pods: Api<Pod>) -> Result<Self> {
        let (told, mut seen) = watch::channel(Seen::default());
        let task = tokio::spawn(async move {
            watcher(pods, watcher::Config::default())
                .try_for_each(async |event| {
                    match event {
                        Event::InitApply(pod) | Event::Apply(pod) => told.send_modify(|seen| seen.apply(&pod)),
                        Event::Delete(pod) => told.send_modify(|seen| seen.delete(&pod)),
                        Event::Init => {}
                        Event::InitDone => told.send_modify(|seen| seen.is_listed = true),
                    }
                    Ok(())
                })
                .await
        });
        seen.wait_for(|seen| seen.is_listed).await?;
        Ok(Self { seen, task })
    }

    /// How few pods were ever available; none where nothing changed.
    pub(crate) fn fewest(&self, workload: &str) -> Option<usize> {
        self.seen.borrow().fewest.get(workload).copied()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Seen {
    fn available(&self, workload: &str) -> usize {
        self.pods.get(workload).map_or(0, |pods| pods.values().filter(|available| **available).count())
    }

    fn apply(&mut self, pod: &Pod) {
        let Some(workload) = pod.labels().get("app") else { return };
        let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let is_ready = conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True");
        let is_available = is_ready && pod.metadata.deletion_timestamp.is_none();
        self.pods.entry(workload.clone()).or_default().insert(pod.name_any(), is_available);
        self.note(workload);
    }

    fn delete(&mut self, pod: &Pod) {
        let Some(workload) = pod.labels().get("app") else { return };
        if let Some(pods) = self.pods.get_mut(workload) {
            pods.remove(&pod.name_any());
        }
        self.note(workload);
    }

    fn note(&mut self, workload: &str) {
        if self.is_listed {
            let available = self.available(workload);
            let fewest = self.fewest.entry(workload.to_owned()).or_insert(available);
            *fewest = available.min(*fewest);
        }
    }
}
