//! A pod in a review: only the fields that can change the decision. Each may be absent or null.

use std::collections::BTreeMap;

use model::WHOLE_POD;
use serde::Deserialize;
use sizing::{ContainerRole, WholeContainer, WholePod};

use crate::patch::ContainerPath;
use crate::review::{Requirements, Text};

const NOTHING: &Requirements = &Requirements {
    requests: None,
    limits: None,
    has_other_fields: false,
};

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
    #[serde(borrow)]
    pub(crate) labels: Option<Labels<'a>>,
    #[serde(borrow)]
    pub(crate) annotations: Option<BTreeMap<Text<'a>, Text<'a>>>,
    pub(crate) owner_references: Option<Vec<Owner<'a>>>,
}

/// Labels. Of duplicate keys the last one counts, as for the API server.
pub(crate) type Labels<'a> = BTreeMap<Text<'a>, Text<'a>>;

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
    node_name: Option<Text<'a>>,
    affinity: Option<Affinity<'a>>,
    /// The resources of the pod as a whole.
    pub(crate) resources: Option<Requirements>,
    os: Option<Os<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Os<'a> {
    #[serde(borrow)]
    name: Text<'a>,
}

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

impl<'t> Pod<'t> {
    /// The resources of a container in effect: those in the status, or else those in the spec.
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

    fn containers(&self) -> impl Iterator<Item = (ContainerRole, ContainerPath, &Container<'t>)> {
        let main = self.spec.containers.iter().enumerate();
        let main = main.map(|(index, container)| {
            let path = ContainerPath::Container(index);
            (ContainerRole::Main, path, container)
        });
        let init = self.spec.init_containers.iter().flatten().enumerate();
        let init = init.map(|(index, container)| {
            let role = match container.restart_policy.as_deref() {
                Some("Always") => ContainerRole::Sidecar,
                _ => ContainerRole::Init,
            };
            (role, ContainerPath::InitContainer(index), container)
        });
        main.chain(init)
    }

    /// All containers, of which these get a size, or the pod as a whole.
    pub(super) fn whole<'a>(&'a self, targets: &[TargetContainer<'_>]) -> WholePod<'a> {
        let is_sized = targets.iter().any(|it| it.path == ContainerPath::Pod);
        // Both are in the same order.
        let mut targets = targets.iter().enumerate().peekable();
        let containers = self.containers();
        let containers = containers.map(|(role, path, container)| WholeContainer {
            role,
            written: self.effective(container).written(),
            size: targets
                .next_if(|(_, target)| target.path == path)
                .map(|(index, _)| index),
        });
        WholePod {
            containers: containers.collect(),
            resources: self.spec.resources.as_ref().map(Requirements::written),
            is_sized,
        }
    }

    /// The resources of the pod as a whole, with the requests that it gets by default.
    pub(super) fn with_default_requests(&self) -> Requirements {
        let written = self.spec.resources.as_ref().unwrap_or(NOTHING);
        let mut all = written.clone();
        if written.limits.is_some() {
            all.requests = Some(self.whole(&[]).default_requests());
        }
        all
    }

    /// Whether the API server refuses resources of the pod as a whole.
    pub(crate) fn is_windows(&self) -> bool {
        self.spec
            .os
            .as_ref()
            .is_some_and(|os| &*os.name == "windows")
    }

    pub(crate) fn has_container_statuses(&self) -> bool {
        self.status
            .as_ref()
            .is_some_and(|status| status.container_statuses.is_some())
    }

    pub(crate) fn container_count(&self) -> usize {
        self.spec
            .containers
            .len()
            .saturating_add(self.spec.init_containers.as_ref().map_or(0, Vec::len))
    }

    /// The node that the pod is bound to, or the only one that its affinity allows by name.
    pub(crate) fn node_name(&self) -> Option<&str> {
        let bound = self
            .spec
            .node_name
            .as_deref()
            .filter(|name| !name.is_empty());
        bound.or_else(|| self.spec.affinity.as_ref()?.node_name())
    }

    pub(crate) fn controller(&self) -> Option<&Owner<'t>> {
        self.metadata
            .owner_references
            .iter()
            .flatten()
            .find(|owner| owner.controller == Some(true))
    }
}

impl Container<'_> {
    pub(crate) fn resources(&self) -> &Requirements {
        self.resources.as_ref().unwrap_or(NOTHING)
    }
}

/// A container, or the pod as a whole, that gets a recommended size.
pub(super) struct TargetContainer<'a> {
    pub(super) path: ContainerPath,
    pub(super) name: &'a str,
    /// The resources as written.
    pub(super) written: &'a Requirements,
    /// The resources in effect.
    pub(super) effective: &'a Requirements,
}

