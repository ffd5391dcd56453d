//! The same evictions without the updater: as many at a time, one of the two pods of a workload after the other, with nothing to
//! decide and no events. So long does the control plane take for itself on this machine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use kube::api::EvictParams;
use kube::{Api, Client};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::population::{Population, REPLICAS, Standing, ready};

/// The updater's default.
const AT_A_TIME: usize = 64;
/// Between two looks at all pods, so that looking takes little of the machine.
const PAUSE: Duration = Duration::from_millis(20);

/// When it was done, since the beginning.
pub(crate) struct Times {
    /// The last pod was evicted.
    pub(crate) evicted: Duration,
    /// The last pod was made anew.
    pub(crate) renewed: Duration,
}

struct Workload {
    left: Vec<String>,
    /// The pod that was evicted last.
    asked: Option<String>,
}

impl Workload {
    /// Whether all pods are there and ready that should be.
    fn is_whole(&self, pods: &BTreeMap<String, Standing>) -> bool {
        let is_asked = self.asked.as_ref().is_some_and(|name| pods.get(name).is_some_and(|(is_ready, _)| *is_ready));
        !is_asked && ready(pods) == REPLICAS
    }
}

/// Evicts every pod that there is, never two of a workload at a time.
pub(crate) async fn evict_all(client: &Client, population: &mut Population) -> Result<Times> {
    let api: Api<Pod> = Api::namespaced(client.clone(), population.namespace());
    let names = |pods: BTreeMap<String, Standing>| pods.into_keys().collect();
    let workloads = population.pods().into_iter();
    let mut workloads: BTreeMap<String, Workload> =
        workloads.map(|(name, pods)| (name, Workload { left: names(pods), asked: None })).collect();
    let room = Arc::new(Semaphore::new(AT_A_TIME));
    let mut asked = JoinSet::new();
    let begin = Instant::now();
    let mut evicted = Duration::ZERO;
    loop {
        let (mut is_done, pods) = (true, population.pods());
        for (name, workload) in &mut workloads {
            let is_whole = pods.get(name).is_some_and(|pods| workload.is_whole(pods));
            is_done &= is_whole && workload.left.is_empty();
            if is_whole && let Some(pod) = workload.left.pop() {
                workload.asked = Some(pod.clone());
                let (api, room) = (api.clone(), Arc::clone(&room));
                asked.spawn(async move {
                    let _place = room.acquire_owned().await?;
                    api.evict(&pod, &EvictParams::default()).await?;
                    anyhow::Ok(())
                });
            }
        }
        while let Some(answer) = asked.try_join_next() {
            answer??;
            evicted = begin.elapsed();
        }
        if is_done {
            return Ok(Times { evicted, renewed: begin.elapsed() });
        }
        sleep(PAUSE).await;
    }
}
