//! A cluster of 100 nodes with load that no request shows, the extender, and a kube-scheduler that
//! calls it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result, ensure};
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::deployment::{EXTENDER, Replica, deploy, replicas};
use e2e::scheduler::{Scheduler, with_extender};
use e2e::{
    Namespace, another_with, apply, bare_pod, eventually, in_parallel, node_of, requests, target,
    usage, workload,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams};
use sandbox::Sandbox;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

pub(crate) const NODES: u16 = 100;
/// CPU of a node of the sandbox.
const NODE_CORES: f64 = 32.0;
/// The first nodes run a pod with much load, the others one with little, and the last one is idle.
pub(crate) const LOADED: u16 = 40;
/// The one node whose pod requests more CPU than it uses.
pub(crate) const HONEST: u16 = 98;
/// Pods of [`Cluster::chosen`] so far. A late deletion by the simulated kubelet would hit another pod of the same
/// name.
static CHOICES: AtomicUsize = AtomicUsize::new(0);
const POLICY_ANNOTATION: &str = "plimsoll.dev/placement-policy";
const CPU_ANNOTATION: &str = "kwok.x-k8s.io/usage-cpu";
const LOAD_WATCHER_PORT: u16 = 2020;
/// Requests under way at the same time.
const PARALLEL: usize = 16;
/// Utilization in percent above which a node is hot.
pub(crate) const HOT_PERCENT: f64 = 80.0;
/// Workloads of the test, their usage and replicas. All request one CPU.
const WORKLOADS: [(&str, &str, usize); 2] = [("heavy", "3500m", 200), ("light", "500m", 200)];

pub(crate) struct Cluster {
    pub(crate) sandbox: Sandbox,
    pub(crate) load_aware: Scheduler,
    own: Namespace,
}

e2e::deref_to_namespace!(Cluster, own);

impl Cluster {
    pub(crate) async fn new() -> Result<Self> {
        let sandbox = another_with("placement", |options| {
            options.nodes = NODES;
            options.prometheus = true;
        })
        .await?;
        let client = sandbox.client().await?;
        let own = Namespace::new(client.clone(), "placement").await?;
        make_load(&own).await?;
        apply(&sandbox, "deploy/base/namespace.yaml").await?;
        deploy(&sandbox, "tests/e2e/placement", EXTENDER.labels).await?;
        let load_aware = scheduler(&sandbox, &own, "load-aware", "").await?;
        Ok(Self {
            sandbox,
            load_aware,
            own,
        })
    }

    /// Starts another kube-scheduler, which asks the extender below this path.
    pub(crate) async fn scheduler(&self, name: &str, path: &str) -> Result<Scheduler> {
        scheduler(&self.sandbox, &self.own, name, path).await
    }

    /// Ensures that a scheduler chooses this node among these, eight times in a row, for a pod with this request of
    /// CPU and this policy.
    pub(crate) async fn always_chosen(
        &self,
        scheduler: &Scheduler,
        (cpu, policy): (&str, Option<&str>),
        among: impl IntoIterator<Item = u16> + Clone,
        expected: u16,
    ) -> Result<()> {
        for try_ in 0..8 {
            let node = self.chosen(scheduler, cpu, policy, among.clone()).await?;
            ensure!(
                node == format!("node-{expected}"),
                "{} with {policy:?} chose {node} for {cpu} CPU in try {try_}, not node-{expected}",
                scheduler.name
            );
        }
        Ok(())
    }

