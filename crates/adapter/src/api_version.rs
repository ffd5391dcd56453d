//! The served API versions.

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
