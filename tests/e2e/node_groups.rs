//! A `DaemonSet` whose pods use different amounts on two groups of nodes, each with a VPA object: the
//! recommender, the updater and the webhook together.

use anyhow::{Context as _, Result, bail, ensure};
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::deployment::{SUITE, deploy};
use e2e::{Namespace, another_with, condition, eventually, requests, target, usage, workload};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

const NODES: u16 = 4;
/// Usage of the pods of a group, and the target that follows: the end of the bucket and 15 %.
const GROUPS: [(&str, &str, &str); 2] = [("big", "970m", "1168m"), ("small", "240m", "296m")];
const LABEL: &str = "node-group.plimsoll.dev/pool";

/// The pool of a node: those with even numbers are big.
fn pool_of(node: &str) -> &'static str {
    match node.trim_start_matches("node-").parse::<u16>() {
        Ok(number) if number % 2 == 0 => "big",
        _ => "small",
    }
}

fn group(pool: &str) -> (&'static str, &'static str, &'static str) {
    if pool == GROUPS[0].0 {
        GROUPS[0]
    } else {
        GROUPS[1]
    }
}

fn label(pod: &Pod) -> Option<&str> {
    pod.labels().get(LABEL).map(String::as_str)
}

fn node(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

fn cpu_request(pod: &Pod) -> Option<String> {
    let container = pod.spec.as_ref()?.containers.first()?;
    let requests = container.resources.as_ref()?.requests.as_ref()?;
    Some(requests.get("cpu")?.0.clone())
}

struct Fixture {
    own: Namespace,
    cluster: Namespace,
}

e2e::deref_to_namespace!(Fixture, own);

impl Fixture {
    async fn new(client: Client) -> Result<Self> {
        Ok(Self {
            own: Namespace::new(client.clone(), "groups").await?,
            cluster: Namespace::cluster(client),
        })
    }

    /// A VPA object of the `DaemonSet`, or another workload, `logs`.
    async fn autoscale(&self, kind: &str, name: &str, group: &str, label: Value) -> Result<()> {
        let annotations = json!({"plimsoll.dev/node-group": group});
        let metadata = json!({"name": name, "annotations": annotations, "labels": label});
        let spec = json!({"targetRef": target(kind, "logs")});
        self.create::<Vpa>(json!({"metadata": metadata, "spec": spec}))
            .await?;
        Ok(())
    }

    /// Waits until the webhook refuses an object with an invalid group.
    async fn await_refusal(&self) -> Result<()> {
        eventually("an invalid group is refused", async || {
            let wrong = self
                .autoscale("DaemonSet", "wrong", "pool", json!({}))
                .await;
            let Err(error) = wrong else {
                self.delete::<Vpa>("wrong").await?;
                bail!("it was admitted");
            };
            let expected = "metadata.annotations[plimsoll.dev/node-group]: Invalid value: \"pool\"";
            ensure!(error.to_string().contains(expected), "{error}");
            Ok(())
        })
        .await
    }

    /// The pods on nodes. Gives each new one the usage of its group.
    async fn pods(&self) -> Result<Vec<Pod>> {
        let pods = self.pods_of("logs").await?;
        for pod in &pods {
            let (_, cpu, _) = group(pool_of(node(pod).unwrap_or_default()));
            if node(pod).is_some() && !pod.annotations().contains_key("kwok.x-k8s.io/usage-cpu") {
                let change = json!({"metadata": {"annotations": usage(cpu, "300Mi")}});
                self.patch::<Pod>(&pod.name_any(), change).await?;
            }
        }
        Ok(pods)
    }

    /// Waits until each node has a pod with the label of its group. A busy machine may delay the
    /// webhook for a second; then a pod is admitted unchanged, and is created again.
    async fn await_labels(&self) -> Result<()> {
        eventually("each pod has the label of its group", async || {
            let pods = self.pods().await?;
            for pod in &pods {
                let node = node(pod).context("not on a node yet")?;
                if label(pod).is_none() {
                    self.delete::<Pod>(&pod.name_any()).await?;
                }
                ensure!(
                    label(pod) == Some(pool_of(node)),
                    "{node}: {:?}",
                    label(pod)
                );
            }
            ensure!(pods.len() == usize::from(NODES), "{} pods", pods.len());
            Ok(())
        })
        .await
    }

    async fn await_targets(&self) -> Result<()> {
        eventually("each group has its target", async || {
            self.pods().await?;
            for (pool, _, cpu) in GROUPS {
                let object = self.get::<Vpa>(pool).await?;
                let found = &object["status"]["recommendation"]["containerRecommendations"];
                ensure!(found[0]["target"]["cpu"] == cpu, "{pool}: {found}");
            }
            Ok(())
        })
        .await
    }

    /// Waits until each pod has the size of its group, and its label.
    async fn await_sizes(&self) -> Result<()> {
        eventually("each pod has the size of its group", async || {
            let pods = self.pods().await?;
            for pod in &pods {
                let node = node(pod).context("not on a node yet")?;
                let (pool, _, target) = group(pool_of(node));
                let (found, label) = (cpu_request(pod), label(pod));
                ensure!(label == Some(pool), "{node}: {label:?}");
                ensure!(found.as_deref() == Some(target), "{node}: {found:?}");
            }
            ensure!(pods.len() == usize::from(NODES), "{} pods", pods.len());
            Ok(())
        })
        .await
    }

    /// Adds a big node, and returns the pod that is created for it.
    async fn pod_of_new_node(&self, number: u16) -> Result<Pod> {
        let like = self.cluster.get::<Node>("node-0").await?;
        let name = format!("node-{number}");
        let mut labels = like["metadata"]["labels"].clone();
        labels["kubernetes.io/hostname"] = name.as_str().into();
        let path = format!("/metrics/nodes/{name}/metrics/resource");
        let annotations = json!({"metrics.k8s.io/resource-metrics-path": path});
        let mut status = json!({});
        for field in ["allocatable", "capacity"] {
            status[field] = like["status"][field].clone();
        }
        status["addresses"] = json!([
            {"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": name},
        ]);
        let metadata = json!({"name": name, "labels": labels, "annotations": annotations});
        self.cluster
            .create::<Node>(json!({"metadata": metadata, "status": status}))
            .await?;
        eventually(&format!("{name} has a pod"), async || {
            let pods = self.pods().await?;
            let mut pods = pods.into_iter();
            pods.find(|pod| node(pod) == Some(&name))
                .context("none yet")
        })
        .await
    }
}

#[tokio::test]
async fn a_daemon_set_is_sized_per_group_of_nodes() -> Result<()> {
    let sandbox = another_with("groups", |options| options.nodes = NODES).await?;
    deploy(&sandbox, "tests/e2e/node_groups", SUITE).await?;
    let fixture = Fixture::new(sandbox.client().await?).await?;
    for number in 0..NODES {
        let name = format!("node-{number}");
        let change = json!({"metadata": {"labels": {"pool": pool_of(&name)}}});
        fixture.cluster.patch::<Node>(&name, change).await?;
    }
    fixture.await_refusal().await?;
    for (pool, _, _) in GROUPS {
        let group = format!("pool={pool}");
        fixture
            .autoscale("DaemonSet", pool, &group, json!({}))
            .await?;
    }
    // The webhook does not see this one.
    let unseen = json!({"plimsoll.dev/disable-webhook": "true"});
    fixture
        .autoscale("Deployment", "wrong", "pool=big", unseen)
        .await?;
    let mut daemon_set = workload("logs", 1, &requests("100m", "100Mi"), &json!({}));
    daemon_set["spec"]["replicas"] = Value::Null;
    daemon_set["spec"]["template"]["spec"]["nodeSelector"] = json!({"type": "kwok"});
    fixture.create::<DaemonSet>(daemon_set).await?;
    fixture.await_labels().await?;

    fixture.await_targets().await?;
    fixture.await_sizes().await?;

    // Its pod is created within milliseconds.
    let mut born = Vec::new();
    for number in [NODES, NODES + 2, NODES + 4] {
        let pod = fixture.pod_of_new_node(number).await?;
        born.push((label(&pod).map(str::to_owned), cpu_request(&pod)));
        if label(&pod).is_some() {
            break;
        }
    }
    let expected = (Some("big".to_owned()), Some(GROUPS[0].2.to_owned()));
    assert_eq!(born.last(), Some(&expected), "{born:?}");

    let refused = |object: &Value| {
        let condition = condition(&object["status"], "AnnotationRefused");
        let message = condition.and_then(|condition| condition["message"].as_str());
        message.is_some_and(|it| it.contains("the target must be a DaemonSet, not \"Deployment\""))
    };
    fixture
        .when::<Vpa>("wrong", "the annotation is refused", refused)
        .await?;
    sandbox.down().await
}
