//! A fleet of workloads of all kinds, sized by the updater and reverted by `plimsoll revert`. `PLIMSOLL_FLEET`
//! is the number of pods, 20 by default.

use std::collections::BTreeMap;
use std::env;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use e2e::{eventually, eventually_within, plimsoll_json, target, with};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::fixture::{Fixture, amount, container, or_skip, pod_of, resources};

/// A workload: name, kind, its part of twenty pods, and the pod of its template. 200 pods fit a node of two cores
/// and 6 GiB.
struct Workload {
    name: &'static str,
    kind: &'static str,
    part: usize,
    pod: Value,
}

fn fleet() -> Vec<Workload> {
    let burstable = || resources(["2m", "8Mi"], ["40m", "16Mi"]);
    let plain = || pod_of(&[], &burstable());
    let mut with_sidecar = plain();
    let mut sidecar = container("sidecar", &["--port=8081"], &burstable());
    sidecar["readinessProbe"] = Value::Null;
    sidecar["restartPolicy"] = json!("Always");
    with_sidecar["initContainers"] = json!([sidecar]);
    let mut restarts = plain();
    restarts["containers"][0]["resizePolicy"] =
        json!([{"resourceName": "memory", "restartPolicy": "RestartContainer"}]);
    let only_requests = json!({"requests": amount(["2m", "8Mi"])});
    let guaranteed = resources(["10m", "16Mi"], ["10m", "16Mi"]);
    let workload = |name, kind, part, pod| Workload {
        name,
        kind,
        part,
        pod,
    };
    vec![
        workload("web", "Deployment", 5, plain()),
        workload("guaranteed", "Deployment", 3, pod_of(&[], &guaranteed)),
        // A resize would change its class, so that its pods are evicted.
        workload("best-effort", "Deployment", 2, pod_of(&[], &json!({}))),
        workload("sidecar", "Deployment", 2, with_sidecar),
        workload("restarts", "Deployment", 2, restarts),
        workload("requests", "ReplicaSet", 2, pod_of(&[], &only_requests)),
        workload("db", "StatefulSet", 3, plain()),
        workload("agent", "DaemonSet", 1, plain()),
    ]
}

impl Workload {
    fn count(&self, all: usize) -> usize {
        match self.kind {
            "DaemonSet" => 1,
            _ => self.part * all / 20,
        }
    }

    async fn create(&self, cluster: &Fixture, count: usize) -> Result<()> {
        let labels = json!({"app": self.name});
        let spec = json!({
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": self.pod},
        });
        let replicas = json!({"replicas": count});
        let name = self.name;
        match self.kind {
            "Deployment" => {
                cluster
                    .make::<Deployment>(name, with(spec, replicas))
                    .await?
            }
            "ReplicaSet" => {
                cluster
                    .make::<ReplicaSet>(name, with(spec, replicas))
                    .await?
            }
            "StatefulSet" => {
                let more = json!({"serviceName": name, "podManagementPolicy": "Parallel"});
                let spec = with(with(spec, replicas), more);
                cluster.make::<StatefulSet>(name, spec).await?
            }
            _ => cluster.make::<DaemonSet>(name, spec).await?,
        };
        Ok(())
    }
}

/// Requests and limits of the pods of a workload as written and, where the kubelet reports them, in effect; by
/// pod and container. Only if all pods are ready.
async fn sizes(cluster: &Fixture, app: &str, count: usize) -> Result<BTreeMap<String, Value>> {
    let mut pods = cluster.pods_of(app).await?;
    pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
    ensure!(pods.len() == count, "{app} has {} pods", pods.len());
    let mut sizes = BTreeMap::new();
    for pod in pods {
        let status = json!(pod.status);
        let is_ready = e2e::condition(&status, "Ready").is_some_and(|it| it["status"] == "True");
        ensure!(is_ready, "{}: {status:#}", pod.name_any());
        sizes.insert(pod.name_any(), size(&pod));
    }
    Ok(sizes)
}

