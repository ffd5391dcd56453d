//! Failures of the node below running containers, and of the suite itself, whose programs are restarted,
//! killed and evicted.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context as _, Result, ensure};
use e2e::deployment::{SUITE, all_ready, system};
use e2e::{Signal, dry_run, eventually, is_ready, patch, signal};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{EvictParams, ListParams};
use kube::{Api, ResourceExt as _};
use sandbox::Component;
use serde_json::json;

use super::fixture::{Fixture, or_skip};
use super::settled::{NAME, Settled, Sized};

/// Renewals of the Leases of recommender and updater, every two seconds, for which a part of the
/// node stays down: several of their rounds.
const ROUNDS: usize = 5;

/// One after the other, since a workload is settled only after a minute.
#[tokio::test]
async fn nothing_is_lost_and_no_act_is_wrong_while_parts_of_the_cluster_fail() -> Result<()> {
    let cluster = or_skip!(Fixture::alone("failures"));
    let settled = Settled::new(&cluster).await?;
    container_runtime_is_down(&settled)
        .await
        .context("container runtime down")?;
    kubelet_is_down(&settled).await.context("kubelet down")?;
    all_programs(&settled).await
}

/// Stops a component, and starts it again whatever the checks meanwhile say: other tests need it.
async fn without<T>(
    settled: &Settled<'_>,
    component: Component,
    checks: impl AsyncFnOnce() -> Result<T>,
) -> Result<T> {
    let sandbox = settled.cluster.sandbox();
    sandbox.stop(component).await?;
    let checked = checks().await;
    sandbox.start(component).await?;
    checked
}

/// Containers run on, and the restarted runtime finds them.
async fn container_runtime_is_down(settled: &Settled<'_>) -> Result<()> {
    let before = settled.observed().await?;
    without(settled, Component::Containerd, async || {
        settled.renewed(ROUNDS).await?;
        settled.is_still(&before).await
    })
    .await?;
    settled.measured(true).await?;
    settled.is_still(&before).await?;
    let target = settled.ask_for_more(&before).await?;
    settled.resized(&before, target).await.map(drop)
}

/// No usage is known meanwhile, and no resize is done. Containers run on.
async fn kubelet_is_down(settled: &Settled<'_>) -> Result<()> {
    let before = settled.observed().await?;
    let target = without(settled, Component::Kubelet, async || {
        settled.measured(false).await?;
        settled.renewed(ROUNDS).await?;
        settled.is_still(&before).await?;
        // A resize that no kubelet does is not replaced by an eviction.
        let target = settled.ask_for_more(&before).await?;
        settled.renewed(ROUNDS).await?;
        Ok(target)
    })
    .await?;
    let resized = settled.resized(&before, target).await?;
    settled.measured(true).await?;
    settled.renewed(ROUNDS).await?;
    settled.is_still(&resized).await
}

/// Deployments of the suite.
const PROGRAMS: usize = 5;

/// A pod of the suite, and the restarts of its container.
type Run = (String, i32);

pub(crate) struct Suite {
    pods: Api<Pod>,
    deployments: Api<Deployment>,
    leases: Api<Lease>,
}

impl Suite {
    pub(crate) fn of(cluster: &Fixture) -> Self {
        let system = system(&cluster.client);
        Self {
            pods: system.typed(),
            deployments: system.typed(),
            leases: system.typed(),
        }
    }

    pub(crate) async fn pods(&self) -> Result<Vec<Pod>> {
        let pods = self.pods.list(&ListParams::default().labels(SUITE)).await?;
        ensure!(
            pods.items.len() >= 2 * PROGRAMS,
            "only {} pods",
            pods.items.len()
        );
        Ok(pods.items)
    }

    /// Restarts the Deployments as `kubectl rollout restart` does.
    async fn roll(&self) -> Result<()> {
        let params = ListParams::default().labels(SUITE);
        for deployment in self.deployments.list(&params).await? {
            let annotations = json!({"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"});
            let template = json!({"metadata": {"annotations": annotations}});
            let change = json!({"spec": {"template": template}});
            patch(&self.deployments, &deployment.name_any(), change).await?;
        }
        Ok(())
    }

    async fn kill(&self) -> Result<()> {
        for pod in self.pods().await? {
            let processes = processes_of(&pod)?;
            ensure!(!processes.is_empty(), "{} has no process", pod.name_any());
            for process in processes {
                signal(process, Signal::KILL)?;
            }
        }
        Ok(())
    }

