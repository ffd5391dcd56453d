//! KEDA itself beside the suite: its API stays with it while the suite is applied and pruned as Argo CD does,
//! and its objects move and come back by the commands of `plimsoll migrate keda --plan`. `make test-keda`.

use std::env;

use anyhow::{Result, ensure};
use api::ehpa::EffectiveHorizontalPodAutoscaler as Ehpa;
use e2e::deployment::{SUITE, SYSTEM, all_ready};
use e2e::helm::{Helm, RELEASE};
use e2e::{
    MigrationPlan, Turns, api_service_is_of, apply_objects, condition, kubectl_in, plimsoll_json,
    real_node,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler as Hpa;
use k8s_openapi::jiff::{Timestamp, tz::TimeZone};
use sandbox::Sandbox;
use serde_json::{Value, json};

use super::fixture::{Fixture, or_skip, pod_of};

static CLUSTER: Turns<Sandbox> = Turns::new();
const API: &str = "v1beta1.external.metrics.k8s.io";
const THEIRS: &str = "keda/keda-metrics-apiserver";
/// Workload that KEDA scales by the number of `ORDERS`, an external metric.
const QUEUE: &str = "queue";
/// Pods of which there is one for each replica of `QUEUE`.
const ORDERS: &str = "orders";
/// Workload that KEDA scales by CPU and a schedule. It can have an EHPA.
const WEB: &str = "web";
const SCHEDULED: usize = 2;

/// A trigger that wants [`SCHEDULED`] replicas, from an hour ago to two hours from now.
fn schedule() -> Value {
    let hour = i64::from(Timestamp::now().to_zoned(TimeZone::UTC).hour());
    let at = |hour: i64| format!("0 {} * * *", hour.rem_euclid(24));
    json!({"type": "cron", "metadata": {
        "timezone": "Etc/UTC", "start": at(hour - 1), "end": at(hour + 2),
        "desiredReplicas": SCHEDULED.to_string(),
    }})
}

fn scaled_object(namespace: &str, name: &str, triggers: &Value) -> Value {
    json!({
        "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "scaleTargetRef": {"name": name}, "minReplicaCount": 1, "maxReplicaCount": 10,
            "pollingInterval": 5, "triggers": triggers,
        },
    })
}

struct Shop(Fixture);

e2e::deref_to_namespace!(Shop, 0);

impl Shop {
    async fn open(cluster: Fixture) -> Result<Self> {
        let pod = pod_of(&[], &json!({"requests": {"cpu": "10m", "memory": "10Mi"}}));
        for name in [ORDERS, QUEUE, WEB] {
            cluster.deploy(name, 1, &pod).await?;
        }
        let orders = json!({"podSelector": format!("app={ORDERS}"), "value": "1"});
        let orders = json!([{"type": "kubernetes-workload", "metadata": orders}]);
        let cpu =
            json!({"type": "cpu", "metricType": "Utilization", "metadata": {"value": "1000"}});
        for (name, triggers) in [(QUEUE, orders), (WEB, json!([cpu, schedule()]))] {
            let object = scaled_object(&cluster.namespace, name, &triggers);
            apply_objects(cluster.sandbox(), &object.to_string()).await?;
        }
        Ok(Self(cluster))
    }

    fn sandbox(&self) -> &Sandbox {
        self.0.sandbox()
    }

    async fn has(&self, name: &str, replicas: usize) -> Result<()> {
        let scaled = json!({"spec": {"replicas": replicas}});
        self.await_fields::<Deployment>(name, scaled)
            .await
            .map(drop)
    }

    /// There is this number of orders from now on, and the queue follows.
    async fn scales_to(&self, replicas: usize) -> Result<()> {
        let orders = json!({"spec": {"replicas": replicas}});
        self.0.patch::<Deployment>(ORDERS, orders).await?;
        self.has(QUEUE, replicas).await
    }

    /// An HPA reads its metrics.
    async fn is_active(&self, hpa: &str) -> Result<()> {
        let is_active = |hpa: &Value| {
            condition(&hpa["status"], "ScalingActive").is_some_and(|it| it["status"] == "True")
        };
        let what = "it reads its metrics";
        self.when::<Hpa>(hpa, what, is_active).await.map(drop)
    }

