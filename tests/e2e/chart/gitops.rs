//! A release as Argo CD makes it: rendered without a cluster, applied, and what is left out pruned.

use anyhow::{Result, ensure};
use e2e::deployment::{SUITE, SYSTEM, all_ready};
use e2e::helm::{Helm, RELEASE};
use e2e::{Namespace, another, apply, apply_with, eventually};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use sandbox::Sandbox;
use serde_json::json;

const OF_KEDA: &str = "v1beta1.external.metrics.k8s.io";

/// Kinds that kubectl prunes. Definitions are kept, as by `Prune=false`.
const PRUNED: [&str; 10] = [
    "apiregistration.k8s.io/v1/APIService",
    "policy/v1/PodDisruptionBudget",
    "rbac.authorization.k8s.io/v1/ClusterRole",
    "rbac.authorization.k8s.io/v1/ClusterRoleBinding",
    "rbac.authorization.k8s.io/v1/Role",
    "rbac.authorization.k8s.io/v1/RoleBinding",
    "apps/v1/Deployment",
    "core/v1/ConfigMap",
    "core/v1/Service",
    "core/v1/ServiceAccount",
];

/// Renders the chart without a cluster, applies it, and prunes what the rendering before had.
async fn sync(sandbox: &Sandbox, values: &[&str]) -> Result<()> {
    let template = ["template", RELEASE, "--namespace", SYSTEM, "--skip-tests"];
    let sets = values.iter().flat_map(|value| ["--set", *value]);
    let arguments: Vec<&str> = template.into_iter().chain(sets).collect();
    let rendered = Helm::find().await?.run(&arguments).await?;
    ensure!(!rendered.contains("helm.sh/hook"), "{rendered}");
    let file = tempfile::NamedTempFile::with_suffix(".yaml")?;
    std::fs::write(file.path(), rendered)?;
    let selector = format!("app.kubernetes.io/instance={RELEASE}");
    let kinds = PRUNED.map(|kind| format!("--prune-allowlist={kind}"));
    let mut options = vec!["--prune", "-l", &selector];
    options.extend(kinds.iter().map(String::as_str));
    let file = file.path().to_string_lossy().into_owned();
    apply_with(sandbox, &file, &options).await.map(drop)
}

async fn programs(client: &Client) -> Result<Vec<String>> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), SYSTEM);
    let found = deployments.list(&ListParams::default()).await?;
    Ok(found.into_iter().map(|it| it.name_any()).collect())
}

/// Groups of the definitions that the rendered release has written.
async fn owned_groups(client: &Client) -> Result<Vec<String>> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let of_release = format!("app.kubernetes.io/instance={RELEASE}");
    let of_release = ListParams::default().labels(&of_release);
    let found = definitions.list(&of_release).await?;
    Ok(found.into_iter().map(|it| it.spec.group).collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rendered_release_takes_nothing_from_another_provider_and_is_pruned() -> Result<()> {
    let sandbox = another("chart-gitops").await?;
    let client = sandbox.client().await?;
    let service =
        json!({"namespace": "keda", "name": "keda-operator-metrics-apiserver", "port": 443});
    let spec = json!({
        "group": "external.metrics.k8s.io", "version": "v1beta1", "insecureSkipTLSVerify": true,
        "groupPriorityMinimum": 100, "versionPriority": 100, "service": service,
    });
    let cluster = Namespace::cluster(client.clone());
    cluster.make::<APIService>(OF_KEDA, spec).await?;
    apply(&sandbox, "deploy/base/namespace.yaml").await?;

    sync(&sandbox, &["mode=all"]).await?;
    all_ready(&client, SUITE).await?;
    assert_eq!(programs(&client).await?.len(), 4);
    assert_eq!(owned_groups(&client).await?, ["plimsoll.dev"; 2]);
    sync(&sandbox, &["mode=recommend", "crds.install=true"]).await?;
    eventually("the other programs are pruned", async || {
        let left = programs(&client).await?;
        ensure!(left == ["plimsoll-recommender"], "{left:?}");
        Ok(())
    })
    .await?;
    assert_eq!(owned_groups(&client).await?.len(), 7, "asked for");
    sync(&sandbox, &["mode=all", "crds.install=false"]).await?;
    assert_eq!(owned_groups(&client).await?.len(), 7, "they stay");

    let found = cluster.get::<APIService>(OF_KEDA).await?;
    assert_eq!(found["spec"]["service"], service, "{found:#}");
    sandbox.down().await
}
