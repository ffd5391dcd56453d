//! Faults of the programs and of their dependencies, with their remedies.

use anyhow::{Context as _, Result};
use e2e::deployment::{SUITE, SYSTEM, WEBHOOK, all_ready, replicas};
use e2e::{Authority, Issued, Namespace, OffsetClockLibrary, create, eventually};
use k8s_openapi::ByteString;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use k8s_openapi::jiff::Timestamp;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client, Config, ResourceExt as _};
use sandbox::Component;
use serde_json::{Value, json};

use super::cluster::Cluster;

/// Lease of a recommender without shards.
const UNDIVIDED: &str = "vpa-recommender-lease";
const EXTERNAL: &str = "v1beta1.external.metrics.k8s.io";
const ROUTES: &str = "plimsoll-metric-routes";
const RULES: &str = "plimsoll-adapter-rules";
const CERTIFICATE: &str = "other-adapter-tls";
/// Secret with the CA of another provider.
const UPSTREAM: [&str; 2] = ["keda", "kedaorg-certs"];

/// A Lease that was just renewed, for a long time.
fn lease(name: &str, holder: &str) -> Value {
    let spec = json!({
        "holderIdentity": holder, "leaseDurationSeconds": 3600,
        "renewTime": format!("{:.6}", Timestamp::now()),
    });
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": spec})
}

async fn apply_lease(client: &Client, namespace: &str, lease: &Value) -> Result<()> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
    let name = lease["metadata"]["name"].as_str().context("a name")?;
    let params = PatchParams::apply("alerts").force();
    leases.patch(name, &params, &Patch::Apply(lease)).await?;
    Ok(())
}

async fn delete_lease(client: &Client, namespace: &str, name: &str) -> Result<()> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
    leases.delete(name, &DeleteParams::default()).await?;
    Ok(())
}

/// Files and certificates of the adapter, other providers, and a recommender without shards.
pub(crate) async fn of_configuration(cluster: &Cluster) -> Result<()> {
    let system = cluster.system();
    let [namespace, secret] = UPSTREAM;
    let upstreams = json!([
        {"name": "gone", "url": "https://127.0.0.1:9", "caFile": "ca.crt"},
        {"name": "other", "url": "https://127.0.0.1:9",
         "caFrom": {"secret": {"namespace": namespace, "name": secret}}},
    ]);
    let routes = json!({"upstreams": upstreams, "defaultUpstream": "gone"});
    let rules = system.get::<ConfigMap>(RULES).await?["data"].take();
    let authority = Authority::new("gone")?.pem();
    let data = json!({"routes.yaml": routes.to_string(), "ca.crt": authority});
    set_data(cluster, ROUTES, &data).await?;
    set_data(cluster, RULES, &json!({"config.yaml": "rules: 7"})).await?;
    let alerts = [
        "PlimsollConfigInvalid",
        "PlimsollUpstreamFailing",
        "PlimsollUpstreamCertificatesUnreadable",
        "PlimsollAdapterErrors",
        "PlimsollCertificateExpiring",
        "PlimsollShardConflict",
        "PlimsollWebhookErrors",
    ];
    let go_on = async || {
        cluster.ask_metric("missing").await?;
        apply_lease(&cluster.client, SYSTEM, &lease(UNDIVIDED, "undivided")).await?;
        post_garbage(cluster).await
    };
    cluster.fire_while(&alerts, go_on).await?;
    delete_lease(&cluster.client, SYSTEM, UNDIVIDED).await?;
    set_data(cluster, RULES, &rules).await?;
    set_data(cluster, ROUTES, &json!({"routes.yaml": "upstreams: []"})).await?;
    let Issued { certificate, key } = Authority::new("other")?.issue("other-adapter")?;
    let data = json!({"tls.crt": certificate.pem(), "tls.key": key.serialize_pem()});
    system
        .patch::<Secret>(CERTIFICATE, json!({"stringData": data}))
        .await?;
    Ok(())
}

