//! `plimsoll revert` and `plimsoll resume` without a program of the suite: pods of all kinds that were sized
//! get the resources of their templates back.

use anyhow::{Context as _, Result, ensure};
use api::sizing_policy::SizingPolicy;
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::{
    Namespace, eventually, plimsoll, plimsoll_json, plimsoll_prints, requests, shared, target,
    with, workload,
};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{LimitRange, PersistentVolume, Pod, ResourceQuota};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

const ANNOTATION: &str = "plimsoll.dev/mode-before-revert";

/// Workloads, their kinds and numbers of pods: a `DaemonSet` has one on each node.
const FLEET: [(&str, &str, usize); 3] = [
    ("web", "Deployment", 3),
    ("db", "StatefulSet", 2),
    ("agent", "DaemonSet", 3),
];

/// The fleet, with a limit that no template has, and claims of the `StatefulSet`.
async fn deploy(own: &Namespace) -> Result<()> {
    let limits = json!([{"type": "Container", "default": {"memory": "256Mi"}}]);
    own.make::<LimitRange>("defaults", json!({"limits": limits}))
        .await?;
    let size = requests("100m", "64Mi");
    let storage = json!({"storage": "1Mi"});
    for number in 0..2 {
        let spec = json!({
            "capacity": storage, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"},
            "claimRef": {"namespace": own.namespace, "name": format!("data-db-{number}")},
        });
        let name = format!("{}-{number}", own.namespace);
        Namespace::cluster(own.client.clone())
            .make::<PersistentVolume>(&name, spec)
            .await?;
    }
    own.create::<Deployment>(workload("web", 3, &size, &json!({})))
        .await?;
    let mut agent = workload("agent", 1, &size, &json!({}));
    agent["spec"]["replicas"] = Value::Null;
    own.create::<DaemonSet>(agent).await?;
    let claim = json!({"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": {"requests": storage}}});
    let mut db = workload("db", 2, &size, &json!({}));
    db["spec"] = with(db["spec"].take(), json!({"volumeClaimTemplates": [claim]}));
    db["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] =
        json!([{"name": "data", "mountPath": "/data"}]);
    own.create::<StatefulSet>(db).await?;
    Ok(())
}

/// Name and resources of the pods of a workload.
async fn sizes(own: &Namespace, app: &str) -> Result<Vec<(String, Value)>> {
    let pods = own.pods_of(app).await?;
    let size = |pod: &Pod| {
        let spec = pod.spec.as_ref();
        let container = spec.and_then(|spec| spec.containers.first());
        serde_json::to_value(container.and_then(|it| it.resources.as_ref()))
    };
    let pods = pods.iter().map(|pod| Ok((pod.name_any(), size(pod)?)));
    pods.collect()
}

/// Waits until a workload has this number of ready pods. Returns their resources.
async fn ready(own: &Namespace, app: &str, count: usize) -> Result<Vec<(String, Value)>> {
    eventually(&format!("{app} has {count} ready pods"), async || {
        let pods = own.pods_of(app).await?;
        let is_ready = |pod: &&Pod| e2e::container(pod).is_some_and(|it| it.ready);
        let ready = pods.iter().filter(is_ready).count();
        ensure!(ready == count, "{ready}");
        Ok(())
    })
    .await?;
    sizes(own, app).await
}

/// Resizes all pods, as the updater would.
async fn size(own: &Namespace, app: &str) -> Result<()> {
    for pod in own.pods_of(app).await? {
        let resources = requests("300m", "200Mi");
        let resize = json!({"spec": {"containers": [{"name": "app", "resources": resources}]}});
        let (params, patch) = (PatchParams::default(), Patch::Strategic(resize));
        own.typed::<Pod>()
            .patch_subresource("resize", &pod.name_any(), &params, &patch)
            .await?;
    }
    Ok(())
}

/// VPA objects of the fleet in several modes; a policy manages that of the Deployment.
async fn autoscale(own: &Namespace) -> Result<()> {
    let spec = json!({"updateMode": "Recreate"});
    let policy = own.make::<SizingPolicy>("all", spec).await?;
    let owner = json!([{"apiVersion": policy["apiVersion"], "kind": "SizingPolicy", "name": "all",
                        "uid": policy["metadata"]["uid"], "controller": true}]);
    for (name, kind, mode) in [
        ("web", "Deployment", json!("Recreate")),
        ("db", "StatefulSet", json!("InPlaceOrRecreate")),
        ("agent", "DaemonSet", Value::Null),
    ] {
        let owners = if name == "web" {
            owner.clone()
        } else {
            json!([])
        };
        own.create::<Vpa>(json!({
            "metadata": {"name": name, "ownerReferences": owners},
            "spec": {"targetRef": target(kind, name), "updatePolicy": {"updateMode": mode}},
        }))
        .await?;
    }
    Ok(())
}