    /// The node that a scheduler chooses among these for a pod with this request of CPU and this annotation of
    /// its policy. The pod is deleted.
    async fn chosen(
        &self,
        scheduler: &Scheduler,
        cpu: &str,
        policy: Option<&str>,
        among: impl IntoIterator<Item = u16>,
    ) -> Result<String> {
        let names: Vec<String> = among
            .into_iter()
            .map(|number| format!("node-{number}"))
            .collect();
        let is_one = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": names});
        let terms = json!({"nodeSelectorTerms": [{"matchExpressions": [is_one]}]});
        let number = CHOICES.fetch_add(1, Ordering::Relaxed);
        let mut pod = bare_pod("choice", number, cpu);
        if let Some(policy) = policy {
            pod["metadata"]["annotations"] = json!({POLICY_ANNOTATION: policy});
        }
        pod["spec"]["schedulerName"] = scheduler.name.clone().into();
        pod["spec"]["affinity"] =
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
        self.create::<Pod>(pod).await?;
        let placed = self.placed("app=choice", 1).await?;
        let node = placed.first().map(|pod| node_of(pod).to_owned());
        self.clear("choice").await?;
        node.context("it is on a node")
    }

    /// The replica that kube-scheduler calls.
    pub(crate) async fn replica(&self) -> Result<Replica> {
        replica(&self.own).await
    }

    /// The answer of the REST API of load-watcher: status and body.
    pub(crate) async fn load_watcher(&self, path: &str) -> Result<(u16, String)> {
        let address = (self.replica().await?.address, LOAD_WATCHER_PORT);
        let mut connection = TcpStream::connect(address).await?;
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: load-watcher:2020\r\nUser-Agent: Go-http-client/1.1\r\nConnection: close\r\n\r\n"
        );
        connection.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await?;
        let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
        let status = head.split(' ').nth(1).context("no status")?.parse()?;
        Ok((status, body.to_owned()))
    }

    /// Creates the workloads with their VPA objects, waits until all pods are on nodes, returns the
    /// load of each node and deletes the workloads.
    pub(crate) async fn place(&self, scheduler: &str) -> Result<Placement> {
        for (name, cpu, replicas) in WORKLOADS {
            let annotations = usage(cpu, "64Mi");
            let mut deployment = workload(name, replicas, &requests("1", "64Mi"), &annotations);
            let pod = &mut deployment["spec"]["template"]["spec"];
            pod["schedulerName"] = scheduler.into();
            pod["terminationGracePeriodSeconds"] = 0.into();
            if self.list::<Vpa>().await?.len() < WORKLOADS.len() {
                self.recommend(name, cpu).await?;
            }
            self.create::<Deployment>(deployment).await?;
        }
        let count = WORKLOADS.iter().map(|(.., replicas)| replicas).sum();
        let names = WORKLOADS.map(|(name, ..)| name).join(",");
        let selector = format!("app in ({names})");
        self.placed(&selector, count).await?;
        let pods: Vec<Pod> = self.typed().list(&ListParams::default()).await?.items;
        let placement = Placement::of(&pods)?;
        for (name, ..) in WORKLOADS {
            self.delete::<Deployment>(name).await?;
        }
        self.no_pods(&selector).await?;
        Ok(placement)
    }

    /// A VPA object with the recommendation that the usage leads to.
    async fn recommend(&self, name: &str, cpu: &str) -> Result<()> {
        let spec = json!({"targetRef": target("Deployment", name)});
        self.make::<Vpa>(name, spec).await?;
        let amounts = json!({"cpu": cpu, "memory": "64Mi"});
        let containers = json!([{"containerName": "app", "target": amounts}]);
        let status = json!({"recommendation": {"containerRecommendations": containers}});
        self.patch_status::<Vpa>(name, &status).await?;
        Ok(())
    }

    /// Creates pods without a controller, waits until all are on nodes and returns how many each
    /// node has.
    pub(crate) async fn burst(&self, name: &str, count: usize) -> Result<BTreeMap<String, usize>> {
        let made = (0..count).map(|number| {
            let mut pod = bare_pod(name, number, "1");
            pod["spec"]["schedulerName"] = self.load_aware.name.clone().into();
            self.create::<Pod>(pod)
        });
        in_parallel(PARALLEL, made).await?;
        let mut nodes = BTreeMap::new();
        for pod in self.placed(&format!("app={name}"), count).await? {
            *nodes.entry(node_of(&pod).to_owned()).or_insert(0) += 1;
        }
        Ok(nodes)
    }

    /// Deletes the pods of a burst.
    pub(crate) async fn clear(&self, name: &str) -> Result<()> {
        let labels = format!("app={name}");
        let params = ListParams::default().labels(&labels);
        let pods = self.typed::<Pod>();
        pods.delete_collection(&DeleteParams::default(), &params)
            .await?;
        self.no_pods(&labels).await
    }

    /// The pods with these labels, once this number is on nodes.
    async fn placed(&self, labels: &str, count: usize) -> Result<Vec<Pod>> {
        eventually(&format!("{count} pods are on nodes"), async || {
            let pods = self.pods(labels).await?;
            let placed = pods.iter().filter(|pod| !node_of(pod).is_empty()).count();
            ensure!(placed == count, "{placed} of {}", pods.len());
            Ok(pods)
        })
        .await
    }

    async fn pods(&self, labels: &str) -> kube::Result<Vec<Pod>> {
        let params = ListParams::default().labels(labels);
        Ok(self.typed::<Pod>().list(&params).await?.items)
    }
}

