//! Faults that cause the alerts, several at a time, with their remedies.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, ensure};
use api::ehpa::EffectiveHorizontalPodAutoscaler as Ehpa;
use api::rollback::ROLLED_BACK;
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::{
    Namespace, condition, container, eventually, oom_kill, requests, requests_in_effect, target,
    usage, with,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{LimitRange, Namespace as NamespaceObject, Pod};
use serde_json::{Value, json};

use super::cluster::{CHANGED, Cluster, sized};
use super::slow_readers::with_maximum;

/// An update mode in the specification of a VPA object.
pub(crate) fn mode(mode: &str) -> Value {
    json!({"updatePolicy": {"updateMode": mode}})
}

pub(crate) async fn delete_all(namespace: &Namespace, names: &[&str]) -> Result<()> {
    for name in names {
        namespace.delete::<Vpa>(name).await?;
        namespace.delete::<Deployment>(name).await?;
    }
    Ok(())
}

/// Workloads and VPA objects that cannot be sized as recommended.
pub(crate) async fn of_objects(cluster: &Cluster) -> Result<()> {
    let own = &cluster.own;
    cluster.create_workloads().await?;
    let opted_out = json!({"metadata": {"labels": {"plimsoll.dev/disable-webhook": "true"}}});
    sized(own, "vain", 2, &opted_out, &mode("Recreate")).await?;
    let too_small =
        json!({"metadata": {"annotations": {"sandbox.plimsoll.dev/resize": "Infeasible"}}});
    sized(own, "tight", 2, &too_small, &mode("InPlace")).await?;
    let policy =
        json!({"containerPolicies": [{"containerName": "*", "maxAllowed": {"cpu": "60m"}}]});
    let spec = with(mode("Off"), json!({"resourcePolicy": policy}));
    sized(own, "maximum", 1, &json!({}), &spec).await?;
    let limited = Namespace::new(cluster.client.clone(), "limited").await?;
    let limits = json!([{"type": "Container", "max": {"cpu": "150m"}, "default": {"cpu": "150m"}}]);
    let range = json!({"metadata": {"name": "limits"}, "spec": {"limits": limits}});
    limited.create::<LimitRange>(range).await?;
    sized(&limited, "capped", 1, &json!({}), &mode("Off")).await?;
    let labels: serde_json::Map<String, Value> = (0..9000)
        .map(|number| (format!("label-{number}"), "x".repeat(60).into()))
        .collect();
    let container = json!({"name": "app", "image": "registry.example.com/app"});
    let large = json!({"metadata": {"name": "large", "labels": labels}, "spec": {"containers": [container]}});
    own.create::<Pod>(large).await?;
    cluster.scaled(CHANGED).await?;
    cluster
        .fire(&[
            "PlimsollEvictionsInVain",
            "PlimsollResizesInfeasible",
            "PlimsollRecommendationAtMaximum",
            "PlimsollRecommendationsCapped",
            "PlimsollObjectsRejected",
            "PlimsollForecastsInaccurate",
        ])
        .await?;
    delete_all(own, &["vain", "tight", "maximum"]).await?;
    delete_all(&limited, &["capped"]).await?;
    own.delete::<Pod>("large").await?;
    own.delete::<Ehpa>(CHANGED).await?;
    Ok(())
}

/// Pods that are evicted for one size after another.
pub(crate) async fn of_evictions(cluster: &Cluster) -> Result<()> {
    let own = &cluster.own;
    let name = "restless";
    sized(own, name, 24, &json!({}), &mode("Recreate")).await?;
    let is_small = AtomicBool::new(true);
    let change = async || {
        let maximum = if is_small.fetch_not(Ordering::Relaxed) {
            "128m"
        } else {
            "64m"
        };
        own.patch::<Vpa>(name, with_maximum(maximum)).await?;
        Ok(())
    };
    cluster
        .fire_while(&["PlimsollEvictionBurst"], change)
        .await?;
    delete_all(own, &[name]).await
}

/// A pod that is OOM-killed after a resize took memory from it.
pub(crate) async fn of_resizes(cluster: &Cluster) -> Result<()> {
    let own = &cluster.own;
    let name = "lowered";
    let large = requests("50m", "8Gi");
    own.deploy(name, 2, &large, &usage("300m", "100Mi")).await?;
    // Without a maximum, the bounds would be wide for hours.
    let policy = json!({"containerName": "*", "maxAllowed": {"memory": "1Gi"}});
    let spec = json!({
        "targetRef": target("Deployment", name), "updatePolicy": {"updateMode": "InPlace"},
        "resourcePolicy": {"containerPolicies": [policy]},
    });
    own.make::<Vpa>(name, spec).await?;
    // A status that the kubelet writes at the same time may hide a kill.
    let kill = async || {
        let pods = own.pods_of(name).await?;
        let is_small = |pod: &&Pod| {
            let requests = requests_in_effect(pod);
            requests.is_some_and(|it| it.get("memory").is_some_and(|memory| memory.0 != "8Gi"))
        };
        let is_killed = |pod: &Pod| {
            let states = container(pod).map(|it| [it.state.as_ref(), it.last_state.as_ref()]);
            let mut states = states.into_iter().flatten().flatten();
            states.any(|it| it.terminated.is_some())
        };
        if let Some(pod) = pods.iter().find(is_small)
            && !pods.iter().any(is_killed)
        {
            let resources = container(pod).and_then(|status| status.resources.as_ref());
            oom_kill(&own.typed(), pod, &serde_json::to_value(resources)?).await?;
        }
        Ok(())
    };
    cluster
        .fire_while(&["PlimsollResizesReverted"], kill)
        .await?;
    delete_all(own, &[name]).await
}

/// A pod that is OOM-killed again after a resize, whatever its size.
pub(crate) async fn of_oom_kills(cluster: &Cluster) -> Result<()> {
    let own = &cluster.own;
    let name = "killed";
    let memory = json!({"cpu": "50m", "memory": "300Mi"});
    let size = json!({"requests": memory, "limits": memory});
    own.deploy(name, 1, &size, &usage("50m", "100Mi")).await?;
    let policy = json!({"containerName": "*", "maxAllowed": {"memory": "1Gi"}});
    let spec = json!({
        "targetRef": target("Deployment", name),
        "updatePolicy": {"updateMode": "InPlaceOrRecreate", "minReplicas": 1},
        "resourcePolicy": {"containerPolicies": [policy]},
    });
    own.make::<Vpa>(name, spec).await?;
    let is_recommended = |it: &Value| it["status"]["recommendation"].is_object();
    own.when::<Vpa>(name, "it has a recommendation", is_recommended)
        .await?;
    // A pod that is evicted before it has shown the fault has a replacement without the annotations.
    let kills = json!({
        "sandbox.plimsoll.dev/oom-kills": "40", "sandbox.plimsoll.dev/crash-after": "5s",
        "sandbox.plimsoll.dev/back-off": "5s",
    });
    let kill = async || Ok(own.annotate_pods(name, &kills).await?);
    cluster.fire_while(&["PlimsollActsRefuted"], kill).await?;
    own.await_event(name, "ActRefuted").await?;
    delete_all(own, &[name]).await
}

/// A recommendation that is rolled back, as the updater writes it when pods get worse.
pub(crate) async fn of_rollbacks(cluster: &Cluster) -> Result<()> {
    let own = &cluster.own;
    let name = "worse";
    sized(own, name, 2, &json!({}), &mode("Recreate")).await?;
    let is_recommended = |it: &Value| it["status"]["recommendation"].is_object();
    let vpa = own
        .when::<Vpa>(name, "it has a recommendation", is_recommended)
        .await?;
    let recommendation = &vpa["status"]["recommendation"];
    let mut rollback = json!({
        "at": vpa["metadata"]["creationTimestamp"],
        "problem": "1 of 1 pods fail", "refused": recommendation, "former": recommendation,
    });
    own.annotate::<Vpa>(name, json!({ROLLED_BACK: rollback.to_string()}))
        .await?;
    cluster.fire(&["PlimsollRecommendationsRolledBack"]).await?;
    let says = |it: &Value| {
        condition(&it["status"], "Applied").is_some_and(|it| it["reason"] == "RolledBack")
    };
    own.when::<Vpa>(name, "Applied says so", says).await?;
    // The updater ends one that is a day old.
    rollback["at"] = json!("2020-01-01T00:00:00Z");
    own.annotate::<Vpa>(name, json!({ROLLED_BACK: rollback.to_string()}))
        .await?;
    let is_over = |it: &Value| it["metadata"]["annotations"][ROLLED_BACK].is_null();
    own.when::<Vpa>(name, "it is not rolled back", is_over)
        .await?;
    delete_all(own, &[name]).await
}

/// A policy of the cluster that refuses checkpoints, statuses, evictions and resizes.
pub(crate) async fn of_writes(cluster: &Cluster) -> Result<()> {
    let refused = Namespace::new(cluster.client.clone(), "refused").await?;
    // The resizes that fail must be more than those that other faults let succeed.
    let workloads = [("evicted", 4, "Recreate"), ("resized", 40, "InPlace")];
    for (name, replicas, _) in workloads {
        sized(&refused, name, replicas, &json!({}), &mode("Off")).await?;
    }
    // A condition that says otherwise could not be written afterwards, and would pause the updater.
    eventually("the usage of all pods is known", async || {
        let path = format!(
            "/apis/metrics.k8s.io/v1beta1/namespaces/{}/pods",
            refused.namespace
        );
        let usage: Value =
            serde_json::from_str(&cluster.kubectl(&format!("get --raw {path}")).await?)?;
        let known = usage["items"].as_array().map_or(0, Vec::len);
        let wanted: usize = workloads.iter().map(|(_, replicas, _)| replicas).sum();
        ensure!(known == wanted, "of {known} pods");
        Ok(())
    })
    .await?;
    for (name, ..) in workloads {
        let is_recommended = |it: &Value| {
            let mut conditions = it["status"]["conditions"].as_array().into_iter().flatten();
            it["status"]["recommendation"].is_object()
                && !conditions.any(|one| one["type"] == "SourceStale" && one["status"] == "True")
        };
        refused
            .when::<Vpa>(name, "it has a current recommendation", is_recommended)
            .await?;
    }
    let labels = json!({"metadata": {"labels": {"alerts": "refused"}}});
    Namespace::cluster(cluster.client.clone())
        .patch::<NamespaceObject>(&refused.namespace, labels)
        .await?;
    cluster.apply("refuse.yaml").await?;
    eventually("the policy refuses", async || {
        let status = json!({"conditions": []});
        let result = refused.patch_status::<Vpa>("evicted", &status).await;
        ensure!(result.is_err(), "it does not yet");
        Ok(())
    })
    .await?;
    for (name, _, update_mode) in workloads {
        let change = json!({"spec": mode(update_mode)});
        refused.patch::<Vpa>(name, change).await?;
    }
    cluster
        .fire(&[
            "PlimsollCheckpointsOld",
            "PlimsollWritesFailing",
            "PlimsollEvictionsFailing",
            "PlimsollResizesFailing",
        ])
        .await?;
    cluster
        .kubectl("delete validatingadmissionpolicybinding,validatingadmissionpolicy refuse-writes")
        .await?;
    delete_all(&refused, &["evicted", "resized"]).await
}