    /// Applies the chart as it is rendered without a cluster, and deletes all of it, as Argo CD does when the
    /// application is deleted with its objects. KEDA goes on in each state.
    async fn stays_with_keda_beside_a_rendered_release(&self) -> Result<()> {
        let sandbox = self.sandbox();
        kubectl_in(sandbox, &format!("create namespace {SYSTEM}")).await?;
        let rendered = Helm::find().await?.template(&["mode=all"]).await?;
        apply_objects(sandbox, &rendered).await?;
        all_ready(&self.client, SUITE).await?;
        api_service_is_of(&self.client, API, THEIRS).await?;
        self.scales_to(2).await?;
        kubectl_in(sandbox, &format!("delete namespace {SYSTEM}")).await?;
        let of_release = format!("-A -l app.kubernetes.io/instance={RELEASE}");
        let kinds = "apiservices,clusterroles,clusterrolebindings,roles,rolebindings";
        kubectl_in(sandbox, &format!("delete {kinds} {of_release}")).await?;
        api_service_is_of(&self.client, API, THEIRS).await?;
        self.scales_to(3).await
    }

    /// Does what the check asks for: KEDA's operator leaves the `APIService` alone.
    async fn keep_the_operator_off(&self) -> Result<()> {
        let sandbox = self.sandbox();
        let check = plimsoll_json(&sandbox.kubeconfig(), "migrate keda --check").await?;
        let asked = "--enable-apiservice-patching=false";
        ensure!(check.to_string().contains(asked), "{check:#}");
        let path = "/spec/template/spec/containers/0/args/-";
        let change = json!([{"op": "add", "path": path, "value": asked}]);
        let operator = "-n keda deployment/keda-operator";
        kubectl_in(
            sandbox,
            &format!("patch {operator} --type=json -p={change}"),
        )
        .await?;
        let status = format!("rollout status {operator} --timeout=10m");
        kubectl_in(sandbox, &status).await.map(drop)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]

async fn keda_keeps_its_api_until_it_moves_by_the_steps_of_the_plan_and_comes_back() -> Result<()> {
    if env::var_os("PLIMSOLL_KEDA").is_none() {
        eprintln!("SKIPPED: KEDA takes a quarter of an hour to build: make test-keda");
        return Ok(());
    }
    let cluster = or_skip!(Fixture::on(&CLUSTER, async || {
        let sandbox = real_node("keda").await?;
        e2e::install_keda(&sandbox).await?;
        Ok(sandbox)
    }));
    let shop = Shop::open(cluster).await?;
    api_service_is_of(&shop.client, API, THEIRS).await?;
    shop.has(WEB, SCHEDULED).await?;
    shop.stays_with_keda_beside_a_rendered_release().await?;

    shop.keep_the_operator_off().await?;
    let words = vec![("REGISTRY/plimsoll", "ghcr.io/plimsoll".to_owned())];
    let plan = MigrationPlan::of(shop.sandbox(), "keda", words).await?;
    for step in &plan.steps {
        plan.run(step).await?;
        shop.has(QUEUE, 3).await?;
        shop.has(WEB, SCHEDULED).await?;
    }
    let ours = format!("{SYSTEM}/plimsoll-adapter");
    api_service_is_of(&shop.client, API, &ours).await?;
    shop.scales_to(4).await?;
    shop.get::<Ehpa>(WEB).await?;
    for hpa in ["ehpa-web", "keda-hpa-queue"] {
        shop.is_active(hpa).await?;
    }
    shop.gone::<Hpa>("keda-hpa-web").await?;

    for step in plan.steps.iter().rev() {
        plan.revert(step).await?;
        shop.has(WEB, SCHEDULED).await?;
    }
    api_service_is_of(&shop.client, API, THEIRS).await?;
    shop.scales_to(5).await?;
    for hpa in ["keda-hpa-web", "keda-hpa-queue"] {
        shop.is_active(hpa).await?;
    }
    shop.has(WEB, SCHEDULED).await
}