async fn scheduler(
    sandbox: &Sandbox,
    own: &Namespace,
    name: &str,
    path: &str,
) -> Result<Scheduler> {
    let mut configuration = with_extender(sandbox, &replica(own).await?).await?;
    let extender = &mut configuration["extenders"][0];
    let url = extender["urlPrefix"].as_str().context("there is a URL")?;
    extender["urlPrefix"] = format!("{url}{path}").into();
    extender["filterVerb"] = "filter".into();
    // A busy machine answers late, and a late answer would be without load.
    extender["httpTimeout"] = "10s".into();
    Scheduler::start(sandbox, name, configuration)
}

async fn replica(own: &Namespace) -> Result<Replica> {
    let mut all = replicas(&own.client, EXTENDER).await?;
    all.sort_by(|one, other| one.pod.cmp(&other.pod));
    all.into_iter().next().context("no replica")
}

/// Creates pods that are bound already and use much more than they request, but on [`HONEST`].
async fn make_load(own: &Namespace) -> Result<()> {
    let made = (0..NODES).map(|number| {
        let cpu = match number {
            ..LOADED => "20",
            99 => "100m",
            _ => "5",
        };
        let requests = if number == HONEST { "16" } else { "100m" };
        let mut pod = bare_pod("load", number.into(), requests);
        pod["metadata"]["annotations"] = usage(cpu, "32Mi");
        pod["spec"]["nodeName"] = format!("node-{number}").into();
        own.create::<Pod>(pod)
    });
    Ok(in_parallel(PARALLEL, made).await?)
}

/// CPU utilization of the nodes by what the pods on them use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Placement {
    /// Standard deviation, in percent of a node's CPU.
    pub(crate) deviation: f64,
    /// Number of nodes above [`HOT_PERCENT`].
    pub(crate) hot: usize,
    /// Largest utilization in percent.
    pub(crate) max: f64,
    /// Average utilization in percent.
    pub(crate) mean: f64,
}

impl Placement {
    fn of(pods: &[Pod]) -> Result<Self> {
        let mut used: BTreeMap<String, f64> = (0..NODES)
            .map(|number| (format!("node-{number}"), 0.0))
            .collect();
        for pod in pods {
            let Some(cpu) = pod.annotations().get(CPU_ANNOTATION) else {
                continue;
            };
            *used.get_mut(node_of(pod)).context("an unknown node")? += cores(cpu)?;
        }
        let percents: Vec<f64> = used
            .values()
            .map(|cores| 100.0 * cores / NODE_CORES)
            .collect();
        let count = percents.len() as f64;
        let mean = percents.iter().sum::<f64>() / count;
        let variance = percents.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / count;
        Ok(Self {
            deviation: variance.sqrt(),
            hot: percents.iter().filter(|it| **it > HOT_PERCENT).count(),
            max: percents.iter().copied().fold(0.0, f64::max),
            mean,
        })
    }
}

fn cores(quantity: &str) -> Result<f64> {
    Ok(match quantity.strip_suffix('m') {
        Some(milli) => milli.parse::<f64>()? / 1000.0,
        None => quantity.parse()?,
    })
}
