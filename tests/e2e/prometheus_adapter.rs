//! An HPA by metrics of prometheus-adapter itself moves to the suite and back, by the commands of
//! `plimsoll migrate prometheus-adapter --plan`.

use std::fs;

use anyhow::{Context as _, Result};
use e2e::deployment::SYSTEM;
use e2e::{
    MigrationPlan, Namespace, Prometheus, WithPrometheusAdapter, api_service_is_of, kubectl_in,
    requests, target, usage, workload,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler as Hpa;
use k8s_openapi::api::core::v1::Service;
use sandbox::Sandbox;
use serde_json::json;

const APIS: [&str; 3] = [
    "v1beta1.custom.metrics.k8s.io",
    "v1beta2.custom.metrics.k8s.io",
    "v1beta1.external.metrics.k8s.io",
];
const WEB: &str = "web";
/// Requests, and orders that wait, for which one replica is enough.
const PER_REPLICA: usize = 10;

struct Shop<'a> {
    sandbox: &'a Sandbox,
    own: Namespace,
}

impl<'a> Shop<'a> {
    /// A workload that an HPA scales by a custom and an external metric.
    async fn open(sandbox: &'a Sandbox) -> Result<Self> {
        let own = Namespace::new(sandbox.client().await?, "shop").await?;
        let web = workload(WEB, 1, &requests("100m", "10Mi"), &usage("10m", "10Mi"));
        own.create::<Deployment>(web).await?;
        let ports = json!({"selector": {"app": WEB}, "ports": [{"port": 80}]});
        own.make::<Service>(WEB, ports).await?;
        let average = json!({"type": "AverageValue", "averageValue": PER_REPLICA.to_string()});
        let service = json!({"apiVersion": "v1", "kind": "Service", "name": WEB});
        let hpa = json!({
            "scaleTargetRef": target("Deployment", WEB),
            "minReplicas": 1,
            "maxReplicas": 10,
            "metrics": [
                {"type": "Object", "object": {
                    "describedObject": service, "metric": {"name": "shop_requests"}, "target": average,
                }},
                {"type": "External", "external": {
                    "metric": {"name": "orders_waiting"}, "target": average,
                }},
            ],
        });
        own.make::<Hpa>(WEB, hpa).await?;
        Ok(Self { sandbox, own })
    }

    /// Both metrics ask for this number of replicas from now on, and get it.
    async fn scales_to(&self, replicas: usize) -> Result<()> {
        let expression = format!("vector({})", replicas * PER_REPLICA);
        let namespace = &self.own.namespace;
        let rules = json!([
            {"record": "shop_requests", "expr": expression,
             "labels": {"namespace": namespace, "service": WEB}},
            {"record": "orders_waiting", "expr": expression, "labels": {"namespace": namespace}},
        ]);
        let group = json!({"name": "shop", "interval": "1s", "rules": rules});
        let file = self.sandbox.prometheus_files().join("rules-shop.yaml");
        fs::write(file, json!({"groups": [group]}).to_string())?;
        Prometheus::scrape_programs(self.sandbox).await?;
        self.has(replicas).await
    }

    async fn has(&self, replicas: usize) -> Result<()> {
        let scaled = json!({"spec": {"replicas": replicas}});
        self.own.await_fields::<Deployment>(WEB, scaled).await?;
        let hpa = "both metrics have values";
        self.own
            .when::<Hpa>(WEB, hpa, |it| {
                let metrics = it["status"]["currentMetrics"].as_array();
                metrics.is_some_and(|all| all.len() == 2)
            })
            .await
            .map(drop)
    }

    async fn apis_are_of(&self, service: &str) -> Result<()> {
        for api in APIS {
            api_service_is_of(&self.own.client, api, service).await?;
        }
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_hpa_moves_from_prometheus_adapter_and_back_by_the_steps_of_the_plan() -> Result<()> {
    let cluster = WithPrometheusAdapter::start("prometheus-adapter").await?;
    let sandbox = &cluster.sandbox;
    let shop = Shop::open(sandbox).await?;
    let theirs = "monitoring/prometheus-adapter";
    shop.apis_are_of(theirs).await?;
    shop.scales_to(2).await?;

    // The certificate of this Prometheus has an authority of its own.
    kubectl_in(sandbox, &format!("create namespace {SYSTEM}")).await?;
    let authority = sandbox.authority();
    let secret = format!(
        "-n {SYSTEM} create secret generic prometheus --from-file=ca.crt={}",
        authority.display()
    );
    kubectl_in(sandbox, &secret).await?;
    let url = sandbox.prometheus_url().context("there is a Prometheus")?;
    let address =
        format!("{url} --set prometheus.secretName=prometheus --set prometheus.caKey=ca.crt");
    let words = vec![
        ("REGISTRY/plimsoll", "ghcr.io/plimsoll".to_owned()),
        ("ADDRESS", address),
    ];
    let plan = MigrationPlan::of(sandbox, "prometheus-adapter", words).await?;
    for step in &plan.steps {
        plan.run(step).await?;
        shop.has(2).await?;
    }
    shop.apis_are_of(&format!("{SYSTEM}/plimsoll-adapter"))
        .await?;
    shop.scales_to(4).await?;

    for step in plan.steps.iter().rev() {
        plan.revert(step).await?;
    }
    shop.apis_are_of(theirs).await?;
    shop.scales_to(6).await
}