/// Mode, and the mode that is kept, of each VPA object.
async fn modes(own: &Namespace) -> Result<Value> {
    let mut modes = json!({});
    for vpa in own.list::<Vpa>().await? {
        let name = vpa["metadata"]["name"].as_str().context("a name")?;
        modes[name] = json!([
            vpa["spec"]["updatePolicy"]["updateMode"],
            vpa["metadata"]["annotations"][ANNOTATION],
        ]);
    }
    let policy = own.get::<SizingPolicy>("all").await?;
    modes["policy"] = json!([
        policy["spec"]["updateMode"],
        policy["metadata"]["annotations"][ANNOTATION],
    ]);
    Ok(modes)
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_all_kinds_get_their_templates_back_and_the_modes_come_again() -> Result<()> {
    let sandbox = shared().await?;
    let own = Namespace::new(sandbox.client().await?, "revert").await?;
    let kubeconfig = sandbox.kubeconfig();
    deploy(&own).await?;
    let mut written = Vec::new();
    for (app, _, count) in FLEET {
        written.push(ready(&own, app, count).await?);
    }
    autoscale(&own).await?;
    let before = modes(&own).await?;
    for (app, ..) in FLEET {
        size(&own, app).await?;
    }
    // One pod refuses further resizes.
    let web = own.pods_of("web").await?;
    let refusing = web.first().context("a pod")?.name_any();
    let refuse = json!({"sandbox.plimsoll.dev/resize": "Infeasible"});
    own.annotate::<Pod>(&refusing, refuse).await?;

    let revert = format!("revert -n {}", own.namespace);
    let planned = plimsoll_json(&kubeconfig, &format!("{revert} --dry-run")).await?;
    ensure!(modes(&own).await? == before, "a dry run changed modes");
    let rows = planned["workloads"].as_array().context("workloads")?;
    let different = rows.iter().filter_map(|row| row["different"].as_u64());
    ensure!(different.sum::<u64>() == 8, "{planned:#}");

    let done = plimsoll_json(&kubeconfig, &revert).await?;
    for (app, kind, count) in FLEET {
        let name = format!("{kind}/{app}");
        let mut rows = done["workloads"].as_array().into_iter().flatten();
        let row = rows.find(|row| row["workload"] == name).context("a row")?;
        let replaced = usize::from(app == "web");
        ensure!(
            row["pods"] == count
                && row["different"] == count
                && row["resized"] == count - replaced
                && row["replaced"] == replaced
                && row["problem"].is_null(),
            "{done:#}"
        );
    }
    for ((app, ..), written) in FLEET.into_iter().zip(&written) {
        let now = sizes(&own, app).await?;
        ensure!(now.len() == written.len(), "{app}: {now:#?}");
        for (name, size) in &now {
            ensure!(
                *size == written[0].1,
                "{app}: {name}: {size} is not {}",
                written[0].1
            );
        }
        let kept = now.iter().filter(|it| written.contains(it)).count();
        ensure!(
            kept == now.len() - usize::from(app == "web"),
            "{app}: {now:#?}"
        );
    }
    let off = modes(&own).await?;
    let expected = json!({
        "web": ["Off", null], "db": ["Off", "InPlaceOrRecreate"], "agent": ["Off", ""],
        "policy": ["Off", "Recreate"],
    });
    ensure!(off == expected, "{off:#}");
    let again = plimsoll_json(&kubeconfig, &revert).await?;
    ensure!(again["workloads"][0]["different"] == 0, "{again:#}");
    ensure!(modes(&own).await? == expected, "the kept modes changed");

    let resume = format!("resume -n {}", own.namespace);
    let printed = plimsoll_prints(&kubeconfig, &resume).await?;
    ensure!(
        printed.contains("db: the mode is InPlaceOrRecreate again"),
        "{printed}"
    );
    let back = modes(&own).await?;
    let expected = json!({
        "web": ["Off", null], "db": before["db"], "agent": before["agent"], "policy": before["policy"],
    });
    ensure!(back == expected, "{back:#}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_that_forbids_the_eviction_is_named_and_the_pods_stay() -> Result<()> {
    let sandbox = shared().await?;
    let own = Namespace::new(sandbox.client().await?, "revert-budget").await?;
    let refuse = json!({"sandbox.plimsoll.dev/resize": "Infeasible"});
    own.create::<Deployment>(workload("web", 1, &requests("100m", "64Mi"), &json!({})))
        .await?;
    ready(&own, "web", 1).await?;
    size(&own, "web").await?;
    own.annotate_pods("web", &refuse).await?;
    let selector = json!({"matchLabels": {"app": "web"}});
    let spec = json!({"minAvailable": 1, "selector": selector});
    own.make::<PodDisruptionBudget>("web", spec).await?;
    let healthy = json!({"status": {"currentHealthy": 1}});
    own.await_fields::<PodDisruptionBudget>("web", healthy)
        .await?;
    let spec = json!({"targetRef": target("Deployment", "web")});
    own.make::<Vpa>("web", spec).await?;
    let pods = sizes(&own, "web").await?;

    // The dry run of a new pod is refused.
    own.make::<ResourceQuota>("full", json!({"hard": {"pods": "1"}}))
        .await?;
    let used = json!({"status": {"used": {"pods": "1"}}});
    own.await_fields::<ResourceQuota>("full", used).await?;

    let revert = format!("revert deployment/web -n {} --timeout 2s", own.namespace);
    for run in ["first", "second"] {
        let output = plimsoll(&sandbox.kubeconfig(), &revert).await?;
        let printed = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.code() == Some(4), "{run}: {output:?}");
        ensure!(printed.contains("disruption budget"), "{run}: {printed}");
        // The resize was accepted, and has no effect.
        let now = sizes(&own, "web").await?;
        ensure!(now[0].0 == pods[0].0, "{run}: the pod is gone: {now:?}");
    }
    Ok(())
}
