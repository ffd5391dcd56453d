//! Resizes in place, by what the kernel applies to the running container.

use anyhow::{Context as _, Result, ensure};
use api::pod_annotations::OOM_RESIZE;
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::{condition, eventually, plimsoll_json, requests_in_effect, until};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::cgroups::{Applied, all_have, check, have, of_pod};
use super::fixture::{Fixture, all_hold, amount, or_skip, pod_of, resources, run_on, runs};

const REPLICAS: usize = 2;

/// Waits until the VPA object says that its pods do not have the recommendation for this reason.
async fn says(cluster: &Fixture, name: &str, reason: &str) -> Result<()> {
    let what = format!("Applied is False: {reason}");
    let is_said = |vpa: &Value| {
        condition(&vpa["status"], "Applied").is_some_and(|applied| applied["reason"] == reason)
    };
    cluster.when::<Vpa>(name, &what, is_said).await.map(drop)
}

/// Waits until the kubelet reports the resize of each pod with this reason.
async fn resizes_are(cluster: &Fixture, app: &str, reason: &str) -> Result<()> {
    eventually(&format!("the resizes are {reason}"), async || {
        for pod in cluster.pods_of(app).await? {
            let status = json!(pod.status);
            let reasons = ["PodResizePending", "PodResizeInProgress"]
                .map(|kind| condition(&status, kind).map(|it| it["reason"].clone()));
            ensure!(reasons.contains(&Some(json!(reason))), "{status:#}");
        }
        Ok(())
    })
    .await
}

/// Policy with this recommendation whatever the usage.
fn always(amount: &Value) -> Value {
    json!({"containerName": "*", "minAllowed": amount, "maxAllowed": amount})
}

#[tokio::test]
async fn cpu_and_memory_grow_and_shrink_while_the_program_runs() -> Result<()> {
    let cluster = or_skip!(Fixture::new("resize"));
    let size = resources(["20m", "50Mi"], ["40m", "100Mi"]);
    let pod = pod_of(&["--memory-mib=20"], &size);
    cluster.deploy("web", REPLICAS, &pod).await?;
    let before = runs(&cluster, "web").await?;
    all_have(&cluster, "web", Applied::of(20, 40, 100)).await?;
    let large = amount(["50m", "150Mi"]);
    cluster.size_to("web", "InPlaceOrRecreate", &large).await?;
    all_have(&cluster, "web", Applied::of(50, 100, 300)).await?;
    cluster.recommend("web", &amount(["10m", "40Mi"])).await?;
    all_have(&cluster, "web", Applied::of(10, 20, 80)).await?;
    let revert = format!("revert deployment/web -n {}", cluster.namespace);
    let reverted = plimsoll_json(&cluster.sandbox().kubeconfig(), &revert).await?;
    ensure!(
        reverted["workloads"][0]["resized"] == REPLICAS,
        "{reverted:#}"
    );
    all_have(&cluster, "web", Applied::of(20, 40, 100)).await?;
    run_on(&cluster, "web", &before).await
}

#[tokio::test]
async fn a_guaranteed_pod_stays_guaranteed() -> Result<()> {
    let cluster = or_skip!(Fixture::new("guaranteed"));
    let size = resources(["20m", "50Mi"], ["20m", "50Mi"]);
    cluster.deploy("web", REPLICAS, &pod_of(&[], &size)).await?;
    let before = runs(&cluster, "web").await?;
    let large = amount(["40m", "100Mi"]);
    cluster.size_to("web", "InPlaceOrRecreate", &large).await?;
    all_have(&cluster, "web", Applied::of(40, 40, 100)).await?;
    for pod in cluster.pods_of("web").await? {
        let class = pod.status.and_then(|status| status.qos_class);
        ensure!(class.as_deref() == Some("Guaranteed"), "{class:?}");
    }
    run_on(&cluster, "web", &before).await
}

