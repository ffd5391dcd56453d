//! The three API versions that are served.

/// One version of one API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiVersion {
    /// `custom.metrics.k8s.io/v1beta2`.
    CustomV1Beta2,
    /// `custom.metrics.k8s.io/v1beta1`.
    CustomV1Beta1,
    /// `external.metrics.k8s.io/v1beta1`.
    External,
}

impl ApiVersion {
    /// All, the preferred one of each group first.
    pub const ALL: [Self; 3] = [Self::CustomV1Beta2, Self::CustomV1Beta1, Self::External];

    /// The one of this group and version.
    pub fn of(group: &str, version: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|known| known.group() == group && known.version() == version)
    }

    /// The one of this name, such as `external.metrics.k8s.io/v1beta1`.
    pub fn named(name: &str) -> Option<Self> {
        name.split_once('/')
            .and_then(|(group, version)| Self::of(group, version))
    }

    /// The name, as objects bear it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CustomV1Beta2 => "custom.metrics.k8s.io/v1beta2",
            Self::CustomV1Beta1 => "custom.metrics.k8s.io/v1beta1",
            Self::External => "external.metrics.k8s.io/v1beta1",
        }
    }

    /// The group.
    pub const fn group(self) -> &'static str {
        match self {
            Self::CustomV1Beta2 | Self::CustomV1Beta1 => "custom.metrics.k8s.io",
            Self::External => "external.metrics.k8s.io",
        }
    }

    /// The version within the group.
    pub const fn version(self) -> &'static str {
        match self {
            Self::CustomV1Beta2 => "v1beta2",
            Self::CustomV1Beta1 | Self::External => "v1beta1",
        }
    }

    /// What is answered to a question.
    pub const fn list_kind(self) -> &'static str {
        match self {
            Self::CustomV1Beta2 | Self::CustomV1Beta1 => "MetricValueList",
            Self::External => "ExternalMetricValueList",
        }
    }

    /// The resource that discovery shows in place of all metrics, which may be very many and are
    /// not looked up there by anybody.
    pub const fn placeholder(self) -> &'static str {
        match self {
            Self::CustomV1Beta2 | Self::CustomV1Beta1 => "custommetrics",
            Self::External => "externalmetrics",
        }
    }
}
