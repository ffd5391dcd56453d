//! Requests for metrics, parsed from their URLs.

use delegated_auth::Rejection;
use model::Selector;
use sources::rules::QueryError;

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

/// Errors of requests, which become `Status` responses. The HPA controller treats them alike: it
/// shows the message in a condition and an event, and never scales down because of one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StatusError {
    /// The metric does not exist, or its last value is too old.
    #[error("{0}")]
    NotFound(String),
    #[error("{0}")]
    BadRequest(String),
    #[error("{0}")]
    Forbidden(String),
    #[error("Unauthorized")]
    Unauthorized,
    /// The provider of the metric cannot be reached.
    #[error("{0}")]
    Unavailable(String),
    /// The provider of the metric does not answer in time.
    #[error("{0}")]
    Timeout(String),
    #[error("too many requests at once")]
    TooManyRequests,
    #[error("the server does not allow this method on the requested resource")]
    MethodNotAllowed,
    /// A defect of the adapter.
    #[error("{0}")]
    InternalError(String),
}

impl From<Rejection> for StatusError {
    fn from(rejection: Rejection) -> Self {
        match rejection {
            Rejection::Unauthorized => Self::Unauthorized,
            Rejection::Forbidden(message) => Self::Forbidden(message),
            Rejection::TooManyRequests => Self::TooManyRequests,
        }
    }
}

impl From<QueryError> for StatusError {
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::Nothing => Self::NotFound(error.to_string()),
            QueryError::Wrong(why) => Self::BadRequest(why),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiVersion {
    CustomV1Beta2,
    CustomV1Beta1,
    External,
}

impl ApiVersion {
    /// All versions, the preferred one of each group first.
    pub const ALL: [Self; 3] = [Self::CustomV1Beta2, Self::CustomV1Beta1, Self::External];

    pub fn of(group: &str, version: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|other| other.group() == group && other.version() == version)
    }

    /// Parses a name such as `external.metrics.k8s.io/v1beta1`.
    pub fn named(name: &str) -> Option<Self> {
        name.split_once('/')
            .and_then(|(group, version)| Self::of(group, version))
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::CustomV1Beta2 => "custom.metrics.k8s.io/v1beta2",
            Self::CustomV1Beta1 => "custom.metrics.k8s.io/v1beta1",
            Self::External => "external.metrics.k8s.io/v1beta1",
        }
    }

    pub const fn group(self) -> &'static str {
        match self {
            Self::CustomV1Beta2 | Self::CustomV1Beta1 => "custom.metrics.k8s.io",
            Self::External => "external.metrics.k8s.io",
        }
    }

    pub const fn version(self) -> &'static str {
        match self {
            Self::CustomV1Beta2 => "v1beta2",
            Self::CustomV1Beta1 | Self::External => "v1beta1",
        }
    }

    pub const fn list_kind(self) -> &'static str {
        match self {
            Self::CustomV1Beta2 | Self::CustomV1Beta1 => "MetricValueList",
            Self::External => "ExternalMetricValueList",
        }
    }

    /// The resource that stands for all metrics in discovery. Discovery of every single metric
    /// would be too large, and no client needs it.
    pub const fn placeholder(self) -> &'static str {
        match self {
            Self::CustomV1Beta2 | Self::CustomV1Beta1 => "custommetrics",
            Self::External => "externalmetrics",
        }
    }
}
