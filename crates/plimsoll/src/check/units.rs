//! Bounds of VPA objects and sizing policies whose unit is probably a slip.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt as _;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use model::{ResourceList, unit_slip};
use serde::Deserialize as _;

use super::facts::Facts;
use super::finding::{Findings, Read, Verdict, unread, warn};
use crate::cluster::{Cluster, each};
use crate::json::items;
use crate::output::first_names;

/// Kinds with a `resourcePolicy`.
const KINDS: [&str; 3] = [
    "VerticalPodAutoscaler",
    "SizingPolicy",
    "ClusterSizingPolicy",
];

/// Reads the objects of the installed definitions.
pub(super) async fn read(
    cluster: &Cluster,
    definitions: &Read<Vec<CustomResourceDefinition>>,
) -> Read<Vec<String>> {
    let definitions = definitions.as_ref().map_err(Clone::clone)?;
    let mut slips = Vec::new();
    for definition in definitions {
        let (names, group) = (&definition.spec.names, &definition.spec.group);
        let stored = definition.spec.versions.iter().find(|it| it.storage);
        let (true, Some(version)) = (KINDS.contains(&names.kind.as_str()), stored) else {
            continue;
        };
        let kind = GroupVersionKind::gvk(group, &version.name, &names.kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, &names.plural);
        let visit = |object: DynamicObject| {
            let slips_of = unit_slips(&object).into_iter();
            let name = object.name_any();
            let name = match object.namespace() {
                Some(namespace) => format!("{} {namespace}/{name}", names.kind),
                None => format!("{} {name}", names.kind),
            };
            slips.extend(slips_of.map(|slip| format!("{name}: {slip}")));
        };
        let api = cluster.dynamic(&resource, None);
        let read = each(&api, &ListParams::default(), visit).await;
        read.map_err(unread(&names.plural))?;
    }
    Ok(slips)
}

/// Most bounds in a message.
const MAX_SHOWN: usize = 5;

pub(super) fn judge(facts: &Facts, findings: &mut Findings) {
    findings.category = "objects";
    let title = "minAllowed and maxAllowed have usual amounts";
    findings.add("units", title, usual_amounts(facts));
}

fn usual_amounts(facts: &Facts) -> Verdict {
    match facts.unit_slips.as_ref()?.as_slice() {
        [] => Ok(String::new()),
        slips => warn(first_names(slips, MAX_SHOWN), "Correct the units"),
    }
}

/// Sentences about the bounds of an object, each with its field.
fn unit_slips(object: &DynamicObject) -> Vec<String> {
    let mut slips = Vec::new();
    let policies = items(&object.data["spec"]["resourcePolicy"]["containerPolicies"]);
    for (index, policy) in policies.enumerate() {
        for field in ["minAllowed", "maxAllowed"] {
            let bounds = ResourceList::deserialize(&policy[field]).unwrap_or_default();
            slips.extend(bounds.iter().filter_map(|(resource, quantity)| {
                let slip = unit_slip(resource, quantity)?;
                Some(format!(
                    "spec.resourcePolicy.containerPolicies[{index}].{field}[{resource}]: {slip}"
                ))
            }));
        }
    }
    slips
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn slips_of_units_are_found_with_their_field() {
        let policies = json!([
            {"containerName": "a", "minAllowed": {"cpu": "250m", "memory": "1Gi"}},
            {"containerName": "b", "minAllowed": {"cpu": "250"}, "maxAllowed": {"memory": "512m"}},
            {"containerName": "c", "maxAllowed": "none"},
        ]);
        let object = json!({
            "metadata": {"name": "web"},
            "spec": {"resourcePolicy": {"containerPolicies": policies}},
        });
        let object = serde_json::from_value(object).expect("an object");
        let path = "spec.resourcePolicy.containerPolicies[1]";
        assert_eq!(
            unit_slips(&object),
            [
                format!(
                    "{path}.minAllowed[cpu]: \"250\" is 250 cores; millicores have the suffix m"
                ),
                format!(
                    "{path}.maxAllowed[memory]: \"512m\" is 0.512 bytes; mebibytes have the suffix Mi"
                ),
            ]
        );
    }
}
