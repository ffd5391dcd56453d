//! One namespace of workloads and VPA objects, what the recommender makes of them, and a reader of its
//! feed, with the client certificate of another program.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::{FEED_SERVER, Namespace, eventually, feed_tls, requests, target, usage, with};
use feed::Reader;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Event;
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client, ResourceExt as _};
use runtime::follow_leader;
use rustls_pki_types::ServerName;
use serde_json::{Value, json};
use tokio::sync::watch;

/// Conditions of an object whose target has no pods.
pub(crate) const WITHOUT_PODS: [[&str; 4]; 2] = {
    let (reason, message) = ("NoPodsMatched", "No pods match this VPA object");
    [
        [reason, "True", reason, message],
        ["RecommendationProvided", "False", reason, message],
    ]
};

pub(crate) struct Fixture(Namespace);

e2e::deref_to_namespace!(Fixture, 0);

impl Fixture {
    pub(crate) async fn new(client: Client, prefix: &str) -> Result<Self> {
        Ok(Self(Namespace::new(client, prefix).await?))
    }

    /// A namespace that is there already.
    pub(crate) fn of(client: Client, namespace: &str) -> Self {
        Self(Namespace::of(client, namespace))
    }

    /// A Deployment with one container `app` whose pods use `cpu` and `memory`.
    pub(crate) async fn deploy(
        &self,
        name: &str,
        replicas: usize,
        cpu: &str,
        memory: &str,
    ) -> Result<()> {
        let (requests, usage) = (requests("100m", "100Mi"), usage(cpu, memory));
        self.0.deploy(name, replicas, &requests, &usage).await?;
        Ok(())
    }

    /// A VPA object of a Deployment for the recommender of these tests.
    pub(crate) async fn autoscale(&self, name: &str, deployment: &str) -> Result<()> {
        self.autoscale_with(name, deployment, json!({})).await
    }

    /// The same with `extra` in its spec.
    pub(crate) async fn autoscale_with(
        &self,
        name: &str,
        deployment: &str,
        extra: Value,
    ) -> Result<()> {
        let target = target("Deployment", deployment);
        self.autoscale_any(name, &target, extra).await
    }

    /// The same of a target of any kind.
    pub(crate) async fn autoscale_any(
        &self,
        name: &str,
        target: &Value,
        extra: Value,
    ) -> Result<()> {
        let spec = json!({"targetRef": target, "recommenders": [{"name": "e2e"}]});
        let metadata = json!({"name": name, "labels": {"target": target["name"]}});
        self.create::<Vpa>(json!({"metadata": metadata, "spec": with(spec, extra)}))
            .await?;
        Ok(())
    }

    /// Writes the event that a kubelet writes when it evicts a pod of a Deployment because memory
    /// is short.
    pub(crate) async fn report_eviction(
        &self,
        deployment: &str,
        containers: &str,
        usage: &str,
    ) -> Result<()> {
        let pods = self.pods_of(deployment).await?;
        let pod = pods.first().context("it has a pod")?.name_any();
        let annotations = json!({"offending_containers": containers, "offending_containers_usage": usage, "starved_resource": "memory"});
        self.create::<Event>(json!({
            "metadata": {"generateName": format!("{pod}."), "annotations": annotations},
            "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": self.namespace, "name": pod},
            "reason": "Evicted",
            "type": "Warning",
            "message": "The node was low on resource: memory.",
        }))
        .await?;
        Ok(())
    }

    pub(crate) async fn child_of(&self, deployment: &str) -> Result<String> {
        let (children, params) = (self.typed::<ReplicaSet>(), labelled("app", deployment));
        eventually("the Deployment has a ReplicaSet", async || {
            let list = children.list(&params).await?;
            Ok(list.items.first().context("none yet")?.name_any())
        })
        .await
    }

    /// Number of objects for `target` whose first container has this CPU target.
    pub(crate) async fn count_with_target(&self, target: &str, cpu: &str) -> Result<usize> {
        let list = self.api::<Vpa>().list(&labelled("target", target)).await?;
        let has_target =
            |object: &&DynamicObject| first_container(&object.data)["target"]["cpu"] == cpu;
        Ok(list.iter().filter(has_target).count())
    }

    /// The object once its first container has this target.
    pub(crate) async fn targets(&self, name: &str, resource: &str, amount: &str) -> Result<Value> {
        let what = format!("the {resource} target is {amount}");
        self.when::<Vpa>(name, &what, |object| {
            first_container(object)["target"][resource] == amount
        })
        .await
    }

    /// Waits until the conditions are these: type, status, reason and message.
    pub(crate) async fn await_conditions(&self, name: &str, expected: &[[&str; 4]]) -> Result<()> {
        let what = format!("the conditions are {expected:?}");
        self.when::<Vpa>(name, &what, |object| conditions(object) == expected)
            .await
            .map(drop)
    }

    /// Waits until the object says that its target cannot be used, and why.
    pub(crate) async fn is_unsupported(&self, name: &str, why: &str) -> Result<()> {
        let unsupported = ["ConfigUnsupported", "True", "", why];
        let expected = [&[unsupported], &WITHOUT_PODS[..]].concat();
        self.await_conditions(name, &expected).await
    }
}

fn labelled(label: &str, value: &str) -> ListParams {
    ListParams::default().labels(&format!("{label}={value}"))
}

pub(crate) fn first_container(object: &Value) -> &Value {
    &object["status"]["recommendation"]["containerRecommendations"][0]
}

/// Type, status, reason and message of every condition.
pub(crate) fn conditions(object: &Value) -> Vec<[&str; 4]> {
    let list = object["status"]["conditions"].as_array();
    let text = |condition| {
        let condition: &Value = condition;
        ["type", "status", "reason", "message"].map(|field| condition[field].as_str().unwrap_or(""))
    };
    list.into_iter().flatten().map(text).collect()
}

/// The Lease of a leader without shards.
pub(crate) const LEASE: &str = "vpa-recommender-lease";

pub(crate) async fn reader(client: &Client) -> Result<Reader> {
    let (found, leader) = watch::channel(None);
    let leases: Api<Lease> = Api::namespaced(client.clone(), "plimsoll-system");
    tokio::spawn(follow_leader(leases, LEASE, found));
    reader_of(client, vec![leader]).await
}

pub(crate) async fn reader_of(
    client: &Client,
    leaders: Vec<watch::Receiver<Option<String>>>,
) -> Result<Reader> {
    let config = feed_tls(client).await?;
    Ok(Reader {
        leaders,
        tls: Arc::new(move || Arc::clone(&config)),
        server_name: ServerName::try_from(FEED_SERVER)?,
    })
}
