//! The tenant whose answers are timed, and its user, with rights in one namespace.

use anyhow::{Context as _, Result, ensure};
use api::prediction::TimeSeriesPrediction;
use api::vpa::VerticalPodAutoscaler;
use e2e::benchmark::median;
use e2e::remote_write::{DailyCpu, Receiver};
use e2e::{Namespace, create, dry_run, eventually_within, namespace, requests, target, usage};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::rbac::v1::RoleBinding;
use k8s_openapi::jiff::Timestamp;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, Resource, ResourceExt as _};
use sandbox::Sandbox;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::PATIENCE;

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

pub(crate) struct Tenant {
    own: Namespace,
    store: Receiver,
}

impl Tenant {
    /// Creates the tenant's namespace and workload, and writes a history of both to Prometheus.
    pub(crate) async fn new(sandbox: &Sandbox, prefix: &str) -> Result<Self> {
        let namespace = namespace(&sandbox.client().await?, prefix).await?;
        let client = tenant_client(sandbox, &namespace).await?;
        let (requests, usage) = (requests("100m", "10Mi"), usage("240m", "60Mi"));
        let own = Namespace::of(client, &namespace);
        own.deploy(WORKLOAD, 2, &requests, &usage).await?;
        let store = Receiver::of(sandbox)?;
        let tenant = Self { own, store };
        tenant.write_cpu().await?;
        tenant.write_queue().await?;
        // Usage and webhook are there once the first object is served.
        tenant.recommendation("first-0").await?;
        eventually_within(PATIENCE, "the metric is served", async || {
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
        let (namespace, pod) = (self.own.namespace.as_str(), "web-6d5f9c7b8d-aaaaa");
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
        let labels = [("namespace", &*self.own.namespace), ("queue", "orders")];
        let samples = (now..now + 540).step_by(30).map(|second| (second, 7.0));
        self.store.write("queue_depth", &labels, samples).await
    }

    async fn recommendation(&self, name: &str) -> Result<f64> {
        let spec = json!({"targetRef": target("Deployment", WORKLOAD), "updatePolicy": {"updateMode": "Initial"}});
        let containers = "/status/recommendation/containerRecommendations";
        self.timed::<VerticalPodAutoscaler>(name, &spec, containers)
            .await
    }

    async fn forecast(&self, name: &str) -> Result<f64> {
        let spec = json!({
            "targetRef": target("Deployment", WORKLOAD),
            "predictionWindowSeconds": 3600,
            "predictionMetrics": [{
                "resourceIdentifier": "cpu", "type": "ResourceQuery", "resourceQuery": "cpu",
                "algorithm": {"algorithmType": "dsp", "dsp": {"sampleInterval": "60s", "historyLength": "7d"}},
            }],
        });
        let samples = "/status/predictionMetrics/0/prediction/0/samples";
        self.timed::<TimeSeriesPrediction>(name, &spec, samples)
            .await
    }

    /// Seconds from the creation of an object until there is something at this path.
    async fn timed<K>(&self, name: &str, spec: &Value, path: &str) -> Result<f64>
    where
        K: Resource<DynamicType = ()>,
    {
        let object = json!({"metadata": {"name": name}, "spec": spec});
        let started = Instant::now();
        self.own.create::<K>(object).await?;
        eventually_within(PATIENCE, &format!("{name} has its answer"), async || {
            let object = self.own.get::<K>(name).await?;
            let found = object.pointer(path).and_then(Value::as_array);
            let is_there = found.is_some_and(|found| !found.is_empty());
            ensure!(is_there, "{:#}", object["status"]);
            Ok(())
        })
        .await?;
        Ok(started.elapsed().as_secs_f64())
    }

    /// The workload's `ReplicaSet`, as the owner of a pod.
    async fn replica_set(&self) -> Result<Value> {
        let sets = self.own.list::<ReplicaSet>().await?;
        let set = &sets.first().context("a ReplicaSet")?["metadata"];
        let (name, uid) = (&set["name"], &set["uid"]);
        Ok(
            json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": uid, "controller": true}),
        )
    }

    async fn admission(&self, owner: &Value, is_seen: bool) -> Result<f64> {
        let pods = self.own.typed::<Pod>();
        let disabled = (!is_seen).to_string();
        let labels = json!({"app": WORKLOAD, "plimsoll.dev/disable-webhook": disabled});
        let pod = json!({
            "metadata": {"generateName": "web-", "labels": labels, "ownerReferences": [owner]},
            "spec": {"containers": [{"name": "app", "image": "example.com/app", "resources": {
                "requests": {"cpu": "100m", "memory": "10Mi"},
            }}]},
        });
        let pod = serde_json::from_value(pod)?;
        let started = Instant::now();
        let made = pods.create(&dry_run(), &pod).await?;
        let seconds = started.elapsed().as_secs_f64();
        ensure!(
            made.annotations().contains_key("vpaUpdates") == is_seen,
            "{:?}",
            made.annotations()
        );
        Ok(seconds)
    }

    async fn without_adapter(&self) -> Result<f64> {
        let started = Instant::now();
        self.own.get::<Deployment>(WORKLOAD).await?;
        let answer = self.store.query("queue_depth").await?;
        let seconds = started.elapsed().as_secs_f64();
        ensure!(answer.contains(&self.own.namespace), "{answer}");
        Ok(seconds)
    }

    async fn metric(&self, queue: &str) -> Result<f64> {
        let namespace = &self.own.namespace;
        let path =
            format!("/apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}/queue_depth");
        let request =
            http::Request::get(format!("{path}?labelSelector=queue!%3D{queue}")).body(Vec::new())?;
        let started = Instant::now();
        let answer = self.own.client.request::<Value>(request).await;
        let answer = answer.context("GET queue_depth")?;
        let seconds = started.elapsed().as_secs_f64();
        ensure!(answer["items"][0]["value"] == "7", "{answer}");
        Ok(seconds)
    }
}

/// A client of a new user with the role `edit` in a namespace, and the right to make objects of the
/// suite there.
pub(crate) async fn tenant_client(sandbox: &Sandbox, namespace: &str) -> Result<Client> {
    let bindings: Api<RoleBinding> = Api::namespaced(sandbox.client().await?, namespace);
    for role in ["edit", "plimsoll-tenant"] {
        let binding = json!({
            "metadata": {"name": role},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": namespace}],
        });
        create(&bindings, binding).await?;
    }
    let kubeconfig = Kubeconfig::read_from(sandbox.kubeconfig())?;
    let mut config =
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.auth_info.impersonate = Some(namespace.to_owned());
    Ok(Client::try_from(config)?)
}
