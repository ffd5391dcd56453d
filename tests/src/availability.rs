//! Watches the pods of a namespace and records each workload's minimum of available pods.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher::Event;
use kube::{Api, ResourceExt as _};
use tokio::sync::watch;

use crate::{Follow, PATIENCE, follow, is_available};

/// By workload: pods by unique identifier and whether they are available, and how few ever were
/// since the first list.
#[derive(Debug, Default)]
struct Seen {
    is_listed: bool,
    /// Pods of the list that is being read. An interrupted watch starts with a list again.
    listing: Pods,
    pods: Pods,
    fewest: BTreeMap<String, usize>,
}

type Pods = BTreeMap<String, BTreeMap<String, bool>>;

#[derive(Debug)]
pub struct AvailabilityWatch {
    seen: watch::Receiver<Seen>,
    _watch: Follow,
}

impl AvailabilityWatch {
    pub async fn of(pods: Api<Pod>) -> Result<Self> {
        let (sender, mut seen) = watch::channel(Seen::default());
        let watch = follow(pods, move |event| {
            sender.send_modify(|seen| seen.take(event));
        });
        seen.wait_for(|seen| seen.is_listed).await?;
        Ok(Self {
            seen,
            _watch: watch,
        })
    }

    /// Least number of available pods of a workload, up to the moment when all of `live` are
    /// available. These are known to exist; the watch may be behind the list that showed them.
    pub async fn fewest(&self, workload: &str, live: &[String]) -> Result<usize> {
        let mut seen = self.seen.clone();
        let caught_up =
            seen.wait_for(|seen| live.iter().all(|uid| seen.is_available(workload, uid)));
        let seen = tokio::time::timeout(PATIENCE, caught_up)
            .await
            .context("the watch never showed the pods")??;
        Ok(seen.fewest.get(workload).copied().unwrap_or(live.len()))
    }
}

impl Seen {
    fn take(&mut self, event: Event<Pod>) {
        match event {
            Event::Init => self.listing.clear(),
            Event::InitApply(pod) => {
                apply(&mut self.listing, &pod);
            }
            Event::InitDone => {
                self.pods = std::mem::take(&mut self.listing);
                self.is_listed = true;
                let workloads: Vec<String> = self.pods.keys().cloned().collect();
                for workload in workloads {
                    self.note(&workload);
                }
            }
            Event::Apply(pod) => {
                if let Some(workload) = apply(&mut self.pods, &pod) {
                    self.note(&workload);
                }
            }
            Event::Delete(pod) => self.delete(&pod),
        }
    }

    fn delete(&mut self, pod: &Pod) {
        let Some(workload) = pod.labels().get("app") else {
            return;
        };
        if let (Some(pods), Some(uid)) = (self.pods.get_mut(workload), &pod.metadata.uid) {
            pods.remove(uid);
        }
        self.note(workload);
    }

    fn is_available(&self, workload: &str, uid: &str) -> bool {
        self.pods
            .get(workload)
            .and_then(|pods| pods.get(uid))
            .is_some_and(|available| *available)
    }

    fn note(&mut self, workload: &str) {
        let available = self.pods.get(workload).map_or(0, |pods| {
            pods.values().filter(|available| **available).count()
        });
        let fewest = self.fewest.entry(workload.to_owned()).or_insert(available);
        *fewest = available.min(*fewest);
    }
}

/// Records whether a pod is available, and returns its workload.
fn apply(pods: &mut Pods, pod: &Pod) -> Option<String> {
    let workload = pod.labels().get("app")?;
    let pods = pods.entry(workload.clone()).or_default();
    pods.insert(pod.uid()?, is_available(pod));
    Some(workload.clone())
}
