//! The suite on the real node: namespaces, pods that run the program `load`, their usage as
//! metrics-server reports it, and VPA objects, whose recommendation a test may write itself.

use std::thread;

use anyhow::{Context as _, Result, ensure};
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::{
    LOAD_IMAGE, Namespace, Turn, Turns, can_run_real_node, container as status_of, eventually,
    install_prometheus, install_suite, real_node, target, with,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{self as kind, Pod};
use kube::ResourceExt as _;
use model::Quantity;
use sandbox::Sandbox;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::cgroups::container_id;

/// The fixture, or the end of a test where no real node can run.
macro_rules! or_skip {
    ($fixture:expr) => {
        match $fixture.await? {
            Some(fixture) => fixture,
            None => return Ok(()),
        }
    };
}
pub(crate) use or_skip;

/// Values of the chart: everything is on, and nothing waits for a pace that only people need.
const VALUES: &[&str] = &[
    "mode=all",
    "extender.enabled=true",
    "dashboard.enabled=true",
    "dashboard.host=plimsoll.example.com",
    "global.logLevel=4",
    "recommender.pod.extraArgs[0]=--recommender-interval=2s",
    // So that targets follow from what programs use, not from the default minimum of 250 MiB.
    "recommender.pod.extraArgs[1]=--pod-recommendation-min-memory-mb=10",
    "updater.settlingTime=0s",
    "updater.pod.extraArgs[0]=--updater-interval=2s",
    r"featureGates=InPlace=true\,CPUStartupBoost=true",
];

/// The cluster of most tests.
static SHARED: Turns<Sandbox> = Turns::new();
/// The cluster of tests that break its node or fill it, one after the other.
static FAILING: Turns<Sandbox> = Turns::new();

/// The cluster of tests that need Prometheus.
static MEASURED: Turns<Sandbox> = Turns::new();

/// A namespace of a cluster with a real node on which the suite is installed.
pub(crate) struct Fixture {
    own: Namespace,
    turn: Turn<Sandbox>,
}

async fn start(purpose: &str) -> Result<Sandbox> {
    let sandbox = real_node(purpose).await?;
    install_suite(&sandbox, VALUES).await?;
    Ok(sandbox)
}

/// A cluster whose Prometheus the suite reads.
async fn start_measured() -> Result<Sandbox> {
    let sandbox = real_node("measured").await?;
    let address = format!("prometheus.address={}", install_prometheus(&sandbox).await?);
    let measured = [
        "recommender.sizingPolicies=true",
        address.as_str(),
        "updater.waves.provenAfter=30s",
        "updater.waves.prometheus.queryTimeout=5s",
    ];
    install_suite(&sandbox, &[VALUES, &measured].concat()).await?;
    Ok(sandbox)
}

e2e::deref_to_namespace!(Fixture, own);

/// The pods of a test that is over would keep their room on the node.
impl Drop for Fixture {
    fn drop(&mut self) {
        let deleted = thread::scope(|scope| {
            let deletion = scope.spawn(|| Runtime::new()?.block_on(self.end()));
            deletion.join()
        });
        if let Ok(Err(error)) = deleted {
            eprintln!("Namespace {} is not deleted: {error:#}", self.namespace);
        }
    }
}

impl Fixture {
    /// A new namespace; `None` where no real node can run. The first call installs the chart.
    pub(crate) async fn new(prefix: &str) -> Result<Option<Self>> {
        if !can_run_real_node()? {
            return Ok(None);
        }
        let turn = SHARED.together(async || start("node").await).await?;
        Self::with(prefix, turn).await.map(Some)
    }

    /// The same for a test that no other one disturbs, and that may break the node.
    pub(crate) async fn alone(prefix: &str) -> Result<Option<Self>> {
        if !can_run_real_node()? {
            return Ok(None);
        }
        let turn = FAILING.alone(async || start("failing").await).await?;
        Self::with(prefix, turn).await.map(Some)
    }

    /// The same on a cluster with Prometheus.
    pub(crate) async fn measured(prefix: &str) -> Result<Option<Self>> {
        if !can_run_real_node()? {
            return Ok(None);
        }
        let turn = MEASURED.alone(start_measured).await?;
        Self::with(prefix, turn).await.map(Some)
    }

    /// The same on a cluster of the test's own, without the suite.
    pub(crate) async fn on(
        cluster: &'static Turns<Sandbox>,
        make: impl AsyncFnOnce() -> Result<Sandbox>,
    ) -> Result<Option<Self>> {
        if !can_run_real_node()? {
            return Ok(None);
        }
        let turn = cluster.alone(make).await?;
        Self::with("shop", turn).await.map(Some)
    }

    async fn with(prefix: &str, turn: Turn<Sandbox>) -> Result<Self> {
        let own = Namespace::new(turn.client().await?, prefix).await?;
        Ok(Self { own, turn })
    }

    /// Deletes the namespace, and waits until its pods are gone. With a client of its own, since that of
    /// a test belongs to the test's runtime.
    async fn end(&self) -> Result<()> {
        let client = self.sandbox().client().await?;
        let own = &self.namespace;
        Namespace::cluster(client.clone())
            .delete::<kind::Namespace>(own)
            .await?;
        Namespace::of(client, own).no_pods("").await
    }

    pub(crate) fn sandbox(&self) -> &Sandbox {
        &self.turn
    }

    pub(crate) async fn deploy(&self, name: &str, replicas: usize, pod: &Value) -> Result<()> {
        self.create_deployment(name, replicas, pod).await?;
        self.all_available(name, replicas).await
    }

    /// Creates a Deployment of pods with this specification and the label `app`.
    pub(crate) async fn create_deployment(
        &self,
        name: &str,
        replicas: usize,
        pod: &Value,
    ) -> Result<()> {
        let labels = json!({"app": name});
        let spec = json!({
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        });
        self.make::<Deployment>(name, spec).await?;
        Ok(())
    }

    /// Deletes a Deployment and its VPA object, and waits until its pods are gone.
    pub(crate) async fn delete_workload(&self, name: &str) -> Result<()> {
        self.delete::<Vpa>(name).await?;
        self.delete::<Deployment>(name).await?;
        self.no_pods(&format!("app={name}")).await
    }

    /// Waits until this number of pods is available.
    pub(crate) async fn all_available(&self, name: &str, replicas: usize) -> Result<()> {
        self.when::<Deployment>(name, "its pods are available", |it| {
            it["status"]["availableReplicas"].as_u64() == u64::try_from(replicas).ok()
        })
        .await
        .map(drop)
    }

    /// Creates a VPA object of a Deployment with this policy of containers.
    pub(crate) async fn autoscale(&self, name: &str, mode: &str, policy: Value) -> Result<()> {
        self.autoscale_with(name, mode, json!([policy])).await
    }

    /// The same with several policies.
    pub(crate) async fn autoscale_with(
        &self,
        name: &str,
        mode: &str,
        policies: Value,
    ) -> Result<()> {
        let spec = json!({
            "targetRef": target("Deployment", name),
            "updatePolicy": {"updateMode": mode},
            "resourcePolicy": {"containerPolicies": policies},
        });
        self.make::<Vpa>(name, spec).await?;
        Ok(())
    }

    pub(crate) async fn pod(&self, app: &str) -> Result<Pod> {
        let pods = self.pods_of(app).await?;
        let mut live = pods
            .into_iter()
            .filter(|pod| pod.metadata.deletion_timestamp.is_none());
        live.next().with_context(|| format!("{app} has no pod"))
    }

    /// Changes the load of a pod: a query, such as `memory-mib=100`.
    pub(crate) async fn set(&self, pod: &Pod, query: &str) -> Result<()> {
        self.request(pod, &format!("set?{query}")).await.map(drop)
    }

    pub(crate) async fn load(&self, pod: &Pod) -> Result<Load> {
        let text = self.request(pod, "status").await?;
        serde_json::from_str(&text).with_context(|| format!("parse {text}"))
    }

    /// Waits until the programs in both pods of an app hold this memory, and returns their loads. It may
    /// take several kills, since each shows only that a container needs more than it had.
    pub(crate) async fn both_hold(&self, app: &str, mib: u64) -> Result<Vec<Load>> {
        eventually(&format!("{app} holds {mib} MiB"), async || {
            let pods = self.pods_of(app).await?;
            ensure!(pods.len() == 2, "{} pods", pods.len());
            let mut loads = Vec::new();
            for pod in &pods {
                let load = self.load(pod).await?;
                let status = pod.status.as_ref();
                let containers = status.and_then(|status| status.container_statuses.as_ref());
                ensure!(load.held_mib >= mib, "{load:?} {containers:?}");
                loads.push(load);
            }
            Ok(loads)
        })
        .await
    }

    async fn request(&self, pod: &Pod, path: &str) -> Result<String> {
        let target = format!("pods/{}:8080", pod.name_any());
        self.proxied(&target, &format!("/{path}")).await
    }
}

/// The state of the program `load`, as it reports it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Load {
    pub(crate) started_unix_ms: u64,
    /// Memory that it holds.
    pub(crate) held_mib: u64,
    /// The first time at which it held all that it wants.
    pub(crate) held_since_unix_ms: Option<u64>,
}

