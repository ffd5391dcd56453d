//! The tenant whose answers are timed.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use api::prediction::TimeSeriesPrediction;
use api::vpa::VerticalPodAutoscaler;
use e2e::remote_write::{DailyCpu, Labels, Receiver};
use e2e::{eventually, namespace};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use sandbox::Sandbox;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{PATIENCE, user};

const WORKLOAD: &str = "web";
const DAY: i64 = 86_400;
/// Objects of each kind that are timed.
const OBJECTS: usize = 9;
/// Admissions and metrics that are timed.
const ASKED: usize = 101;

/// Median seconds until an answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    /// From the creation of a VPA to its recommendation.
    pub(crate) recommendation: f64,
    /// From the creation of a prediction to its forecast.
    pub(crate) forecast: f64,
    /// Of the dry run of a pod's creation.
    pub(crate) admission: f64,
    /// Of the dry run of the creation of a pod that the webhook does not see.
    pub(crate) unseen: f64,
    /// Of a question for an external metric that was not asked before.
    pub(crate) metric: f64,
    /// Of the same question to Prometheus, and of a read from the API server: all that the adapter
    /// needs.
    pub(crate) store: f64,
}

impl Measured {
    /// Each answer with its usual seconds and those of `now`.
    pub(crate) fn against(&self, now: &Self) -> [(&'static str, f64, f64); 4] {
        [
            ("a recommendation", self.recommendation, now.recommendation),
            ("a forecast", self.forecast, now.forecast),
            ("an admission", self.admission, now.admission),
            ("a metric", self.metric, now.metric),
        ]
    }
}

/// A tenant with one workload.
pub(crate) struct Tenant {
    namespace: String,
    client: Client,
    store: Receiver,
}

impl Tenant {
    /// Creates the tenant's namespace and workload, and writes a history of both to Prometheus.
    pub(crate) async fn new(sandbox: &Sandbox, prefix: &str) -> Result<Self> {
        let namespace = namespace(&sandbox.client().await?, prefix).await?;
        let client = user::in_namespace(sandbox, &namespace).await?;
        let labels = json!({"app": WORKLOAD});
        let usage =
            json!({"kwok.x-k8s.io/usage-cpu": "240m", "kwok.x-k8s.io/usage-memory": "60Mi"});
        let resources = json!({"requests": {"cpu": "100m", "memory": "10Mi"}});
        let deployment = json!({
            "metadata": {"name": WORKLOAD},
            "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": {
                "metadata": {"labels": labels, "annotations": usage},
                "spec": {"containers": [{"name": "app", "image": "example.com/app", "resources": resources}]},
            }},
        });
        let deployments: Api<Deployment> = Api::namespaced(client.clone(), &namespace);
        deployments
            .create(&PostParams::default(), &serde_json::from_value(deployment)?)
            .await?;
        let url = sandbox
            .prometheus_url()
            .context("this sandbox has a Prometheus")?;
        let store = Receiver::new(&url, sandbox.authority())?;
        let tenant = Self {
            namespace,
            client,
            store,
        };
        tenant.write_cpu().await?;
        tenant.write_queue().await?;
        // Usage and webhook are there once the first object is served.
        tenant.recommendation("first-0").await?;
        eventually("the metric is served", PATIENCE, async || {
            tenant.metric("first").await
        })
        .await?;
        Ok(tenant)
    }

    /// Times answers about objects with names that begin like this.
    pub(crate) async fn measure(&self, prefix: &str) -> Result<Measured> {
        self.write_queue().await?;
        let (mut recommendations, mut forecasts) = (Vec::new(), Vec::new());
        for number in 0..OBJECTS {
            recommendations.push(self.recommendation(&format!("{prefix}-{number}")).await?);
            forecasts.push(self.forecast(&format!("{prefix}-{number}")).await?);
        }
        let set = self.replica_set().await?;
        self.write_queue().await?;
        let (mut admissions, mut unseen, mut metrics, mut store) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for number in 0..ASKED {
            admissions.push(self.admission(&set, true).await?);
            unseen.push(self.admission(&set, false).await?);
            metrics.push(self.metric(&format!("{prefix}-{number}")).await?);
            store.push(self.without_adapter().await?);
        }
        Ok(Measured {
            recommendation: median(recommendations),
            forecast: median(forecasts),
            admission: median(admissions),
            unseen: median(unseen),
            metric: median(metrics),
            store: median(store),
        })
    }

    /// Five days of CPU of the workload, with a rise now.
    async fn write_cpu(&self) -> Result<()> {
        let now = Timestamp::now().as_second() / 60 * 60;
        let (namespace, pod) = (self.namespace.as_str(), "web-6d5f9c7b8d-aaaaa");
        let cpu = DailyCpu {
            namespace,
            pod,
            container: "app",
            rise: now,
            busy: 6 * 3600,
            low: 0.02,
            high: 0.28,
        };
        self.store.write_daily_cpu(&cpu, now - 5 * DAY, now).await
    }