async fn set_data(cluster: &Cluster, map: &str, data: &Value) -> Result<()> {
    let change = json!({"data": data});
    cluster.system().patch::<ConfigMap>(map, change).await?;
    Ok(())
}

/// Another adapter, whose certificate expires soon.
pub(crate) async fn deploy_other_adapter(cluster: &Cluster) -> Result<()> {
    let issued = Authority::new("other")?.issue_expiring("other-adapter")?;
    let secrets: Api<Secret> = cluster.system().typed();
    create(&secrets, issued.secret(CERTIFICATE)).await?;
    for file in [
        "tests/e2e/adapter/other.yaml",
        "deploy/components/keda-certificates/rbac.yaml",
    ] {
        e2e::apply(&cluster.sandbox, file).await?;
    }
    Ok(())
}

/// Sends a text that is not a review to the webhook.
async fn post_garbage(cluster: &Cluster) -> Result<()> {
    let webhook = replicas(&cluster.client, WEBHOOK).await?;
    let address = webhook.first().context("there is a webhook")?.address;
    let mut config = Config::new(format!("https://{address}:8000").parse()?);
    config.accept_invalid_certs = true;
    let request = http::Request::post("/")
        .header("Content-Type", "application/json")
        .body(b"garbage".to_vec())?;
    // The response does not matter.
    drop(Client::try_from(config)?.request_text(request).await);
    Ok(())
}

/// A source of usage that does not respond.
pub(crate) async fn of_source(cluster: &Cluster) -> Result<()> {
    cluster.sandbox.stop(Component::MetricsServer).await?;
    let fired = cluster
        .fire(&["PlimsollSourceStale", "PlimsollNodeLoadStale"])
        .await;
    cluster.sandbox.start(Component::MetricsServer).await?;
    fired
}

/// A Service that leads to a port on which the webhook does not listen. The API server keeps its
/// connection until the pod of the webhook is replaced.
pub(crate) async fn of_webhook_service(cluster: &Cluster) -> Result<()> {
    let port = |target: Value| json!({"spec": {"ports": [{"name": "webhook", "port": 443, "targetPort": target}]}});
    let system = cluster.system();
    system
        .patch::<Service>("vpa-webhook", port(json!(9)))
        .await?;
    recreate_pods(&system, WEBHOOK.labels).await?;
    // The former process reviews until it has ended.
    let recreate = async || {
        let pods = cluster.own.pods_of("web").await?;
        let is_reviewed = |pod: &Pod| pod.annotations().contains_key("vpaObservedContainers");
        if pods.iter().any(is_reviewed) {
            recreate_pods(&cluster.own, "app=web").await?;
        }
        Ok(())
    };
    let fired = cluster
        .fire_while(&["PlimsollWebhookSilent"], recreate)
        .await;
    system
        .patch::<Service>("vpa-webhook", port(json!("webhook")))
        .await?;
    recreate_pods(&cluster.own, "app=web").await?;
    fired
}

async fn recreate_pods(namespace: &Namespace, labels: &str) -> Result<()> {
    let pods: Api<Pod> = namespace.typed();
    let selected = ListParams::default().labels(labels);
    let at_once = DeleteParams::default().grace_period(0);
    pods.delete_collection(&at_once, &selected).await?;
    Ok(())
}

/// Another holder of the updater's Lease, the stop switch, and the Lease of another updater.
pub(crate) async fn of_updater(cluster: &Cluster) -> Result<()> {
    let (client, system) = (&cluster.client, cluster.system());
    apply_lease(client, SYSTEM, &lease("vpa-updater", "other")).await?;
    cluster.fire(&["PlimsollNotOneLeader"]).await?;
    delete_lease(client, SYSTEM, "vpa-updater").await?;
    cluster.clear(&["PlimsollNotOneLeader"]).await?;
    let switch = json!({"metadata": {"name": "plimsoll-stop"}});
    system.create::<ConfigMap>(switch).await?;
    cluster.fire(&["PlimsollUpdaterStopped"]).await?;
    system.delete::<ConfigMap>("plimsoll-stop").await?;
    apply_lease(
        client,
        "kube-system",
        &lease("vpa-updater-lease", "other_1"),
    )
    .await?;
    cluster
        .fire(&["PlimsollAnotherAutoscaler", "PlimsollUpdaterPaused"])
        .await?;
    delete_lease(client, "kube-system", "vpa-updater-lease").await
}

