//! A release from the first installation to the last: nothing of it is left, and no object is lost.

use anyhow::{Result, ensure};
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::deployment::SYSTEM;
use e2e::{
    Namespace, another, apply, create, eventually, kubectl_in, requested, requests, target, until,
    workload,
};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Pod, Service, ServiceAccount};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{DeleteParams, ListParams, LogParams};
use kube::{Api, Client, ResourceExt as _};
use sandbox::Sandbox;
use serde_json::{Value, json};

use e2e::helm::{Helm, RELEASE};

/// A definition that another release takes over.
const TAKEN_OVER: &str = "substitutes.autoscaling.crane.io";

/// The version of an API that another provider has.
const OF_ANOTHER: &str = "v1beta1.custom.metrics.k8s.io";

fn of_another_provider() -> Value {
    json!({
        "metadata": {"name": OF_ANOTHER},
        "spec": {
            "group": "custom.metrics.k8s.io", "version": "v1beta1", "insecureSkipTLSVerify": true,
            "groupPriorityMinimum": 100, "versionPriority": 100,
            "service": {"namespace": "monitoring", "name": "prometheus-adapter"},
        },
    })
}

async fn programs(client: &Client) -> Result<Vec<String>> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), SYSTEM);
    let found = deployments.list(&ListParams::default()).await?;
    Ok(found.into_iter().map(|it| it.name_any()).collect())
}

/// Waits for the smallest recommendation.
pub(super) async fn is_recommended(own: &Namespace) -> Result<()> {
    let container = json!({"target": {"cpu": "25m"}});
    let status = json!({"recommendation": {"containerRecommendations": [container]}});
    own.await_fields::<Vpa>("web", json!({"status": status}))
        .await
        .map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_changes_its_mode_and_leaves_nothing_but_the_objects() -> Result<()> {
    let sandbox = another("chart").await?;
    let client = sandbox.client().await?;
    // The release has the definitions. They are deleted once their objects can be listed: an API server
    // that cannot list those yet retries the deletion after minutes.
    let kinds = "vpa,vpacheckpoint,ehpa,tsp,substitutes,sizingpolicies,clustersizingpolicies";
    eventually("the kinds can be listed", async || {
        kubectl_in(&sandbox, &format!("get {kinds} -A")).await
    })
    .await?;
    let definitions = e2e::repository().join("deploy/crds");
    let delete = format!("delete -k {}", definitions.display());
    kubectl_in(&sandbox, &delete).await?;
    let helm = Helm::find().await?.with(&sandbox.kubeconfig());
    let quick = "recommender.pod.extraArgs[0]=--recommender-interval=1s";
    let printed = helm.upgrade(&client, &[quick]).await?;
    ensure!(printed.contains("touches no pod"), "{printed}");
    assert_eq!(programs(&client).await?, ["plimsoll-recommender"]);

    let own = Namespace::new(client.clone(), "release").await?;
    let resources = requests("10m", "10Mi");
    own.create::<ReplicaSet>(workload("web", 2, &resources, &json!({})))
        .await?;
    let spec = json!({"targetRef": target("ReplicaSet", "web"), "updatePolicy": {"updateMode": "Recreate"}});
    own.make::<Vpa>("web", spec).await?;
    is_recommended(&own).await?;
    let sized = async || {
        let pods = own.pods_of("web").await?;
        let sized = pods
            .iter()
            .filter(|pod| requested(pod, "cpu") == Some("25m"));
        anyhow::Ok((sized.count(), pods.len()))
    };
    assert_eq!(sized().await?, (0, 2), "the mode is recommend");

    let vertical = ["mode=vertical", quick, "updater.settlingTime=0s"];
    let printed = helm.upgrade(&client, &vertical).await?;
    ensure!(printed.contains("plimsoll-stop"), "{printed}");
    let what = "both pods have the target";
    until(what, sized, |found| *found == (2, 2)).await?;

    let rollback = ["rollback", RELEASE, "1", "--namespace", SYSTEM];
    helm.run_without_chart(&rollback).await?;
    assert_eq!(programs(&client).await?, ["plimsoll-recommender"]);
    unregistered(&client).await?;

    // Another release takes a definition over.
    let owner = json!({"metadata": {"annotations": {"meta.helm.sh/release-name": "crane"}}});
    Namespace::cluster(client.clone())
        .patch::<CustomResourceDefinition>(TAKEN_OVER, owner)
        .await?;
    check_other_provider(&helm, &client).await?;
    helm.upgrade(&client, &["mode=all"]).await?;
    let services: Api<APIService> = Api::all(client.clone());
    let external = services.get("v1beta1.external.metrics.k8s.io").await?;
    let service = external.spec.and_then(|spec| spec.service);
    let owner = service.and_then(|service| service.name);
    assert_eq!(owner.as_deref(), Some("plimsoll-adapter"));

    check_tests(&helm, &client).await?;

    helm.uninstall().await?;
    check_uninstalled(&client).await?;
    let kept = own.get::<Vpa>("web").await?;
    let target = &kept["status"]["recommendation"]["containerRecommendations"][0]["target"];
    assert_eq!(target["cpu"], "25m", "{kept:#}");

    // Neither definitions that the uninstalled release left are an obstacle, nor an API that another
    // program had and a migration moved.
    let file = "deploy/components/custom-metrics-api/api-services.yaml";
    apply(&sandbox, file).await?;
    helm.upgrade(&client, &["mode=all"]).await?;
    check_deleted_record(&sandbox, &helm, &client).await?;
    sandbox.down().await
}

/// Checks that a release leaves an API alone of which another provider has a version: a newer version
/// would take its metrics away.
async fn check_other_provider(helm: &Helm, client: &Client) -> Result<()> {
    let services: Api<APIService> = Api::all(client.clone());
    create(&services, of_another_provider()).await?;
    helm.upgrade(client, &["mode=all"]).await?;
    let newer = services.get_opt("v1beta2.custom.metrics.k8s.io").await?;
    ensure!(newer.is_none(), "the API has a newer version: {newer:?}");
    services
        .delete(OF_ANOTHER, &DeleteParams::default())
        .await?;
    Ok(())
}

/// Checks that Helm does not list a release without its record, and lists it again with it, as the plans of
/// migrations say, and that nothing else is deleted.
async fn check_deleted_record(sandbox: &Sandbox, helm: &Helm, client: &Client) -> Result<()> {
    let selected = format!("secret -n {SYSTEM} -l owner=helm,name={RELEASE}");
    let saved = kubectl_in(sandbox, &format!("get {selected} -o yaml")).await?;
    let mut saved = saved.lines().filter(|line| {
        // As `sed` in the plan.
        !line.trim_start().starts_with("resourceVersion:")
    });
    let saved: String = saved.by_ref().flat_map(|line| [line, "\n"]).collect();
    let list = ["list", "--namespace", SYSTEM, "--short"];
    let before = programs(client).await?;
    kubectl_in(sandbox, &format!("delete {selected}")).await?;
    assert_eq!(helm.run_without_chart(&list).await?.trim(), "");
    assert_eq!(programs(client).await?, before);
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), saved)?;
    kubectl_in(sandbox, &format!("create -f {}", file.path().display())).await?;
    assert_eq!(helm.run_without_chart(&list).await?.trim(), RELEASE);
    Ok(())
}

