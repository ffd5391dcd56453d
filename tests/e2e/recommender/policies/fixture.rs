//! One namespace of workloads, policies and autoscalers.

use anyhow::{Context as _, Result, ensure};
use api::sizing_policy::{ClusterSizingPolicy, SizingPolicy};
use api::vpa::VerticalPodAutoscaler;
use e2e::eventually;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::events::v1::Event;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
};
use kube::{Api, Client, Resource};
use serde_json::{Value, json};

use super::base::PATIENCE;
use super::is_ready;

/// One namespace. Its policies are for the recommender of these tests unless they are said to be
/// another's.
pub(super) struct PolicyRoom {
    pub(super) client: Client,
    pub(super) namespace: String,
    recommender: &'static str,
    autoscalers: Api<DynamicObject>,
    policies: Api<DynamicObject>,
    cluster_policies: Api<DynamicObject>,
}

impl PolicyRoom {
    pub(super) fn new(client: Client, namespace: &str) -> Self {
        let loose =
            |resource: &ApiResource| Api::namespaced_with(client.clone(), namespace, resource);
        Self {
            autoscalers: loose(&ApiResource::erase::<VerticalPodAutoscaler>(&())),
            policies: loose(&ApiResource::erase::<SizingPolicy>(&())),
            cluster_policies: Api::all_with(
                client.clone(),
                &ApiResource::erase::<ClusterSizingPolicy>(&()),
            ),
            namespace: namespace.to_owned(),
            recommender: "e2e",
            client,
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
        let labels = json!({"app": name});
        let template = json!({
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "app", "image": "registry.example.com/app"}]},
        });
        let deployment = json!({
            "metadata": {"name": name, "labels": {"tier": tier}},
            "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
        });
        self.deployments()
            .create(&PostParams::default(), &serde_json::from_value(deployment)?)
            .await?;
        Ok(())
    }

    pub(super) async fn label(&self, deployment: &str, tier: &str) -> Result<()> {
        let patch = Patch::Merge(json!({"metadata": {"labels": {"tier": tier}}}));
        self.deployments()
            .patch(deployment, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    fn deployments(&self) -> Api<Deployment> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// A VPA of a user, for a recommender that does not run: no program changes it.
    pub(super) async fn by_hand(&self, name: &str, target: &str) -> Result<Value> {
        let object = json!({
            "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
            "metadata": {"name": name, "labels": {"app.kubernetes.io/managed-by": "hand"}},
            "spec": {
                "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": target},
                "recommenders": [{"name": "not-running"}],
            },
        });
        let made = self
            .autoscalers
            .create(&PostParams::default(), &serde_json::from_value(object)?)
            .await?;
        Ok(serde_json::to_value(made)?)
    }

    pub(super) async fn policy(&self, name: &str, spec: &Value) -> Result<()> {
        create::<SizingPolicy>(&self.policies, name, spec, self.recommender).await
    }

    pub(super) async fn cluster_policy(&self, name: &str, spec: &Value) -> Result<()> {
        create::<ClusterSizingPolicy>(&self.cluster_policies, name, spec, self.recommender).await
    }

    pub(super) async fn patch_policy(&self, name: &str, patch: &Value) -> Result<()> {
        self.policies
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        Ok(())
    }

    pub(super) async fn delete_policy(&self, name: &str) -> Result<()> {
        self.policies.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    pub(super) async fn delete_cluster_policy(&self, name: &str) -> Result<()> {
        self.cluster_policies
            .delete(name, &DeleteParams::default())
            .await?;
        Ok(())
    }

    /// The policy, once its status is about its present form and `is_so` accepts it.
    pub(super) async fn policy_when(
        &self,
        name: &str,
        what: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        when(&self.policies, name, what, is_so).await
    }

    /// The policy, if `is_so` accepts its status.
    pub(super) async fn policy_now(
        &self,
        name: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        now(&self.policies, name, is_so).await
    }

    pub(super) async fn cluster_policy_when(
        &self,
        name: &str,
        what: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        when(&self.cluster_policies, name, what, is_so).await
    }

    pub(super) async fn autoscaler(&self, name: &str) -> Result<Value> {
        Ok(serde_json::to_value(self.autoscalers.get(name).await?)?)
    }

    pub(super) async fn autoscaler_when(
        &self,
        name: &str,
        what: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        eventually(what, PATIENCE, async || {
            let object = self.autoscaler(name).await?;
            ensure!(is_so(&object), "{object:#}");
            Ok(object)
        })
        .await
    }

    pub(super) async fn autoscalers(&self) -> Result<Vec<Value>> {
        let list = self.autoscalers.list(&ListParams::default()).await?;
        Ok(list
            .items
            .into_iter()
            .map(serde_json::to_value)
            .collect::<Result<_, _>>()?)
    }

    pub(super) async fn names(&self) -> Result<Vec<String>> {
        let list = self
            .autoscalers
            .list_metadata(&ListParams::default())
            .await?;
        Ok(list.items.iter().map(kube::ResourceExt::name_any).collect())
    }

    pub(super) async fn await_names(&self, expected: &[&str]) -> Result<()> {
        eventually(
            "there are these autoscalers and no others",
            PATIENCE,
            async || {
                let names = self.names().await?;
                ensure!(names == expected, "there are {names:?}");
                Ok(())
            },
        )
        .await
    }

    pub(super) async fn patch(&self, autoscaler: &str, patch: &Value) -> Result<()> {
        self.autoscalers
            .patch(autoscaler, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        Ok(())
    }

    pub(super) async fn delete_autoscaler(&self, name: &str) -> Result<()> {
        self.autoscalers
            .delete(name, &DeleteParams::default())
            .await?;
        Ok(())
    }

    /// Waits for an event about a policy of the namespace.
    pub(super) async fn await_event(&self, policy: &str, reason: &str) -> Result<()> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        eventually("an event is recorded", PATIENCE, async || {
            let list = events.list(&ListParams::default()).await?;
            let about = |event: &&Event| {
                event
                    .regarding
                    .as_ref()
                    .and_then(|object| object.name.as_deref())
                    == Some(policy)
            };
            let reasons: Vec<_> = list
                .iter()
                .filter(about)
                .filter_map(|event| event.reason.as_deref())
                .collect();
            ensure!(reasons.contains(&reason), "the events are {reasons:?}");
            Ok(())
        })
        .await
    }
}

async fn create<K: Resource<DynamicType = ()>>(
    api: &Api<DynamicObject>,
    name: &str,
    spec: &Value,
    recommender: &str,
) -> Result<()> {
    let mut spec = spec.clone();
    spec["recommender"] = recommender.into();
    let object = json!({
        "apiVersion": K::api_version(&()), "kind": K::kind(&()), "metadata": {"name": name}, "spec": spec,
    });
    api.create(&PostParams::default(), &serde_json::from_value(object)?)
        .await?;
    Ok(())
}

async fn when(
    api: &Api<DynamicObject>,
    name: &str,
    what: &str,
    is_so: impl Fn(&Value) -> bool,
) -> Result<Value> {
    eventually(what, PATIENCE, async || now(api, name, &is_so).await).await
}

async fn now(
    api: &Api<DynamicObject>,
    name: &str,
    is_so: impl Fn(&Value) -> bool,
) -> Result<Value> {
    let object = api.get(name).await?;
    let generation = object
        .meta()
        .generation
        .context("a policy has a generation")?;
    let object = serde_json::to_value(object)?;
    let status = &object["status"];
    ensure!(
        status["observedGeneration"] == generation && is_so(status),
        "{name}: {status:#}"
    );
    Ok(object)
}

/// Whether the policy is done, with these numbers of selected, managed, conflicting and overridden
/// workloads.
pub(super) fn whole(
    status: &Value,
    selected: i64,
    managed: i64,
    conflicts: i64,
    overridden: i64,
) -> bool {
    let counts =
        ["selected", "managed", "conflicts", "overridden"].map(|field| status[field].as_i64());
    is_ready(status) && counts == [selected, managed, conflicts, overridden].map(Some)
}