/// An `APIService` that points at another program, and one with a CA that did not sign the certificate
/// of the adapter that it points at.
pub(crate) async fn of_api_service(cluster: &Cluster) -> Result<()> {
    let services = Namespace::cluster(cluster.client.clone());
    let before = services.get::<APIService>(EXTERNAL).await?["spec"].take();
    let bundle = ByteString(Authority::new("wrong")?.pem().into_bytes());
    for (alert, service) in [
        ("PlimsollApiServiceLost", "elsewhere"),
        ("PlimsollCertificateUntrusted", "other-adapter"),
    ] {
        let spec = json!({"service": {"name": service}, "caBundle": bundle});
        services
            .patch::<APIService>(EXTERNAL, json!({"spec": spec}))
            .await?;
        cluster.fire(&[alert]).await?;
    }
    services
        .patch::<APIService>(EXTERNAL, json!({"spec": before}))
        .await?;
    Ok(())
}

pub(crate) async fn of_extender(cluster: &Cluster) -> Result<()> {
    let scale = format!("-n {SYSTEM} scale deployment plimsoll-extender --replicas");
    cluster.kubectl(&format!("{scale}=0")).await?;
    let fired = cluster.fire(&["PlimsollProgramMissing"]).await;
    cluster.kubectl(&format!("{scale}=1")).await?;
    fired
}

/// Recommenders whose rounds are an hour apart, with an address at which there is no Prometheus.
pub(crate) async fn of_recommender(cluster: &Cluster) -> Result<()> {
    let [address, interval] = [
        "PLIMSOLL_RECOMMENDER_PROMETHEUS_ADDRESS",
        "PLIMSOLL_RECOMMENDER_RECOMMENDER_INTERVAL",
    ];
    let set = format!("-n {SYSTEM} set env deployment -l app.kubernetes.io/name=recommender");
    cluster
        .kubectl(&format!(
            "{set} {address}=https://127.0.0.1:9 {interval}=1h"
        ))
        .await?;
    let fired = cluster
        .fire(&[
            "PlimsollHistoryPending",
            "PlimsollForecastHistoryUnreadable",
            "PlimsollRecommendationsStopped",
        ])
        .await;
    cluster
        .kubectl(&format!("{set} {address}- {interval}=1s"))
        .await?;
    all_ready(&cluster.client, SUITE).await?;
    fired
}

/// An adapter whose clock is two minutes fast, until it is set.
pub(crate) async fn of_clock(cluster: &Cluster) -> Result<()> {
    let library = OffsetClockLibrary::compile(&cluster.sandbox.logs_dir()).await?;
    let clock = library.clock("adapter")?;
    clock.set(120)?;
    let set = format!("-n {SYSTEM} set env deployment/plimsoll-adapter");
    cluster
        .kubectl(&format!("{set} {}", clock.variables()))
        .await?;
    let fired = cluster.fire(&["PlimsollClockWrong"]).await;
    clock.set(0)?;
    fired
}

pub(crate) async fn of_api_server(cluster: &Cluster) -> Result<()> {
    cluster.sandbox.stop(Component::KubeApiserver).await?;
    let fired = cluster.fire(&["PlimsollWatchStale"]).await;
    cluster.sandbox.start(Component::KubeApiserver).await?;
    fired
}

pub(crate) async fn all_scraped(cluster: &Cluster) -> Result<()> {
    eventually("all programs are scraped", async || {
        let programs = cluster
            .prometheus
            .count("count by (program) (plimsoll_build_info)")
            .await?;
        anyhow::ensure!(programs == 5, "{programs} programs");
        Ok(())
    })
    .await
}
