//! Scale subresources of custom kinds, as the API server returned them.

use std::hash::{DefaultHasher, Hash, Hasher};

use model::Workload;

use crate::workload_controller::Owner;

/// Key of the scale subresource of one object, whatever the version of its kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScaleKey {
    /// API group, empty for the core group.
    pub group: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scale {
    Found {
        /// Label selector of its pods, unparsed; empty if absent.
        selector: String,
        /// Controller of the object, if the scale carries it.
        owner: Option<Owner>,
        replicas: Option<i32>,
    },
    /// The object does not exist, or its kind has no scale subresource.
    NotFound {
        /// Message of the API server.
        reason: String,
        /// Whether the kind has a scale subresource.
        kind_has_scale: bool,
    },
    Failed {
        reason: String,
        /// Whether a retry may help: the API server was unreachable or overloaded.
        transient: bool,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadScale {
    pub key: ScaleKey,
    pub scale: Scale,
    /// The owner's live pods at the time of the request.
    pub pods: PodSet,
}

/// Fingerprint of the live pods of one owner; it changes with each pod that is added or removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PodSet(u64);

impl PodSet {
    pub fn add(&mut self, uid: &str) {
        let mut hasher = DefaultHasher::new();
        uid.hash(&mut hasher);
        self.0 = self.0.wrapping_add(hasher.finish());
    }
}

impl Scale {
    /// Whether it is a failure that may pass.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Failed { transient, .. } if *transient)
    }

    /// Whether the API server answered that the object does not exist.
    pub fn is_object_missing(&self) -> bool {
        matches!(self, Self::NotFound { kind_has_scale, .. } if *kind_has_scale)
    }

    /// Reason why the kind cannot be read: it is not installed, has no scale subresource, or is
    /// forbidden. `None` for answers about the object, and for failures that may pass.
    pub fn unavailable_kind(&self) -> Option<&str> {
        match self {
            Self::NotFound {
                kind_has_scale: false,
                ..
            } => Some("it has no scale subresource"),
            Self::Failed {
                reason,
                transient: false,
            } => Some(reason),
            _ => None,
        }
    }
}

impl ScaleKey {
    /// Returns the key of a workload's scale subresource. Fails if its `apiVersion` is neither a
    /// version nor `group/version`.
    pub fn of<'a>(workload: impl Into<Workload<'a>>) -> Result<Self, String> {
        let Workload {
            api_version,
            kind,
            namespace,
            name,
        } = workload.into();
        let group = match api_version.split('/').collect::<Vec<_>>().as_slice() {
            [_version] => "",
            [group, _version] => *group,
            _ => return Err(format!("unexpected GroupVersion string: {api_version}")),
        };
        let [group, kind, namespace, name] = [group, kind, namespace, name].map(str::to_owned);
        Ok(Self {
            group,
            kind,
            namespace,
            name,
        })
    }
}