fn size(pod: &Pod) -> Value {
    let pod = json!(pod);
    let mut sizes = json!({});
    for (specified, reported) in [
        ("containers", "containerStatuses"),
        ("initContainers", "initContainerStatuses"),
    ] {
        let containers = pod["spec"][specified].as_array().into_iter().flatten();
        for container in containers {
            let name = &container["name"];
            let mut statuses = pod["status"][reported].as_array().into_iter().flatten();
            let status = statuses.find(|it| it["name"] == *name);
            let in_effect = status.map(|status| status["resources"].clone());
            sizes[name.as_str().unwrap_or_default()] = json!([container["resources"], in_effect]);
        }
    }
    sizes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_of_all_kinds_is_sized_and_has_its_manifests_back() -> Result<()> {
    let all = env::var("PLIMSOLL_FLEET").map_or(Ok(20), |text| text.parse::<usize>())?;
    let cluster = or_skip!(Fixture::new("fleet"));
    let fleet = fleet();
    let minutes = |count: u64| std::time::Duration::from_mins(count);
    let mut written = BTreeMap::new();
    for workload in &fleet {
        workload.create(&cluster, workload.count(all)).await?;
    }
    for workload in &fleet {
        let (name, count) = (workload.name, workload.count(all));
        let look = async || {
            let pods = sizes(&cluster, name, count).await?;
            let first = pods.values().next().context("a pod")?.clone();
            let are_equal = pods.values().all(|size| *size == first);
            ensure!(are_equal, "{name}: {pods:#?}");
            Ok((pods, first))
        };
        let what = format!("the pods of {name} are ready");
        let found = eventually_within(minutes(10), &what, look).await?;
        written.insert(name, found);
    }

    let large = amount(["4m", "16Mi"]);
    for workload in &fleet {
        let reference = json!({"targetRef": target(workload.kind, workload.name)});
        let policy = json!({"updatePolicy": {"updateMode": "InPlaceOrRecreate", "minReplicas": 1}});
        cluster
            .size_with(
                workload.name,
                "InPlaceOrRecreate",
                with(reference, policy),
                &large,
            )
            .await?;
    }
    let began = Instant::now();
    for workload in &fleet {
        let (name, count) = (workload.name, workload.count(all));
        let look = async || {
            let pods = sizes(&cluster, name, count).await?;
            let is_large = |size: &Value| {
                let app = &size["app"];
                let requests = [&app[0]["requests"], &app[1]["requests"]];
                requests.iter().all(|it| **it == large)
            };
            let small: Vec<_> = pods.iter().filter(|(_, size)| !is_large(size)).collect();
            ensure!(
                small.is_empty(),
                "{} of {count} are small: {:?}",
                small.len(),
                small[0]
            );
            Ok(())
        };
        let what = format!("the pods of {name} are large");
        eventually_within(minutes(25), &what, look).await?;
    }
    eprintln!("{all} pods are sized after {:?}", began.elapsed());

    let began = Instant::now();
    let revert = format!("revert -n {}", cluster.namespace);
    let done = plimsoll_json(&cluster.sandbox().kubeconfig(), &revert).await?;
    eprintln!("reverted after {:?}", began.elapsed());
    for workload in &fleet {
        let (before, template) = &written[workload.name];
        let count = workload.count(all);
        let name = format!("{}/{}", workload.kind, workload.name);
        let mut rows = done["workloads"].as_array().into_iter().flatten();
        let row = rows.find(|row| row["workload"] == name).context("a row")?;
        let changed = row["resized"].as_u64().zip(row["replaced"].as_u64());
        let changed = changed.map(|(resized, replaced)| resized + replaced);
        ensure!(
            changed == u64::try_from(count).ok() && row["problem"].is_null(),
            "{row:#}"
        );
        let look = async || {
            let after = sizes(&cluster, workload.name, count).await?;
            for (pod, size) in &after {
                ensure!(size == template, "{pod}: {size:#} is not {template:#}");
            }
            Ok(after)
        };
        let after = eventually("the pods are as their manifests", look).await?;
        let kept = after.keys().filter(|pod| before.contains_key(*pod)).count();
        let is_replaced = workload.name == "best-effort";
        ensure!(
            kept == if is_replaced { 0 } else { count },
            "{name}: {kept} of {count} are kept"
        );
    }
    Ok(())
}