    /// Evicts the pods one after the other, as budgets allow.
    async fn drain(&self) -> Result<()> {
        for pod in self.pods().await? {
            let name = pod.name_any();
            eventually(&format!("{name} may be evicted"), async || {
                match self.pods.evict(&name, &EvictParams::default()).await {
                    Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
                    evicted => Ok(evicted.map(drop)?),
                }
            })
            .await?;
        }
        Ok(())
    }

    /// Waits until no container of `before` runs, and all programs are ready.
    async fn replaced(&self, client: &kube::Client, before: &[Pod]) -> Result<()> {
        let before: BTreeSet<Run> = before.iter().map(run).collect();
        eventually("containers are replaced", async || {
            for pod in self.pods().await? {
                ensure!(!before.contains(&run(&pod)), "{} is old", pod.name_any());
                ensure!(is_ready(&pod), "{} is not ready", pod.name_any());
            }
            Ok(())
        })
        .await?;
        all_ready(client, SUITE).await
    }

    /// Waits until live pods hold the Leases.
    async fn leads(&self) -> Result<()> {
        eventually("live pods lead", async || {
            let pods = self.pods().await?;
            for name in ["vpa-recommender-lease", "vpa-updater"] {
                let spec = self.leases.get(name).await?.spec.context("a spec")?;
                let holder = spec.holder_identity.unwrap_or_default();
                let leads = |pod: &Pod| holder.starts_with(&pod.name_any());
                ensure!(pods.iter().any(leads), "{holder} holds {name}");
            }
            Ok(())
        })
        .await
    }
}

fn run(pod: &Pod) -> Run {
    let restarts = e2e::container(pod).map_or(0, |status| status.restart_count);
    (pod.uid().unwrap_or_default(), restarts)
}

/// Processes of a pod's containers on this machine, by their cgroups.
pub(crate) fn processes_of(pod: &Pod) -> Result<Vec<u32>> {
    let cgroup = format!("pod{}/", pod.uid().context("it has a uid")?);
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let of_process = |file: &str| fs::read_to_string(entry.path().join(file));
        let (Ok(cgroups), Ok(command)) = (of_process("cgroup"), of_process("cmdline")) else {
            continue;
        };
        let is_pause = command.starts_with("/pause");
        if cgroups.contains(&cgroup) && !is_pause {
            found.extend(entry.file_name().to_string_lossy().parse::<u32>());
        }
    }
    Ok(found)
}

/// Checks that users have of the suite what they had before.
pub(crate) async fn nothing_is_lost(settled: &Settled<'_>, before: &Sized) -> Result<()> {
    let cluster = settled.cluster;
    settled.renewed(2).await?;
    settled.is_still(before).await?;
    for path in [
        "custom.metrics.k8s.io/v1beta2",
        "external.metrics.k8s.io/v1beta1",
    ] {
        eventually(&format!("{path} answers"), async || {
            let request = http::Request::get(format!("/apis/{path}")).body(Vec::new())?;
            Ok(cluster.client.request_text(request).await?)
        })
        .await?;
    }
    eventually("the webhook sizes a new pod", async || {
        let old = cluster.pod(NAME).await?;
        let resources = json!({"requests": {"cpu": "20m", "memory": "20Mi"}});
        let app = json!({"name": "app", "image": e2e::LOAD_IMAGE, "resources": resources});
        let new = serde_json::from_value(json!({
            "metadata": {
                "generateName": "new-",
                "labels": old.metadata.labels,
                "ownerReferences": old.metadata.owner_references,
            },
            "spec": {"containers": [app]},
        }))?;
        let new = cluster.typed::<Pod>().create(&dry_run(), &new).await?;
        let spec = serde_json::to_value(new.spec)?;
        let memory = &spec["containers"][0]["resources"]["requests"]["memory"];
        let wanted = before.target.memory.to_string();
        ensure!(*memory == wanted, "{memory} is not {wanted}");
        Ok(())
    })
    .await
}

/// Restarts, kills and evicts all programs of the suite, and checks after each that nothing is lost.
pub(crate) async fn all_programs(settled: &Settled<'_>) -> Result<()> {
    let cluster = settled.cluster;
    let before = settled.observed().await?;
    let suite = Suite::of(cluster);
    for act in ["rolling update", "kill", "eviction"] {
        let pods = suite.pods().await?;
        match act {
            "rolling update" => suite.roll().await?,
            "kill" => suite.kill().await?,
            _ => suite.drain().await?,
        }
        let lost = async || {
            suite.replaced(&cluster.client, &pods).await?;
            suite.leads().await?;
            nothing_is_lost(settled, &before).await
        };
        lost().await.with_context(|| format!("after a {act}"))?;
    }
    Ok(())
}
