//! What a client asks for, as its URL says it.

use model::Selector;

pub use sources::rules::GroupResource;

/// A question for a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// To `custom.metrics.k8s.io`: a metric of objects.
    Custom(CustomAsk),
    /// To `external.metrics.k8s.io`: a metric that belongs to no object.
    External(ExternalAsk),
}

impl Ask {
    /// The namespace of the question; none for objects of the whole cluster.
    pub fn namespace(&self) -> Option<&str> {
        match self {
            Self::Custom(ask) => ask.namespace.as_deref(),
            Self::External(ask) => Some(&ask.namespace),
        }
    }
}

/// A question for a metric of objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomAsk {
    /// Where the objects are; none for objects of the whole cluster, and for a namespace itself.
    pub namespace: Option<String>,
    /// Of which kind they are. A namespace itself is `namespaces` of the core group.
    pub resource: GroupResource,
    /// Which ones.
    pub subject: Subject,
    /// The name of the metric.
    pub metric: String,
    /// Which series of the metric (`metricLabelSelector`).
    pub metric_selector: Selector,
}

/// Which objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// The one with this name.
    Named(String),
    /// Those with these labels.
    Selected(Selector),
}

/// A question for a metric that belongs to no object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalAsk {
    /// The namespace of whoever asks.
    pub namespace: String,
    /// The name of the metric.
    pub metric: String,
    /// Which series of the metric (`labelSelector`).
    pub selector: Selector,
}
