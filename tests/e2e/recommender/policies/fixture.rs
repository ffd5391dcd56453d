//! One namespace of workloads, policies and autoscalers, and a recommender as a process of the test, with
//! the rights of one service account.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use api::sizing_policy::{ClusterSizingPolicy, SizingPolicy};
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::process::command;
use e2e::{Namespace, eventually, free_address, is_true, target, until, workload};
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::ListParams;
use kube::{Client, Resource, ResourceExt};
use serde_json::{Value, json};
use tokio::process::Child;

/// One namespace. Its policies are for the recommender of these tests unless they are said to be
/// another's.
pub(super) struct PolicyFixture {
    own: Namespace,
    cluster: Namespace,
    recommender: &'static str,
}

e2e::deref_to_namespace!(PolicyFixture, own);

impl PolicyFixture {
    pub(super) fn of(client: Client, namespace: &str) -> Self {
        Self {
            own: Namespace::of(client.clone(), namespace),
            cluster: Namespace::cluster(client),
            recommender: "e2e",
        }
    }

    pub(super) fn of_recommender(self, recommender: &'static str) -> Self {
        Self {
            recommender,
            ..self
        }
    }

    /// A Deployment without pods and with the label `tier`.
    pub(super) async fn deploy(&self, name: &str, tier: &str) -> Result<()> {
        let mut deployment = workload(name, 0, &json!({}), &json!({}));
        deployment["metadata"]["labels"] = json!({"tier": tier});
        self.create::<Deployment>(deployment).await?;
        Ok(())
    }

    pub(super) async fn label(&self, deployment: &str, tier: &str) -> Result<()> {
        let labels = json!({"metadata": {"labels": {"tier": tier}}});
        self.patch::<Deployment>(deployment, labels).await?;
        Ok(())
    }

    /// A VPA of a user, for a recommender that does not run: no program changes it.
    pub(super) async fn by_hand(&self, name: &str, deployment: &str) -> Result<Value> {
        let object = json!({
            "metadata": {"name": name, "labels": {"app.kubernetes.io/managed-by": "hand"}},
            "spec": {"targetRef": target("Deployment", deployment), "recommenders": [{"name": "not-running"}]},
        });
        Ok(self.create::<Vpa>(object).await?)
    }

    pub(super) async fn policy(&self, name: &str, mut spec: Value) -> Result<()> {
        spec["recommender"] = self.recommender.into();
        self.make::<SizingPolicy>(name, spec).await?;
        Ok(())
    }

    pub(super) async fn cluster_policy(&self, name: &str, mut spec: Value) -> Result<()> {
        spec["recommender"] = self.recommender.into();
        self.cluster.make::<ClusterSizingPolicy>(name, spec).await?;
        Ok(())
    }

    pub(super) async fn delete_cluster_policy(&self, name: &str) -> Result<()> {
        self.cluster.delete::<ClusterSizingPolicy>(name).await?;
        Ok(())
    }

    /// The policy, once its status is about its present form and `is_so` accepts it.
    pub(super) async fn policy_when(
        &self,
        name: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        when::<SizingPolicy>(&self.own, name, is_so).await
    }

    pub(super) async fn cluster_policy_when(
        &self,
        name: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        when::<ClusterSizingPolicy>(&self.cluster, name, is_so).await
    }

    /// The policy, once it is done with these numbers of selected, managed, conflicting and
    /// overridden workloads.
    pub(super) async fn counts(&self, name: &str, counts: [i64; 4]) -> Result<Value> {
        self.policy_when(name, |status| has_counts(status, counts))
            .await
    }

    pub(super) async fn cluster_counts(&self, name: &str, counts: [i64; 4]) -> Result<Value> {
        self.cluster_policy_when(name, |status| has_counts(status, counts))
            .await
    }

    pub(super) async fn names(&self) -> Result<Vec<String>> {
        let params = ListParams::default();
        let list = self.api::<Vpa>().list_metadata(&params).await?;
        Ok(list.items.iter().map(ResourceExt::name_any).collect())
    }

    pub(super) async fn await_names(&self, expected: &[&str]) -> Result<()> {
        until(
            "there are these autoscalers and no others",
            async || self.names().await,
            |names| *names == expected,
        )
        .await
    }
}

async fn when<K: Resource<DynamicType = ()>>(
    namespace: &Namespace,
    name: &str,
    is_so: impl Fn(&Value) -> bool,
) -> Result<Value> {
    eventually(&format!("the policy {name} is as expected"), async || {
        let object = namespace.get::<K>(name).await?;
        let generation = object["metadata"]["generation"].as_i64();
        let generation = generation.context("a policy has a generation")?;
        let status = &object["status"];
        let is_current = status["observedGeneration"] == generation;
        ensure!(is_current && is_so(status), "{name}: {status:#}");
        Ok(object)
    })
    .await
}

fn has_counts(status: &Value, counts: [i64; 4]) -> bool {
    let found =
        ["selected", "managed", "conflicts", "overridden"].map(|field| status[field].as_i64());
    is_true(status, "Ready") && found == counts.map(Some)
}

/// Starts one, which is killed when it is dropped.
pub(super) fn start(kubeconfig: &Path, arguments: &[&str], log: &Path) -> Result<Child> {
    command("recommender", kubeconfig, log)?
        .arg(format!("--address={}", free_address()?))
        .args(["--leader-elect=false", "--recommender-interval=1s"])
        .args(arguments)
        .spawn()
        .context("start a recommender")
}
