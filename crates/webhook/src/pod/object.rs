//! A pod as a review holds it: only what can change the answer, and every map may be absent or null.

use std::collections::BTreeMap;

use model::Labels;
use serde::Deserialize;

use crate::review::Requirements;

/// A pod that is being created.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Pod {
    pub(crate) metadata: Metadata,
    pub(crate) spec: Spec,
    pub(crate) status: Option<Status>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Metadata {
    pub(crate) namespace: Option<String>,
    pub(crate) labels: Option<Labels>,
    pub(crate) annotations: Option<BTreeMap<String, String>>,
    pub(crate) owner_references: Option<Vec<Owner>>,
}

#[derive(Debug, Default, Clone, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Owner {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) controller: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Spec {
    pub(crate) containers: Vec<Container>,
    pub(crate) init_containers: Option<Vec<Container>>,
    /// What all containers may have together.
    pub(crate) resources: Option<Requirements>,
}

/// A container of a pod.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Container {
    pub(crate) name: String,
    resources: Option<Requirements>,
    restart_policy: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Status {
    container_statuses: Option<Vec<ContainerStatus>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ContainerStatus {
    name: String,
    resources: Option<Requirements>,
}

impl Pod {
    /// The resources of a container in effect: what the kubelet reports, else what it is written with.
    pub(crate) fn effective<'a>(&'a self, container: &'a Container) -> &'a Requirements {
        let statuses = self.status.iter().flat_map(|status| &status.container_statuses).flatten();
        let status = statuses.into_iter().find(|status| status.name == container.name);
        status.and_then(|status| status.resources.as_ref()).unwrap_or(container.resources())
    }

    /// Whether a kubelet reports about it already.
    pub(crate) fn runs(&self) -> bool {
        self.status.as_ref().is_some_and(|status| status.container_statuses.is_some())
    }

    /// How many containers it has, of those that are sized or might be.
    pub(crate) fn container_count(&self) -> usize {
        self.spec.containers.len().saturating_add(self.spec.init_containers.as_ref().map_or(0, Vec::len))
    }

    /// The controller that is making it.
    pub(crate) fn owner(&self) -> Option<&Owner> {
        self.metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
    }
}

impl Container {
    /// What it is written with.
    pub(crate) fn resources(&self) -> &Requirements {
        const NONE: &Requirements = &Requirements { requests: None, limits: None };
        self.resources.as_ref().unwrap_or(NONE)
    }

    /// Whether it is an init container that runs beside the others.
    pub(crate) fn is_sidecar(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }
}