    /// The depth of a queue for the next minutes: the store takes samples of up to ten minutes
    /// ahead.
    async fn write_queue(&self) -> Result<()> {
        let now = Timestamp::now().as_second();
        let labels: Labels<'_> = BTreeMap::from([
            ("__name__", "queue_depth"),
            ("namespace", &*self.namespace),
            ("queue", "orders"),
        ]);
        self.store
            .write(
                labels,
                (now..now + 540).step_by(30).map(|second| (second, 7.0)),
            )
            .await
    }

    async fn recommendation(&self, name: &str) -> Result<f64> {
        let objects: Api<VerticalPodAutoscaler> =
            Api::namespaced(self.client.clone(), &self.namespace);
        let object = json!({
            "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"name": name},
            "spec": {
                "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": WORKLOAD},
                "updatePolicy": {"updateMode": "Initial"},
            },
        });
        let started = Instant::now();
        objects
            .create(&PostParams::default(), &serde_json::from_value(object)?)
            .await?;
        eventually("a VPA has its recommendation", PATIENCE, async || {
            let status = objects.get(name).await?.status.unwrap_or_default();
            let recommendation = status.recommendation.unwrap_or_default();
            ensure!(
                !recommendation.container_recommendations.is_empty(),
                "{name} has none"
            );
            Ok(())
        })
        .await?;
        Ok(started.elapsed().as_secs_f64())
    }

    async fn forecast(&self, name: &str) -> Result<f64> {
        let objects: Api<TimeSeriesPrediction> =
            Api::namespaced(self.client.clone(), &self.namespace);
        let object = json!({
            "apiVersion": "prediction.crane.io/v1alpha1", "kind": "TimeSeriesPrediction", "metadata": {"name": name},
            "spec": {
                "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": WORKLOAD},
                "predictionWindowSeconds": 3600,
                "predictionMetrics": [{
                    "resourceIdentifier": "cpu", "type": "ResourceQuery", "resourceQuery": "cpu",
                    "algorithm": {"algorithmType": "dsp", "dsp": {"sampleInterval": "60s", "historyLength": "7d"}},
                }],
            },
        });
        let started = Instant::now();
        objects
            .create(&PostParams::default(), &serde_json::from_value(object)?)
            .await?;
        eventually("a prediction has its forecast", PATIENCE, async || {
            let object = serde_json::to_value(objects.get(name).await?)?;
            let points = object
                .pointer("/status/predictionMetrics/0/prediction/0/samples")
                .and_then(Value::as_array);
            ensure!(
                points.is_some_and(|points| !points.is_empty()),
                "{name}: {:#}",
                object["status"]
            );
            Ok(())
        })
        .await?;
        Ok(started.elapsed().as_secs_f64())
    }

    /// The workload's `ReplicaSet`, as the owner of a pod.
    async fn replica_set(&self) -> Result<Value> {
        let sets: Api<ReplicaSet> = Api::namespaced(self.client.clone(), &self.namespace);
        let set = sets
            .list(&ListParams::default())
            .await?
            .items
            .into_iter()
            .next()
            .context("a ReplicaSet")?;
        let (name, uid) = (set.name_any(), set.uid().context("a uid")?);
        Ok(
            json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": uid, "controller": true}),
        )
    }

    async fn admission(&self, owner: &Value, is_seen: bool) -> Result<f64> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let disabled = (!is_seen).to_string();
        let labels = json!({"app": WORKLOAD, "plimsoll.dev/disable-webhook": disabled});
        let pod = json!({
            "metadata": {"generateName": "web-", "labels": labels, "ownerReferences": [owner]},
            "spec": {"containers": [{"name": "app", "image": "example.com/app", "resources": {
                "requests": {"cpu": "100m", "memory": "10Mi"},
            }}]},
        });
        let (dry_run, pod) = (
            PostParams {
                dry_run: true,
                ..PostParams::default()
            },
            serde_json::from_value(pod)?,
        );
        let started = Instant::now();
        let made = pods.create(&dry_run, &pod).await?;
        let seconds = started.elapsed().as_secs_f64();
        ensure!(
            made.annotations().contains_key("vpaUpdates") == is_seen,
            "{:?}",
            made.annotations()
        );
        Ok(seconds)
    }

    async fn without_adapter(&self) -> Result<f64> {
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), &self.namespace);
        let started = Instant::now();
        deployments.get(WORKLOAD).await?;
        let answer = self.store.query("queue_depth").await?;
        let seconds = started.elapsed().as_secs_f64();
        ensure!(answer.contains(&self.namespace), "{answer}");
        Ok(seconds)
    }

    async fn metric(&self, queue: &str) -> Result<f64> {
        let namespace = &self.namespace;
        let path =
            format!("/apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}/queue_depth");
        let request =
            http::Request::get(format!("{path}?labelSelector=queue!%3D{queue}")).body(Vec::new())?;
        let started = Instant::now();
        let answer: Value = self
            .client
            .request(request)
            .await
            .context("GET queue_depth")?;
        let seconds = started.elapsed().as_secs_f64();
        ensure!(answer["items"][0]["value"] == "7", "{answer}");
        Ok(seconds)
    }
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}
