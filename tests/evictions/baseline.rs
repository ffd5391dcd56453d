//! The same evictions without the updater: as many at a time, one of the two pods of a workload
//! after the other, with nothing to decide and no events. So long does the control plane take for
//! itself on this machine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::api::EvictParams;
use kube::{Api, Client};
use testing::{Pace, eventually};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::population::{Population, REPLICAS, Standing, ready};

/// The updater's default.
const AT_A_TIME: usize = 64;
/// Between two looks at all pods, so that looking takes little of the machine.
const PAUSE: Duration = Duration::from_millis(20);

/// Seconds since the start.
pub(crate) struct Times {
    /// The last pod was evicted.
    pub(crate) evicted: Duration,
    /// The last replacement was created.
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
        let is_asked = self
            .asked
            .as_ref()
            .is_some_and(|name| pods.get(name).is_some_and(|(is_ready, _)| *is_ready));
        !is_asked && ready(pods) == REPLICAS
    }
}

/// Evictions under way.
struct Evictions {
    pods: Api<Pod>,
    workloads: BTreeMap<String, Workload>,
    fixture: Arc<Semaphore>,
    asked: JoinSet<Result<()>>,
    begin: Instant,
    evicted: Duration,
}

impl Evictions {
    /// Evicts the next pod of each complete workload; returns the time once all are done.
    fn go_on(
        &mut self,
        pods: &BTreeMap<String, BTreeMap<String, Standing>>,
    ) -> Result<Option<Times>> {
        let mut is_done = true;
        for (name, workload) in &mut self.workloads {
            let is_whole = pods.get(name).is_some_and(|pods| workload.is_whole(pods));
            is_done &= is_whole && workload.left.is_empty();
            if is_whole && let Some(pod) = workload.left.pop() {
                workload.asked = Some(pod.clone());
                let (api, fixture) = (self.pods.clone(), Arc::clone(&self.fixture));
                self.asked.spawn(async move {
                    let _place = fixture.acquire_owned().await?;
                    api.evict(&pod, &EvictParams::default()).await?;
                    Ok(())
                });
            }
        }
        while let Some(answer) = self.asked.try_join_next() {
            answer??;
            self.evicted = self.begin.elapsed();
        }
        Ok(is_done.then(|| Times {
            evicted: self.evicted,
            renewed: self.begin.elapsed(),
        }))
    }
}

/// Evicts every pod that there is, never two of a workload at a time.
pub(crate) async fn evict_all(
    client: &Client,
    population: &Population,
    limit: Duration,
) -> Result<Times> {
    let names = |pods: BTreeMap<String, Standing>| pods.into_keys().collect();
    let workloads = population.pods().into_iter();
    let mut evictions = Evictions {
        pods: Api::namespaced(client.clone(), population.namespace()),
        workloads: workloads
            .map(|(name, pods)| {
                (
                    name,
                    Workload {
                        left: names(pods),
                        asked: None,
                    },
                )
            })
            .collect(),
        fixture: Arc::new(Semaphore::new(AT_A_TIME)),
        asked: JoinSet::new(),
        begin: Instant::now(),
        evicted: Duration::ZERO,
    };
    let pace = Pace {
        limit,
        every: PAUSE,
    };
    // What fails fails at once; only what is not done yet is looked at again.
    let looks = eventually("every pod is evicted and replaced", pace, async || {
        evictions
            .go_on(&population.pods())
            .transpose()
            .context("some are left")
    });
    looks.await?
}
