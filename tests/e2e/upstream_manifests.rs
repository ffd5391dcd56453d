//! Upstream's own manifests with our images, and arguments for the sandbox: addresses, short intervals,
//! and no admission controller. Its labels, accounts and roles are enough for recommendations, and for
//! resizes and evictions by them.

use anyhow::{Context as _, Result, ensure};
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::deployment::sum_with;
use e2e::{
    Namespace, WithUpstreamVpa, eventually, repository, requests, requests_in_effect, target,
    usage, workload,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;

/// Objects that upstream's roles do not let the updater list.
const MISSING: [&str; 4] = [
    "configmaps",
    "namespaces",
    "poddisruptionbudgets",
    "resourcequotas",
];

/// The metrics of the updater.
async fn metrics(client: &Client) -> Result<String> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), "kube-system");
    let updaters = ListParams::default().labels("app=vpa-updater");
    let updaters = pods.list(&updaters).await?;
    let updater = updaters.items.first().context("no updater")?.name_any();
    let path = format!("/api/v1/namespaces/kube-system/pods/{updater}:8943/proxy/metrics");
    let request = http::Request::get(path).body(Vec::new())?;
    Ok(client.request_text(request).await?)
}

#[tokio::test]
async fn upstreams_labels_and_roles_are_enough() -> Result<()> {
    let upstream = WithUpstreamVpa::start("manifests").await?;
    let client = upstream.sandbox.client().await?;
    let kustomization = "tests/e2e/upstream_manifests/kustomization.yaml";
    upstream.apply(&repository().join(kustomization)).await?;
    let own = Namespace::new(client.clone(), "shop").await?;
    for mode in ["InPlaceOrRecreate", "Recreate"] {
        let name = mode.to_lowercase();
        let (resources, used) = (requests("10m", "10Mi"), usage("200m", "100Mi"));
        own.create::<Deployment>(workload(&name, 2, &resources, &used))
            .await?;
        let spec = json!({
            "targetRef": target("Deployment", &name),
            "updatePolicy": {"updateMode": mode},
        });
        own.create::<Vpa>(json!({"metadata": {"name": name}, "spec": spec}))
            .await?;
    }
    eventually("the pods of one are resized", async || {
        let pods = own.pods_of("inplaceorrecreate").await?;
        let cpu = |pod| Some(requests_in_effect(pod)?.get("cpu")?.0.clone());
        let sizes: Vec<_> = pods.iter().map(cpu).collect();
        let is_old = |size: &Option<String>| size.as_deref().is_none_or(|cpu| cpu == "10m");
        ensure!(!sizes.iter().any(is_old), "{sizes:?}");
        Ok(())
    })
    .await?;
    let evictions = "vpa_updater_evicted_pods_total";
    eventually("a pod of the other is evicted", async || {
        let metrics = metrics(&client).await?;
        ensure!(sum_with(&metrics, evictions, "") > 0.0, "{metrics}");
        Ok(())
    })
    .await?;
    let metrics = metrics(&client).await?;
    for resource in MISSING {
        let label = format!("resource=\"{resource}\"");
        let missing = sum_with(&metrics, "plimsoll_missing_rights", &label);
        ensure!(missing > 0.0, "{resource}: {metrics}");
    }
    upstream.sandbox.down().await
}
