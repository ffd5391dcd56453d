//! Pods that run the program `load`, and the runs of their containers.

use anyhow::{Context as _, Result, ensure};
use e2e::{container as status_of, eventually};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::cgroups::container_id;
use super::fixture::{Fixture, container};

/// A pod whose container `app` runs `load` with these flags.
pub(crate) fn pod_of(flags: &[&str], resources: &Value) -> Value {
    json!({
        "containers": [container("app", flags, resources)],
        "terminationGracePeriodSeconds": 1,
        "dnsPolicy": "Default",
    })
}

/// Requests and limits of CPU and memory.
pub(crate) fn resources(requests: [&str; 2], limits: [&str; 2]) -> Value {
    json!({"requests": amount(requests), "limits": amount(limits)})
}

pub(crate) fn amount([cpu, memory]: [&str; 2]) -> Value {
    json!({"cpu": cpu, "memory": memory})
}

/// The present run of a pod's container.
#[derive(Debug, PartialEq)]
pub(crate) struct Run {
    /// UID of the pod.
    pub(crate) uid: String,
    /// Identifier of the run.
    container: String,
    /// Number of earlier runs.
    pub(crate) restarts: i32,
}

/// The runs of all pods of an app, in the order of the pods' names.
pub(crate) async fn runs(cluster: &Fixture, app: &str) -> Result<Vec<Run>> {
    let run = |pod: &Pod| {
        Ok(Run {
            uid: pod.uid().context("a pod has a UID")?,
            container: container_id(pod)?,
            restarts: status_of(pod).context("it has a container")?.restart_count,
        })
    };
    cluster.pods_of(app).await?.iter().map(run).collect()
}

/// Checks that the containers of an app run on, as they did before.
pub(crate) async fn run_on(cluster: &Fixture, app: &str, before: &[Run]) -> Result<()> {
    let now = runs(cluster, app).await?;
    ensure!(now == before, "{app}: {now:?} {before:?}");
    Ok(())
}

/// Waits until the program in each pod of an app holds this memory. A pod may be ready before.
pub(crate) async fn all_hold(cluster: &Fixture, app: &str, mib: u64) -> Result<()> {
    eventually(&format!("the pods of {app} hold {mib} MiB"), async || {
        for pod in cluster.pods_of(app).await? {
            let load = cluster.load(&pod).await?;
            ensure!(load.held_mib >= mib, "{load:?} {:?}", pod.status);
        }
        Ok(())
    })
    .await
}
