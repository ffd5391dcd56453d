//! A namespace whose workloads EHPAs scale: the recommender reconciles these, the adapter serves
//! their metrics.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::deployed::deploy_these;
use e2e::eventually;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Resource};
use serde_json::{Value, json};

use super::fixture::Fixture;

/// metrics-server takes up to half a minute until it knows a new pod.
pub(crate) const PATIENCE: Duration = Duration::from_mins(3);
/// The labels of the recommender's pods.
pub(crate) const RECOMMENDER: &str = "app.kubernetes.io/name=recommender";
pub(crate) const RECOMMENDER_PORT: u16 = 8942;
pub(crate) const SYSTEM: &str = "plimsoll-system";

pub(crate) struct EhpaFixture(pub(crate) Fixture);

impl EhpaFixture {
    pub(crate) async fn open(prefix: &str) -> Result<Self> {
        let fixture = Fixture::take(prefix).await?;
        let sandbox = fixture.sandbox()?;
        let authority = std::fs::read_to_string(sandbox.authority())?;
        let url = sandbox
            .prometheus_url()
            .context("this sandbox has a Prometheus")?;
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "prometheus"},
            "data": {"url": url, "ca.crt": authority},
        });
        let maps: Api<ConfigMap> = Api::namespaced(fixture.client.clone(), SYSTEM);
        maps.patch("prometheus", &PatchParams::apply("e2e"), &Patch::Apply(map))
            .await?;
        deploy_these(sandbox, "tests/e2e/adapter/recommender", RECOMMENDER).await?;
        Ok(Self(fixture))
    }

    pub(crate) fn api<K: Resource<DynamicType = ()>>(&self) -> Api<DynamicObject> {
        Api::namespaced_with(
            self.0.client.clone(),
            &self.0.namespace,
            &ApiResource::erase::<K>(&()),
        )
    }

    /// A Deployment of this size whose pods request 100 millicores each and use `cpu`.
    pub(crate) async fn deploy(&self, name: &str, replicas: u32, cpu: &str) -> Result<()> {
        let labels = json!({"app": name});
        let usage = json!({"kwok.x-k8s.io/usage-cpu": cpu, "kwok.x-k8s.io/usage-memory": "10Mi"});
        let resources = json!({"requests": {"cpu": "100m", "memory": "10Mi"}});
        let deployment = json!({
            "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels, "annotations": usage},
                    "spec": {"containers": [{"name": "app", "image": "example.com/app", "resources": resources}]},
                },
            },
        });
        let deployments: Api<Deployment> =
            Api::namespaced(self.0.client.clone(), &self.0.namespace);
        deployments
            .create(&PostParams::default(), &serde_json::from_value(deployment)?)
            .await?;
        Ok(())
    }

    /// Applies one of the examples of Crane's documentation as users do.
    pub(crate) async fn apply_documented(&self, example: &str) -> Result<()> {
        let file = e2e::repository().join(format!("tests/e2e/adapter/documented/{example}.yaml"));
        let file = file.to_str().context("the repository's path is text")?;
        self.0
            .kubectl(&["apply", "-n", &self.0.namespace, "-f", file])
            .await?;
        Ok(())
    }

    pub(crate) async fn create<K: Resource<DynamicType = ()>>(
        &self,
        name: &str,
        spec: &Value,
    ) -> Result<()> {
        let kind = ApiResource::erase::<K>(&());
        let object = json!({
            "apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "spec": spec,
        });
        self.api::<K>()
            .create(&PostParams::default(), &serde_json::from_value(object)?)
            .await?;
        Ok(())
    }

    pub(crate) async fn patch<K: Resource<DynamicType = ()>>(
        &self,
        name: &str,
        patch: &Value,
    ) -> Result<()> {
        self.api::<K>()
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        Ok(())
    }

    /// An object once it is as it should be.
    pub(crate) async fn when<K>(
        &self,
        name: &str,
        what: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Result<Value>
    where
        K: Resource<DynamicType = ()>,
    {
        let api = self.api::<K>();
        eventually(what, PATIENCE, async || {
            let object = serde_json::to_value(api.get(name).await?)?;
            ensure!(
                is_so(&object),
                "{name}: {:#} {:#}",
                object["spec"],
                object["status"]
            );
            Ok(object)
        })
        .await
    }

    /// Waits until a Deployment has this number of replicas.
    pub(crate) async fn scaled(
        &self,
        name: &str,
        what: &str,
        is_so: impl Fn(i64) -> bool,
    ) -> Result<Value> {
        self.when::<Deployment>(name, what, |it| {
            it["spec"]["replicas"].as_i64().is_some_and(&is_so)
        })
        .await
    }

    /// Answer of the API server for an external metric of one of the Deployments.
    pub(crate) async fn external(
        &self,
        metric: &str,
        deployment: &str,
        identifier: &str,
    ) -> Result<Value> {
        let namespace = &self.0.namespace;
        let selector = format!(
            "targetKind%3DDeployment%2CtargetName%3D{deployment}%2CtargetNamespace%3D{namespace}%2CresourceIdentifier%3D{identifier}"
        );
        let path = format!(
            "/apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}/{metric}?labelSelector={selector}"
        );
        self.0.get(&path).await
    }
}
