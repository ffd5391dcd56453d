//! `ReplicaSet`s of two small pods with a VPA object each that recommends more, and what a watch
//! sees of their pods.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, Result};
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::{
    Follow, Namespace, follow, in_parallel, is_available, namespace, requests, target, workload,
};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher::Event;
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::timeout;

/// Pods of one workload.
pub(crate) const REPLICAS: usize = 2;
/// Requests under way at the same time.
const PARALLEL: usize = 50;
const PATIENCE: Duration = Duration::from_mins(10);
/// The recommendation; upstream's benchmark has its minimum of 25m and 250Mi.
const CPU: &str = "25m";

/// The workloads as a watch sees them.
pub(crate) struct Population {
    namespace: String,
    seen: watch::Receiver<Seen>,
    _following: Follow,
}

/// Whether a pod is ready, and whether it has the new size.
pub(crate) type Standing = (bool, bool);

#[derive(Default)]
struct Seen {
    /// By workload and name.
    pods: BTreeMap<String, BTreeMap<String, Standing>>,
    /// Old pods that were seen to go.
    gone: BTreeSet<String>,
    /// Number of pods that are ready and have the new size.
    renewed: usize,
    is_counting: bool,
    /// The watch starts again: not all pods are listed yet.
    is_listing: bool,
    fewest: Option<usize>,
}

/// Creates `count` workloads and waits until their pods run.
pub(crate) async fn make(client: &Client, workloads: usize) -> Result<Population> {
    let namespace = namespace(client, "benchmark").await?;
    let own = Namespace::of(client.clone(), &namespace);
    let (sender, mut seen) = watch::channel(Seen::default());
    let noted = sender.clone();
    let following = follow(
        Api::<Pod>::namespaced(client.clone(), &namespace),
        move |event| match event {
            Event::Init => noted.send_modify(Seen::forget),
            Event::InitApply(pod) | Event::Apply(pod) => noted.send_modify(|seen| seen.apply(&pod)),
            Event::Delete(pod) => noted.send_modify(|seen| seen.delete(&pod)),
            Event::InitDone => noted.send_modify(|seen| seen.is_listing = false),
        },
    );
    let names: Vec<String> = (0..workloads)
        .map(|number| format!("workload-{number}"))
        .collect();
    let own = &own;
    let made = names.iter().map(|name| async move {
        let set = workload(name, REPLICAS, &requests("10m", "10Mi"), &json!({}));
        own.create::<ReplicaSet>(set).await.map(drop)
    });
    in_parallel(PARALLEL, made)
        .await
        .context("make ReplicaSets")?;
    let is_there =
        |seen: &Seen| seen.pods.values().map(ready).sum::<usize>() == workloads * REPLICAS;
    timeout(PATIENCE, seen.wait_for(is_there))
        .await
        .context("all pods run")??;
    let made = names.iter().map(|name| recommend(own, name));
    in_parallel(PARALLEL, made)
        .await
        .context("make VPA objects")?;
    sender.send_modify(|seen| seen.is_counting = true);
    Ok(Population {
        namespace,
        seen,
        _following: following,
    })
}

async fn recommend(namespace: &Namespace, name: &str) -> kube::Result<()> {
    let policy = json!({"updateMode": "Recreate"});
    let spec = json!({"targetRef": target("ReplicaSet", name), "updatePolicy": policy});
    namespace.make::<Vpa>(name, spec).await?;
    let size = |cpu: &str, memory: &str| json!({"cpu": cpu, "memory": memory});
    let container = json!({
        "containerName": "app", "target": size(CPU, "250Mi"), "uncappedTarget": size(CPU, "250Mi"),
        "lowerBound": size("20m", "200Mi"), "upperBound": size("1", "1Gi"),
    });
    namespace.write_recommendation(name, container).await
}

pub(crate) fn ready(pods: &BTreeMap<String, Standing>) -> usize {
    pods.values().filter(|(is_ready, _)| *is_ready).count()
}

impl Seen {
    fn forget(&mut self) {
        self.is_listing = true;
        self.pods.clear();
        self.renewed = 0;
    }

    fn apply(&mut self, pod: &Pod) {
        let Some(workload) = pod.labels().get("app") else {
            return;
        };
        let is_going = pod.metadata.deletion_timestamp.is_some();
        let is_ready = is_available(pod);
        let is_new = is_new(pod);
        if is_going && !is_new {
            self.gone.insert(pod.name_any());
        }
        let before = self
            .pods
            .entry(workload.clone())
            .or_default()
            .insert(pod.name_any(), (is_ready, is_new));
        self.renewed += usize::from(is_ready && is_new);
        self.renewed -= usize::from(before == Some((true, true)));
        self.note(workload);
    }

    fn delete(&mut self, pod: &Pod) {
        let Some(workload) = pod.labels().get("app") else {
            return;
        };
        if !is_new(pod) {
            self.gone.insert(pod.name_any());
        }
        let before = self
            .pods
            .get_mut(workload)
            .and_then(|pods| pods.remove(&pod.name_any()));
        self.renewed -= usize::from(before == Some((true, true)));
        self.note(workload);
    }

    fn note(&mut self, workload: &str) {
        if self.is_counting && !self.is_listing {
            let available = self.pods.get(workload).map_or(0, ready);
            self.fewest = Some(
                self.fewest
                    .map_or(available, |fewest| fewest.min(available)),
            );
        }
    }
}

fn is_new(pod: &Pod) -> bool {
    let container = pod.spec.as_ref().and_then(|spec| spec.containers.first());
    let requests = container.and_then(|container| container.resources.as_ref()?.requests.as_ref());
    requests.is_some_and(|requests| requests.get("cpu").is_some_and(|cpu| cpu.0 == CPU))
}

impl Population {
    /// Returns once this many old pods are gone.
    pub(crate) async fn evicted(&mut self, pods: usize) -> Result<()> {
        self.seen.wait_for(|seen| seen.gone.len() >= pods).await?;
        Ok(())
    }

    /// Returns once this many pods are ready and have the new size.
    pub(crate) async fn renewed(&mut self, pods: usize) -> Result<()> {
        self.seen.wait_for(|seen| seen.renewed >= pods).await?;
        Ok(())
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// All pods by workload and name.
    pub(crate) fn pods(&self) -> BTreeMap<String, BTreeMap<String, Standing>> {
        self.seen.borrow().pods.clone()
    }

    /// Least number of ready pods of a workload.
    pub(crate) fn fewest(&self) -> usize {
        self.seen.borrow().fewest.unwrap_or(REPLICAS)
    }
}
