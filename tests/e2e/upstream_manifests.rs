//! Upstream's own manifests with our images, two replicas of each, and arguments for the sandbox:
//! addresses, short intervals and leader election. Its labels, accounts and roles are enough for
//! recommendations, for resizes and evictions by them, and for admission. The replicas do not take
//! each other for another autoscaler, but upstream's own recommender for one.

use anyhow::{Result, ensure};
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::deployment::{sum, sum_with};
use e2e::{
    Authority, Namespace, WithUpstreamVpa, eventually, is_ready, repository, requests,
    requests_in_effect, target, usage,
};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::ResourceExt as _;
use serde_json::json;

/// Objects that upstream's roles do not let the updater list.
const MISSING: [&str; 4] = [
    "configmaps",
    "namespaces",
    "poddisruptionbudgets",
    "resourcequotas",
];
/// Programs with a leader, with the ports of their metrics.
const RECOMMENDER: (&str, u16) = ("vpa-recommender", 8942);
const UPDATER: (&str, u16) = ("vpa-updater", 8943);
/// Upstream's recommender.
const OTHER: &str = "other";

async fn metrics(system: &Namespace, (program, port): (&str, u16)) -> Result<String> {
    for pod in system.pods_of(program).await? {
        let path = format!(
            "/api/v1/namespaces/{}/pods/{}:{port}/proxy/metrics",
            system.namespace,
            pod.name_any()
        );
        let request = http::Request::get(path).body(Vec::new())?;
        let metrics = system.client.request_text(request).await?;
        if sum(&metrics, "leader_election_master_status").is_some_and(|leads| leads > 0.0) {
            return Ok(metrics);
        }
    }
    anyhow::bail!("no replica of {program} leads")
}

/// The Secret of upstream's admission controller.
async fn certificates(system: &Namespace) -> Result<()> {
    let authority = Authority::new("upstream-manifests")?;
    let issued = authority.issue("vpa-webhook.kube-system.svc")?;
    let files = json!({
        "caCert.pem": authority.pem(),
        "serverCert.pem": issued.certificate.pem(),
        "serverKey.pem": issued.key.serialize_pem(),
    });
    let secret = json!({"metadata": {"name": "vpa-tls-certs"}, "stringData": files});
    system.create::<Secret>(secret).await?;
    Ok(())
}

async fn two_replicas_are_ready(system: &Namespace) -> Result<()> {
    for program in ["vpa-admission-controller", RECOMMENDER.0, UPDATER.0] {
        eventually(
            &format!("two replicas of {program} are ready"),
            async || {
                let pods = system.pods_of(program).await?;
                let ready = pods.iter().filter(|pod| is_ready(pod)).count();
                ensure!(ready == 2, "{ready} of {}", pods.len());
                Ok(())
            },
        )
        .await?;
    }
    Ok(())
}

/// Waits until the leader of a program knows whether another one runs.
async fn another_runs(
    system: &Namespace,
    program: (&str, u16),
    part: &str,
    expected: u8,
) -> Result<()> {
    let series = format!("plimsoll_other_autoscaler_running{{part=\"{part}\"}} {expected}");
    eventually(&format!("the leader shows {series}"), async || {
        let metrics = metrics(system, program).await?;
        ensure!(metrics.contains(&series), "{metrics}");
        Ok(())
    })
    .await
}

/// Runs upstream's recommender with the labels of the Deployment.
async fn start_upstreams_recommender(system: &Namespace) -> Result<()> {
    let arguments = [
        "--kubeconfig=$(KUBECONFIG)",
        "--address=$(PLIMSOLL_LISTEN_IP):8942",
    ];
    let container = json!({
        "name": "recommender", "image": "plimsoll/vpa-recommender", "args": arguments,
    });
    system
        .create::<Pod>(json!({
            "metadata": {"name": OTHER, "labels": {"app": RECOMMENDER.0}},
            "spec": {"serviceAccountName": RECOMMENDER.0, "containers": [container]},
        }))
        .await?;
    Ok(())
}

/// Makes a workload that uses more than it requests, and a VPA object for it.
async fn make_workload(own: &Namespace, name: &str, mode: &str) -> Result<()> {
    let (resources, used) = (requests("10m", "10Mi"), usage("200m", "100Mi"));
    own.deploy(name, 2, &resources, &used).await?;
    let spec = json!({
        "targetRef": target("Deployment", name),
        "updatePolicy": {"updateMode": mode},
    });
    own.make::<Vpa>(name, spec).await?;
    Ok(())
}

/// Waits until all pods of a workload request more than its template.
async fn pods_are_sized(own: &Namespace, name: &str) -> Result<()> {
    eventually(&format!("the pods of {name} are sized"), async || {
        let pods = own.pods_of(name).await?;
        let cpu = |pod| Some(requests_in_effect(pod)?.get("cpu")?.0.clone());
        let sizes: Vec<_> = pods.iter().map(cpu).collect();
        let is_old = |size: &Option<String>| size.as_deref().is_none_or(|cpu| cpu == "10m");
        ensure!(sizes.len() == 2 && !sizes.iter().any(is_old), "{sizes:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn upstreams_labels_and_roles_are_enough_for_two_replicas_of_each_program() -> Result<()> {
    let upstream = WithUpstreamVpa::start("manifests").await?;
    let client = upstream.sandbox.client().await?;
    let system = Namespace::of(client.clone(), "kube-system");
    certificates(&system).await?;
    let kustomization = "tests/e2e/upstream_manifests/kustomization.yaml";
    upstream.apply(&repository().join(kustomization)).await?;
    two_replicas_are_ready(&system).await?;
    let own = Namespace::new(client.clone(), "shop").await?;
    make_workload(&own, "resized", "InPlaceOrRecreate").await?;
    pods_are_sized(&own, "resized").await?;
    // The pods that replace evicted ones have their sizes from the webhook.
    make_workload(&own, "evicted", "Recreate").await?;
    pods_are_sized(&own, "evicted").await?;
    for pod in own.pods_of("evicted").await? {
        let annotations = pod.annotations();
        ensure!(annotations.contains_key("vpaUpdates"), "{annotations:?}");
    }

    another_runs(&system, UPDATER, "updater", 0).await?;
    another_runs(&system, RECOMMENDER, "recommender", 0).await?;
    let metrics = metrics(&system, UPDATER).await?;
    for resource in MISSING {
        let label = format!("resource=\"{resource}\"");
        let missing = sum_with(&metrics, "plimsoll_missing_rights", &label);
        ensure!(missing > 0.0, "{resource}: {metrics}");
    }
    start_upstreams_recommender(&system).await?;
    another_runs(&system, RECOMMENDER, "recommender", 1).await?;
    system.delete::<Pod>(OTHER).await?;
    another_runs(&system, RECOMMENDER, "recommender", 0).await?;
    upstream.sandbox.down().await
}
