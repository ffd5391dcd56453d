//! Which object is meant: a workload, or one container of one pod.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A workload object: what a pod belongs to, and what an autoscaler points at.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadRef {
    /// Group and version, for example `apps/v1`; empty where the writer left it out.
    #[serde(default)]
    pub api_version: String,
    /// For example `Deployment`.
    pub kind: String,
    /// The namespace it lives in.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl WorkloadRef {
    /// The same without group and version, since not everybody who names a workload names them, or
    /// the same ones.
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

/// A [`WorkloadRef`] whose parts are somebody else's. The two hash alike, so that either finds the
/// other.
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
    /// The same, with parts of its own.
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

    /// The same without group and version, since not everybody who names a workload names them, or
    /// the same ones.
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

/// One container of one pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContainerRef {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub pod: String,
    /// The container's name.
    pub container: String,
}

impl fmt::Display for ContainerRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.namespace, self.pod, self.container)
    }
}
