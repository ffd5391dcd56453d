//! A release as Argo CD makes it: rendered without a cluster, applied, and what is left out pruned.

use anyhow::{Context as _, Result, ensure};
use e2e::deployment::{SUITE, SYSTEM, all_ready};
use e2e::helm::{Helm, RELEASE};
use e2e::{Namespace, another, apply, eventually, kubectl_in};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use sandbox::Sandbox;
use serde_json::{Value, json};

use super::{key, objects};

const OF_KEDA: &str = "v1beta1.external.metrics.k8s.io";

/// Kinds of which objects are pruned. Definitions are kept, as by `Prune=false`.
const PRUNED: &str = "APIService,PodDisruptionBudget,ClusterRole,ClusterRoleBinding,Role,RoleBinding,\
    Deployment,ConfigMap,Service,ServiceAccount";

/// Renders the chart without a cluster, applies it, and deletes what an earlier rendering had.
async fn sync(sandbox: &Sandbox, values: &[&str]) -> Result<()> {
    let template = ["template", RELEASE, "--namespace", SYSTEM, "--skip-tests"];
    let sets = values.iter().flat_map(|value| ["--set", *value]);
    let arguments: Vec<&str> = template.into_iter().chain(sets).collect();
    let rendered = Helm::find().await?.run(&arguments).await?;
    ensure!(!rendered.contains("helm.sh/hook"), "{rendered}");
    let file = tempfile::NamedTempFile::with_suffix(".yaml")?;
    std::fs::write(file.path(), &rendered)?;
    apply(sandbox, &file.path().to_string_lossy()).await?;

    let rendered = objects(&rendered)?;
    let of_release =
        format!("get {PRUNED} -A -l app.kubernetes.io/instance={RELEASE} --output=json");
    let found: Value = serde_json::from_str(&kubectl_in(sandbox, &of_release).await?)?;
    let found = found["items"].as_array().context("a list")?;
    for object in found.iter().filter(|it| !rendered.contains_key(&key(it))) {
        let metadata = &object["metadata"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (kind, name) = (text(&object["kind"]), text(&metadata["name"]));
        let namespace = text(&metadata["namespace"]);
        let delete = format!("delete {kind} {name} --namespace={namespace}");
        kubectl_in(sandbox, &delete).await?;
    }
    Ok(())
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
