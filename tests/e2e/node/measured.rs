//! Usage of pods as metrics-server reports it, and the recommendations that follow from it.

use anyhow::{Context as _, Result};
use api::vpa::VerticalPodAutoscaler as Vpa;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use model::Quantity;
use serde_json::Value;

use super::fixture::Fixture;

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
