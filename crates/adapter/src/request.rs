//! Requests for metrics, parsed from their URLs.

use model::Selector;

pub use sources::rules::GroupResource;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetricRequest {
    /// A request to `custom.metrics.k8s.io`, for a metric of objects.
    Custom(CustomMetricRequest),
    /// A request to `external.metrics.k8s.io`, for a metric without an object.
    External(ExternalMetricRequest),
}

impl MetricRequest {
    /// The namespace of the request; `None` at the cluster scope.
    pub fn namespace(&self) -> Option<&str> {
        match self {
            Self::Custom(request) => request.namespace.as_deref(),
            Self::External(request) => Some(&request.namespace),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomMetricRequest {
    /// The namespace of the objects; `None` for cluster-scoped objects, and for a namespace itself.
    pub namespace: Option<String>,
    /// The resource of the objects; `namespaces` of the core group for a namespace itself.
    pub resource: GroupResource,
    pub objects: ObjectSelector,
    pub metric: String,
    /// The selector of the metric's series (`metricLabelSelector`).
    pub metric_selector: Selector,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObjectSelector {
    Name(String),
    Labels(Selector),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalMetricRequest {
    pub namespace: String,
    pub metric: String,
    /// The selector of the metric's series (`labelSelector`).
    pub selector: Selector,
}

#[cfg(test)]
impl ExternalMetricRequest {
    pub(crate) fn new(namespace: &str, metric: &str, selector: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            metric: metric.to_owned(),
            selector: selector.parse().expect("a selector"),
        }
    }
}
