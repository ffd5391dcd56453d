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
    pub namespace: String,
    pub name: String,
}

impl WorkloadRef {
    /// Removes group and version: references to the same workload may omit them or differ in them.
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
    pub api_version: &'a str,
    pub kind: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
}

impl Workload<'_> {
    pub fn to_ref(self) -> WorkloadRef {
        WorkloadRef {
            api_version: self.api_version.to_owned(),
            kind: self.kind.to_owned(),
            namespace: self.namespace.to_owned(),
            name: self.name.to_owned(),
        }
    }

    /// Removes group and version: references to the same workload may omit them or differ in them.
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
        Self {
            api_version: &workload.api_version,
            kind: &workload.kind,
            namespace: &workload.namespace,
            name: &workload.name,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContainerRef {
    pub namespace: String,
    pub pod: String,
    pub container: String,
}

impl fmt::Display for ContainerRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.namespace, self.pod, self.container)
    }
}