/// A pod that is sized as a whole. `effective` are its resources with the requests that it gets by default.
pub(super) fn whole_pod<'a>(pod: &'a Pod<'_>, effective: &'a Requirements) -> TargetContainer<'a> {
    TargetContainer {
        path: ContainerPath::Pod,
        name: WHOLE_POD,
        written: pod.spec.resources.as_ref().unwrap_or(NOTHING),
        effective,
    }
}

/// The containers of a pod, then its native sidecars if these are sized.
pub(super) fn target_containers<'a>(
    pod: &'a Pod<'_>,
    native_sidecars: bool,
) -> Vec<TargetContainer<'a>> {
    let is_sized = |role: ContainerRole| match role {
        ContainerRole::Main => true,
        ContainerRole::Sidecar => native_sidecars,
        ContainerRole::Init => false,
    };
    let containers = pod.containers().filter(|(role, ..)| is_sized(*role));
    containers
        .map(|(_, path, container)| TargetContainer {
            path,
            name: &container.name,
            written: container.resources(),
            effective: pod.effective(container),
        })
        .collect()
}

/// Required node affinity: only the fields of nodes. The controller of a `DaemonSet` binds each pod
/// to its node by the field `metadata.name`. Source: `k8s.io/kubernetes/pkg/controller/daemon/util`
/// (`ReplaceDaemonSetPodNodeNameNodeAffinity`, `GetTargetNodeName`).
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Affinity<'a> {
    #[serde(borrow)]
    node_affinity: Option<NodeAffinity<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeAffinity<'a> {
    #[serde(borrow, rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Option<NodeSelector<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeSelector<'a> {
    #[serde(borrow)]
    node_selector_terms: Option<Vec<Term<'a>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Term<'a> {
    #[serde(borrow)]
    match_fields: Option<Vec<FieldRequirement<'a>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct FieldRequirement<'a> {
    #[serde(borrow)]
    key: Text<'a>,
    operator: Text<'a>,
    values: Option<Vec<Text<'a>>>,
}

impl Affinity<'_> {
    /// The only node that the affinity allows by name, if it does.
    pub(super) fn node_name(&self) -> Option<&str> {
        let required = self.node_affinity.as_ref()?.required.as_ref()?;
        let [term] = required.node_selector_terms.as_deref()? else {
            return None;
        };
        let mut fields = term.match_fields.iter().flatten();
        let names = fields
            .find(|field| &*field.key == "metadata.name" && &*field.operator == "In")?
            .values
            .as_deref()?;
        match names {
            [name] => Some(name),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn labels_are_found_by_key_and_the_last_of_duplicates_counts() {
        let of_two = r#"{"tier":"back","app":"web"}"#;
        let duplicate = r#"{"app":"web","a":"","app":"\u0041pi"}"#;
        for (json, key, expected) in [
            (of_two, "app", Some("web")),
            (of_two, "tier", Some("back")),
            (of_two, "b", None),
            ("{}", "app", None),
            (duplicate, "app", Some("Api")),
        ] {
            let labels: Labels = serde_json::from_str(json).expect("labels");
            let found = labels.get(key).map(|value| &**value);
            assert_eq!(found, expected, "{key} of {json}");
        }
    }

    fn check(terms: &Value, expected: Option<&str>) {
        let required = json!({"nodeSelectorTerms": terms});
        let affinity = json!({
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required},
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "a"}]},
        });
        let text = affinity.to_string();
        let affinity: Affinity = serde_json::from_str(&text).expect("an affinity");
        assert_eq!(affinity.node_name(), expected, "{terms}");
    }

    #[test]
    fn the_node_is_the_only_one_that_the_affinity_allows() {
        let by = |key: &str, operator: &str, names: &[&str]| {
            let field = json!({"key": key, "operator": operator, "values": names});
            json!({"matchFields": [field], "matchExpressions": [{"key": "a", "operator": "Exists"}]})
        };
        let name = "metadata.name";
        check(&json!([by(name, "In", &["n1"])]), Some("n1"));
        check(&json!([by(name, "In", &["n1", "n2"])]), None);
        check(&json!([by(name, "In", &[])]), None);
        check(&json!([by(name, "NotIn", &["n1"])]), None);
        check(&json!([by("other", "In", &["n1"])]), None);
        let two = json!([by(name, "In", &["n1"]), by(name, "In", &["n2"])]);
        check(&two, None);
        check(&json!([{"matchExpressions": [{"key": "a"}]}]), None);
        check(&json!([]), None);
        check(&json!(null), None);
    }
}