/// A container `name` that runs `load` with these flags.
pub(crate) fn container(name: &str, flags: &[&str], resources: &Value) -> Value {
    json!({
        "name": name,
        "image": LOAD_IMAGE,
        "args": flags,
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}, "periodSeconds": 1},
        "resources": resources,
    })
}

/// A pod whose container `app` runs `load` with these flags.
pub(crate) fn pod_of(flags: &[&str], resources: &Value) -> Value {
    json!({
        "containers": [container("app", flags, resources)],
        "terminationGracePeriodSeconds": 1,
        "dnsPolicy": "Default",
    })
}

/// Requests and limits of CPU and memory.
pub(crate) fn resources(requests: [&str; 2], limits: [&str; 2]) -> Value {
    json!({"requests": amount(requests), "limits": amount(limits)})
}

pub(crate) fn amount([cpu, memory]: [&str; 2]) -> Value {
    json!({"cpu": cpu, "memory": memory})
}

/// The present run of a pod's container.
#[derive(Debug, PartialEq)]
pub(crate) struct Run {
    pub(crate) uid: String,
    /// Identifier of the run.
    container: String,
    /// Number of earlier runs.
    pub(crate) restarts: i32,
}

/// The runs of all pods of an app, in the order of the pods' names.
pub(crate) async fn runs(cluster: &Fixture, app: &str) -> Result<Vec<Run>> {
    let run = |pod: &Pod| {
        Ok(Run {
            uid: pod.uid().context("a pod has a UID")?,
            container: container_id(pod)?,
            restarts: status_of(pod).context("it has a container")?.restart_count,
        })
    };
    cluster.pods_of(app).await?.iter().map(run).collect()
}