#[tokio::test]
async fn a_pod_without_requests_is_replaced_only_where_the_mode_allows_it() -> Result<()> {
    let cluster = or_skip!(Fixture::new("best-effort"));
    let mut before = Vec::new();
    for (name, mode) in [("only", "InPlace"), ("either", "InPlaceOrRecreate")] {
        cluster
            .deploy(name, REPLICAS, &pod_of(&[], &json!({})))
            .await?;
        before.push(runs(&cluster, name).await?);
        let policy = always(&amount(["20m", "50Mi"]));
        cluster.autoscale(name, mode, policy).await?;
    }
    all_have(&cluster, "either", Applied::of(20, 0, 0)).await?;
    says(&cluster, "either", "Applied").await?;
    says(&cluster, "only", "QosClass").await?;
    run_on(&cluster, "only", &before[0]).await?;
    all_have(&cluster, "only", Applied::of(0, 0, 0)).await
}

#[tokio::test]
async fn a_resize_restarts_each_container_once_whose_policy_says_so() -> Result<()> {
    let cluster = or_skip!(Fixture::new("restart"));
    let size = resources(["20m", "50Mi"], ["40m", "50Mi"]);
    let mut pod = pod_of(&["--memory-mib=20"], &size);
    pod["containers"][0]["resizePolicy"] =
        json!([{"resourceName": "memory", "restartPolicy": "RestartContainer"}]);
    cluster.deploy("web", REPLICAS, &pod).await?;
    let before = runs(&cluster, "web").await?;
    let policy = always(&amount(["20m", "100Mi"]));
    cluster
        .autoscale("web", "InPlaceOrRecreate", policy)
        .await?;
    all_have(&cluster, "web", Applied::of(20, 40, 100)).await?;
    says(&cluster, "web", "Applied").await?;
    let after = runs(&cluster, "web").await?;
    for (run, old) in after.iter().zip(&before) {
        ensure!(run.uid == old.uid, "it is the same pod: {run:?} {old:?}");
        ensure!(run.restarts == 1, "it was restarted once: {run:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_memory_limit_waits_until_the_program_holds_less() -> Result<()> {
    let cluster = or_skip!(Fixture::new("in-use"));
    let size = resources(["20m", "200Mi"], ["40m", "200Mi"]);
    let pod = pod_of(&["--memory-mib=150"], &size);
    cluster.deploy("web", REPLICAS, &pod).await?;
    all_hold(&cluster, "web", 150).await?;
    let before = runs(&cluster, "web").await?;
    let policy = always(&amount(["20m", "100Mi"]));
    cluster
        .autoscale("web", "InPlaceOrRecreate", policy)
        .await?;
    says(&cluster, "web", "MemoryInUse").await?;
    all_have(&cluster, "web", Applied::of(20, 40, 200)).await?;
    for pod in cluster.pods_of("web").await? {
        cluster.set(&pod, "memory-mib=20").await?;
    }
    all_have(&cluster, "web", Applied::of(20, 40, 100)).await?;
    run_on(&cluster, "web", &before).await
}

#[tokio::test]
async fn cpu_does_not_wait_for_memory_that_is_in_use() -> Result<()> {
    let cluster = or_skip!(Fixture::new("cpu-first"));
    let size = resources(["20m", "200Mi"], ["40m", "200Mi"]);
    let pod = pod_of(&["--memory-mib=150"], &size);
    cluster.deploy("web", REPLICAS, &pod).await?;
    all_hold(&cluster, "web", 150).await?;
    let before = runs(&cluster, "web").await?;
    let policy = always(&amount(["40m", "100Mi"]));
    cluster
        .autoscale("web", "InPlaceOrRecreate", policy)
        .await?;
    all_have(&cluster, "web", Applied::of(40, 80, 200)).await?;
    says(&cluster, "web", "RecentlyReverted").await?;
    run_on(&cluster, "web", &before).await
}

#[tokio::test]
async fn a_higher_recommendation_follows_a_resize_that_failed() -> Result<()> {
    let cluster = or_skip!(Fixture::new("failed"));
    let modes = [("only", "InPlace"), ("either", "InPlaceOrRecreate")];
    let mut before = Vec::new();
    for (name, mode) in modes {
        let size = resources(["20m", "200Mi"], ["40m", "200Mi"]);
        let pod = pod_of(&["--memory-mib=150"], &size);
        cluster.deploy(name, REPLICAS, &pod).await?;
        all_hold(&cluster, name, 150).await?;
        before.push(runs(&cluster, name).await?);
        cluster
            .size_to(name, mode, &amount(["20m", "100Mi"]))
            .await?;
    }
    for ((name, _), before) in modes.iter().zip(before) {
        resizes_are(&cluster, name, "Error").await?;
        cluster.recommend(name, &amount(["20m", "300Mi"])).await?;
        all_have(&cluster, name, Applied::of(20, 40, 300)).await?;
        run_on(&cluster, name, &before).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_pod_that_no_node_can_hold_is_not_resized() -> Result<()> {
    let cluster = or_skip!(Fixture::new("infeasible"));
    let size = resources(["20m", "50Mi"], ["40m", "50Mi"]);
    cluster.deploy("web", REPLICAS, &pod_of(&[], &size)).await?;
    let before = runs(&cluster, "web").await?;
    let policy = always(&amount(["20m", "64Gi"]));
    cluster.autoscale("web", "InPlace", policy).await?;
    says(&cluster, "web", "ResizeInfeasible").await?;
    // A size that the node has is tried at once.
    let policy = always(&amount(["20m", "100Mi"]));
    let change = json!({"spec": {"resourcePolicy": {"containerPolicies": [policy]}}});
    cluster.patch::<Vpa>("web", change).await?;
    all_have(&cluster, "web", Applied::of(20, 40, 100)).await?;
    run_on(&cluster, "web", &before).await
}

#[tokio::test]
async fn a_resize_that_a_full_node_defers_takes_effect_when_there_is_room() -> Result<()> {
    // It fills the node.
    let cluster = or_skip!(Fixture::alone("deferred"));
    let size = resources(["20m", "50Mi"], ["40m", "50Mi"]);
    cluster.deploy("web", REPLICAS, &pod_of(&[], &size)).await?;
    let before = runs(&cluster, "web").await?;
    // Of 6 GiB. The limit costs nothing.
    let filler = resources(["10m", "3Gi"], ["40m", "3Gi"]);
    cluster.deploy("filler", 1, &pod_of(&[], &filler)).await?;
    let large = amount(["20m", "1700Mi"]);
    cluster.size_to("web", "InPlaceOrRecreate", &large).await?;
    let deferred = eventually("one resize is deferred", async || {
        let pods = cluster.pods_of("web").await?.into_iter();
        let mut deferred = pods.filter(|pod| {
            condition(&json!(pod.status), "PodResizePending")
                .is_some_and(|pending| pending["reason"] == "Deferred")
        });
        deferred.next().ok_or_else(|| anyhow::anyhow!("none is"))
    })
    .await?;
    have(&cluster, &deferred, Applied::of(20, 40, 50)).await?;
    cluster.delete::<Deployment>("filler").await?;
    all_have(&cluster, "web", Applied::of(20, 40, 1700)).await?;
    run_on(&cluster, "web", &before).await
}

/// Waits until all pods of an app are created with this CPU, the boosted recommendation. Those that the
/// webhook admits before it knows the VPA object have no boost, and those before it knows the
/// recommendation that of their own request: others are needed.
async fn are_boosted(cluster: &Fixture, app: &str, cpu: &str) -> Result<()> {
    eventually(&format!("the pods of {app} are boosted"), async || {
        let pods = cluster.pods_of(app).await?;
        let is_boosted = |pod: &&Pod| {
            let spec = json!(pod.spec);
            pod.annotations().contains_key("vpaCpuStartupBoost/app")
                && spec["containers"][0]["resources"]["requests"]["cpu"] == cpu
        };
        let boosted = pods.iter().filter(is_boosted).count();
        for pod in pods.iter().filter(|pod| !is_boosted(pod)) {
            cluster.delete::<Pod>(&pod.name_any()).await?;
        }
        ensure!(
            boosted == REPLICAS && pods.len() == REPLICAS,
            "{boosted} are"
        );
        Ok(())
    })
    .await
}

/// Makes all pods of an app ready, once they hold this memory.
async fn become_ready(cluster: &Fixture, app: &str, mib: u64) -> Result<()> {
    all_hold(cluster, app, mib).await?;
    for pod in cluster.pods_of(app).await? {
        cluster.set(&pod, "ready-after-seconds=0").await?;
    }
    cluster.all_available(app, REPLICAS).await
}

/// Waits until all pods of an app have this CPU and 200 MiB. A container may be killed before the kubelet has
/// carried out its resize: then, and only then, its pod has a step of 1 MiB more, which its annotation records.
async fn are_healed(cluster: &Fixture, app: &str, cpu: u64) -> Result<()> {
    eventually(&format!("the pods of {app} are healed"), async || {
        let pods = cluster.pods_of(app).await?;
        ensure!(pods.len() == REPLICAS, "there are {}", pods.len());
        for pod in &pods {
            let note = pod.annotations().get(OOM_RESIZE);
            let has_step = note.is_some_and(|note| note.contains(r#""act":"step""#));
            let mib = 200 + u64::from(has_step);
            check(cluster, pod, Applied::of(cpu, cpu, mib)).with_context(|| format!("{note:?}"))?;
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_boosted_pod_gets_memory_after_an_oom_kill_and_loses_its_boost_later() -> Result<()> {
    let cluster = or_skip!(Fixture::new("boost"));
    let boost = json!({"cpu": {"type": "Factor", "factor": 3, "durationSeconds": 3}});
    let recommended = amount(["20m", "50Mi"]);
    let size = resources(["10m", "50Mi"], ["10m", "50Mi"]);
    for (name, memory) in [("calm", "--memory-mib=20"), ("hungry", "--memory-mib=100")] {
        let spec = json!({"startupBoost": boost});
        cluster
            .size_with(name, "InPlaceOrRecreate", spec, &recommended)
            .await?;
        // Their boosts last until the test makes them ready. On a busy machine, a resize must find the
        // container running before the next kill.
        let flags = [
            "--ready-after-seconds=3600",
            "--memory-after-seconds=8",
            memory,
        ];
        let pod = pod_of(&flags, &size);
        cluster.create_deployment(name, REPLICAS, &pod).await?;
        are_boosted(&cluster, name, "60m").await?;
    }
    all_have(&cluster, "calm", Applied::of(60, 60, 50)).await?;
    let before = runs(&cluster, "calm").await?;
    until(
        "the kernel has killed a container",
        async || runs(&cluster, "hungry").await,
        |runs| runs.iter().any(|run| run.restarts > 0),
    )
    .await?;
    cluster
        .recommend("hungry", &amount(["20m", "200Mi"]))
        .await?;
    are_healed(&cluster, "hungry", 60).await?;
    become_ready(&cluster, "hungry", 100).await?;
    become_ready(&cluster, "calm", 20).await?;
    are_healed(&cluster, "hungry", 20).await?;
    all_have(&cluster, "calm", Applied::of(20, 20, 50)).await?;
    run_on(&cluster, "calm", &before).await
}

#[tokio::test]
async fn a_container_is_resized_within_the_resources_of_its_pod() -> Result<()> {
    let cluster = or_skip!(Fixture::new("pod-level"));
    let size = json!({"requests": amount(["20m", "50Mi"])});
    let mut pod = pod_of(&["--memory-mib=20"], &size);
    pod["resources"] = resources(["60m", "100Mi"], ["120m", "200Mi"]);
    cluster.deploy("web", REPLICAS, &pod).await?;
    let before = runs(&cluster, "web").await?;
    let large = amount(["40m", "80Mi"]);
    cluster.size_to("web", "InPlaceOrRecreate", &large).await?;
    eventually("the containers are resized", async || {
        for pod in cluster.pods_of("web").await? {
            let requests = json!(requests_in_effect(&pod));
            ensure!(requests == large, "{requests}");
            let applied = of_pod(&cluster, &pod)?;
            ensure!(applied == Applied::of(60, 120, 200), "{applied:?}");
        }
        Ok(())
    })
    .await?;
    run_on(&cluster, "web", &before).await
}
