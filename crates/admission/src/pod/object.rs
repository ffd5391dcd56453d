//! A pod as a review holds it: only what can change the answer, and every map may be absent or
//! null.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

use super::labels::Labels;
use crate::review::{Requirements, Text};

/// A pod that is being created.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Pod<'a> {
    #[serde(borrow)]
    pub(crate) metadata: Metadata<'a>,
    pub(crate) spec: Spec<'a>,
    pub(crate) status: Option<Status<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Metadata<'a> {
    #[serde(borrow)]
    pub(crate) namespace: Option<Text<'a>>,
    pub(crate) labels: Option<Labels<'a>>,
    pub(crate) annotations: Option<Annotations>,
    pub(crate) owner_references: Option<Vec<Owner<'a>>>,
}

/// Annotations, of which nothing is asked but whether there may be any.
#[derive(Debug)]
pub(crate) struct Annotations;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Owner<'a> {
    #[serde(borrow)]
    pub(crate) api_version: Text<'a>,
    pub(crate) kind: Text<'a>,
    pub(crate) name: Text<'a>,
    pub(crate) controller: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Spec<'a> {
    #[serde(borrow)]
    pub(crate) containers: Vec<Container<'a>>,
    pub(crate) init_containers: Option<Vec<Container<'a>>>,
    /// What all containers may have together.
    pub(crate) resources: Option<Requirements>,
}

/// A container of a pod.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Container<'a> {
    #[serde(borrow)]
    pub(crate) name: Text<'a>,
    resources: Option<Requirements>,
    restart_policy: Option<Text<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Status<'a> {
    #[serde(borrow)]
    container_statuses: Option<Vec<ContainerStatus<'a>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ContainerStatus<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    resources: Option<Requirements>,
}

impl<'de> Deserialize<'de> for Annotations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(AnnotationsVisitor)
    }
}

struct AnnotationsVisitor;

impl<'de> Visitor<'de> for AnnotationsVisitor {
    type Value = Annotations;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of strings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Annotations, A::Error> {
        while map.next_entry::<Text<'de>, Text<'de>>()?.is_some() {}
        Ok(Annotations)
    }
}

impl<'t> Pod<'t> {
    /// The resources of a container in effect: what the kubelet reports, else what it is written
    /// with.
    pub(crate) fn effective<'a>(&'a self, container: &'a Container<'_>) -> &'a Requirements {
        let statuses = self
            .status
            .iter()
            .flat_map(|status| &status.container_statuses)
            .flatten();
        let status = statuses
            .into_iter()
            .find(|status| *status.name == *container.name);
        status
            .and_then(|status| status.resources.as_ref())
            .unwrap_or(container.resources())
    }

    /// Whether a kubelet reports about it already.
    pub(crate) fn runs(&self) -> bool {
        self.status
            .as_ref()
            .is_some_and(|status| status.container_statuses.is_some())
    }

    /// How many containers it has, of those that are sized or might be.
    pub(crate) fn container_count(&self) -> usize {
        self.spec
            .containers
            .len()
            .saturating_add(self.spec.init_containers.as_ref().map_or(0, Vec::len))
    }

    /// The controller that is making it.
    pub(crate) fn owner(&self) -> Option<&Owner<'t>> {
        self.metadata
            .owner_references
            .iter()
            .flatten()
            .find(|owner| owner.controller == Some(true))
    }
}

impl Container<'_> {
    /// What it is written with.
    pub(crate) fn resources(&self) -> &Requirements {
        const NONE: &Requirements = &Requirements {
            requests: None,
            limits: None,
            has_others: false,
        };
        self.resources.as_ref().unwrap_or(NONE)
    }

    /// Whether it is an init container that runs beside the others.
    pub(crate) fn is_sidecar(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }
}