/// Checks that the test of the release passes, that it fails without a Service, and that its objects
/// are gone when it has passed.
async fn check_tests(helm: &Helm, client: &Client) -> Result<()> {
    let test = ["test", RELEASE, "--namespace", SYSTEM];
    helm.run_without_chart(&test).await?;
    let services: Api<Service> = Api::namespaced(client.clone(), SYSTEM);
    let service = services.get("vpa-webhook").await?;
    services
        .delete("vpa-webhook", &DeleteParams::default())
        .await?;
    let failed = helm.run_without_chart(&test).await;
    let pods: Api<Pod> = Api::namespaced(client.clone(), SYSTEM);
    let log = pods.logs("plimsoll-test", &LogParams::default()).await?;
    ensure!(failed.is_err() && log.contains("does not exist"), "{log}");

    let again = json!({"metadata": {"name": "vpa-webhook", "labels": service.labels(),
                                     "annotations": service.annotations()},
                       "spec": {"selector": service.spec.iter().find_map(|it| it.selector.clone()),
                                "ports": service.spec.iter().find_map(|it| it.ports.clone())}});
    create(&services, again).await?;
    helm.run_without_chart(&test).await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), SYSTEM);
    ensure!(accounts.get_opt("plimsoll-test").await?.is_none());
    ensure!(pods.get_opt("plimsoll-test").await?.is_none());
    Ok(())
}

/// Waits until the garbage collector has deleted the registration with its owner.
async fn unregistered(client: &Client) -> Result<()> {
    let registrations: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    until(
        "the registration is deleted",
        async || registrations.get_opt("vpa-webhook-config").await,
        Option::is_none,
    )
    .await
}

/// Checks that nothing of the release is left but the definitions.
pub(crate) async fn check_uninstalled(client: &Client) -> Result<()> {
    assert_eq!(programs(client).await?, Vec::<String>::new());
    unregistered(client).await?;
    let services: Api<APIService> = Api::all(client.clone());
    for name in [
        "v1beta1.external.metrics.k8s.io",
        "v1beta2.custom.metrics.k8s.io",
    ] {
        assert!(services.get_opt(name).await?.is_none(), "{name}");
    }
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in api::crd::all() {
        definitions.get(&definition.name_any()).await?;
    }
    Ok(())
}
