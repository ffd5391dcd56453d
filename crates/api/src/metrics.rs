//! `PodMetrics` of `metrics.k8s.io/v1beta1`, as metrics-server and other providers of that API answer it. Read only.
//!
//! Source: `k8s.io/metrics/pkg/apis/metrics/v1beta1/types.go`. A resource that is missing, or that does not parse, is
//! `None` and never 0: a zero would be a sample, and upstream's recommender takes it for one.

use std::borrow::Cow;

use k8s_openapi::{
    NamespaceResourceScope,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::Resource;
use model::Quantity;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Usage of a pod's containers over one window.
#[derive(Deserialize, Clone, Debug, PartialEq)]
pub struct PodMetrics {
    /// Name, namespace and labels of the pod.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// End of the window.
    pub timestamp: Time,
    /// Length of the window as Go writes durations, such as `10.062s`.
    #[serde(default)]
    pub window: String,
    /// The containers that were measured.
    #[serde(default)]
    pub containers: Vec<ContainerMetrics>,
}

/// Usage of one container.
#[derive(Deserialize, Clone, Debug, PartialEq)]
pub struct ContainerMetrics {
    /// Name of the container.
    pub name: String,
    /// What it used.
    #[serde(default)]
    pub usage: Usage,
}

/// What a container used. A resource that was not measured is `None`.
#[derive(Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct Usage {
    /// CPU, in cores, averaged over the window.
    #[serde(deserialize_with = "tolerant")]
    pub cpu: Option<Quantity>,
    /// Memory working set, in bytes, at the end of the window.
    #[serde(deserialize_with = "tolerant")]
    pub memory: Option<Quantity>,
}

/// One value that does not parse must not cost the metrics of all pods in the answer.
fn tolerant<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Quantity>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(Option::<Quantity>::deserialize(value).ok().flatten())
}

impl Resource for PodMetrics {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "PodMetrics".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "metrics.k8s.io".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1beta1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "pods".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