/// Checks that the containers of an app run on, as they did before.
pub(crate) async fn run_on(cluster: &Fixture, app: &str, before: &[Run]) -> Result<()> {
    let now = runs(cluster, app).await?;
    ensure!(now == before, "{app}: {now:?} {before:?}");
    Ok(())
}

/// Waits until the program in each pod of an app holds this memory. A pod may be ready before.
pub(crate) async fn all_hold(cluster: &Fixture, app: &str, mib: u64) -> Result<()> {
    eventually(&format!("the pods of {app} hold {mib} MiB"), async || {
        let pods = cluster.pods_of(app).await?;
        ensure!(!pods.is_empty(), "it has no pods");
        for pod in pods {
            let load = cluster.load(&pod).await?;
            ensure!(load.held_mib >= mib, "{load:?} {:?}", pod.status);
        }
        Ok(())
    })
    .await
}

impl Fixture {
    /// Creates a VPA object of a Deployment that recommends this amount for each container `app`.
    pub(crate) async fn size_to(&self, name: &str, mode: &str, amount: &Value) -> Result<()> {
        self.size_with(name, mode, json!({}), amount).await
    }

    /// The same with these fields of `spec` in addition.
    pub(crate) async fn size_with(
        &self,
        name: &str,
        mode: &str,
        spec: Value,
        amount: &Value,
    ) -> Result<()> {
        let fixed = json!({
            "targetRef": target("Deployment", name),
            "recommenders": [{"name": "e2e"}],
            "updatePolicy": {"updateMode": mode},
        });
        self.create::<Vpa>(json!({"metadata": {"name": name}, "spec": with(fixed, spec)}))
            .await?;
        self.recommend(name, amount).await
    }

    /// Recommends this amount, and no other one is within the bounds.
    pub(crate) async fn recommend(&self, name: &str, amount: &Value) -> Result<()> {
        let container = json!({
            "containerName": "app",
            "target": amount,
            "lowerBound": amount,
            "upperBound": amount,
            "uncappedTarget": amount,
        });
        Ok(self.write_recommendation(name, container).await?)
    }
}

/// CPU in millicores and memory in bytes of one container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) cpu: i64,
    pub(crate) memory: i64,
}

impl Amount {
    fn parse(value: &Value) -> Result<Self> {
        let quantity = |name: &str| -> Result<Quantity> {
            let text = value[name].as_str();
            let text = text.with_context(|| format!("no {name} in {value}"))?;
            Ok(text.parse()?)
        };
        Ok(Self {
            cpu: quantity("cpu")?.milli_value(),
            memory: quantity("memory")?.value(),
        })
    }

    /// The requests in effect of a pod's first container, as its kubelet reports them.
    pub(crate) fn in_effect(pod: &Pod) -> Result<Self> {
        let requests = e2e::requests_in_effect(pod).context("the kubelet reports no requests")?;
        Self::parse(&serde_json::to_value(requests)?)
    }
}

impl Fixture {
    /// Usage of a pod's first container in metrics.k8s.io; an error before the first.
    pub(crate) async fn usage(&self, pod: &Pod) -> Result<Amount> {
        let path = format!(
            "/apis/metrics.k8s.io/v1beta1/namespaces/{}/pods/{}",
            self.namespace,
            pod.name_any()
        );
        let request = http::Request::get(path).body(Vec::new())?;
        let metrics: Value = self.client.request(request).await?;
        Amount::parse(&metrics["containers"][0]["usage"])
    }

    /// The recommendation of a VPA object for its first container: `target`, `upperBound` ...
    pub(crate) async fn recommended(&self, vpa: &str, field: &str) -> Result<Amount> {
        let vpa = self.get::<Vpa>(vpa).await?;
        Amount::parse(&vpa["status"]["recommendation"]["containerRecommendations"][0][field])
    }
}
