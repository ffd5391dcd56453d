//! References to workloads and containers.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Reference to a workload: the owner of pods and the target of an autoscaler.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadRef {
    /// Group and version, such as `apps/v1`; empty if omitted.
    #[serde(default)]
    pub api_version: String,
    /// Kind, such as `Deployment`.
    pub kind: String,
    /// Namespace of the workload.
    pub namespace: String,
    /// Name of the workload.
    pub name: String,
}

impl WorkloadRef {
    /// Without group and version, since references to the same workload may omit them or differ in
    /// them.
    #[must_use]
    pub fn of_any_version(self) -> Self {
        Self {
            api_version: String::new(),
            ..self
        }
    }
}

impl fmt::Display for WorkloadRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// Borrowed [`WorkloadRef`]. Both hash alike, so that either finds the other in a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Workload<'a> {
    /// Group and version.
    pub api_version: &'a str,
    /// Kind.
    pub kind: &'a str,
    /// Namespace.
    pub namespace: &'a str,
    /// Name.
    pub name: &'a str,
}

impl Workload<'_> {
    /// Converts to an owned reference.
    pub fn to_ref(self) -> WorkloadRef {
        let [api_version, kind, namespace, name] =
            [self.api_version, self.kind, self.namespace, self.name].map(str::to_owned);
        WorkloadRef {
            api_version,
            kind,
            namespace,
            name,
        }
    }

    /// Without group and version, since references to the same workload may omit them or differ in
    /// them.
    #[must_use]
    pub fn of_any_version(self) -> Self {
        Self {
            api_version: "",
            ..self
        }
    }
}

impl<'a> From<&'a WorkloadRef> for Workload<'a> {
    fn from(workload: &'a WorkloadRef) -> Self {
        let WorkloadRef {
            api_version,
            kind,
            namespace,
            name,
        } = workload;
        Self {
            api_version,
            kind,
            namespace,
            name,
        }
    }
}

/// Reference to one container of one pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContainerRef {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub pod: String,
    /// Name of the container.
    pub container: String,
}

impl fmt::Display for ContainerRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.namespace, self.pod, self.container)
    }
}
