//! VPA objects and sizing policies: bounds whose unit is probably a slip, and history that is missing.

use api::vpa::FETCHING_HISTORY;
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

/// The minor version of Kubernetes 1 from which on pods have resources as a whole. Older ones drop them.
const FIRST_WITH_WHOLE_PODS: u32 = 34;

/// Sentences about objects.
#[derive(Clone, Debug, Default)]
pub(crate) struct ObjectFacts {
    /// Bounds whose unit is probably a slip.
    pub(crate) unit_slips: Vec<String>,
    /// Conditions that say that the history is missing.
    pub(crate) missing_history: Vec<String>,
    /// Objects that size pods as a whole.
    pub(crate) whole_pods: Vec<String>,
    /// Policies that no recommender has read.
    pub(crate) unread: Vec<String>,
}

/// Reads the objects of the installed definitions.
pub(super) async fn read(
    cluster: &Cluster,
    definitions: &Read<Vec<CustomResourceDefinition>>,
) -> Read<ObjectFacts> {
    let definitions = definitions.as_ref().map_err(Clone::clone)?;
    let mut facts = ObjectFacts::default();
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
            let sentence = |about| format!("{name}: {about}");
            facts.unit_slips.extend(slips_of.map(sentence));
            let missing = missing_history(&object).into_iter();
            facts.missing_history.extend(missing.map(sentence));
            if object.data["spec"]["resourcePolicy"]["podPolicy"]["mode"] == "Auto" {
                facts.whole_pods.push(name.clone());
            }
            let has_report = object.data["status"]["observedGeneration"].is_i64();
            if names.kind.ends_with("SizingPolicy") && !has_report {
                facts.unread.push(name.clone());
            }
        };
        let api = cluster.dynamic(&resource, None);
        let read = each(&api, &ListParams::default(), visit).await;
        read.map_err(unread(&names.plural))?;
    }
    Ok(facts)
}

/// Most sentences in a message.
const MAX_SHOWN: usize = 5;

pub(super) fn judge(facts: &Facts, findings: &mut Findings) {
    findings.category = "objects";
    let judged = |sentences: fn(&ObjectFacts) -> &[String], hint: &str| -> Verdict {
        match sentences(facts.objects.as_ref()?) {
            [] => Ok(String::new()),
            some => warn(first_names(some, MAX_SHOWN), hint),
        }
    };
    let title = "minAllowed and maxAllowed have usual amounts";
    findings.add(
        "units",
        title,
        judged(|it| &it.unit_slips, "Correct the units"),
    );
    let title = "VPA objects have their history";
    let hint = "Wait, or mend what the condition FetchingHistory names (docs/history.md)";
    findings.add("history", title, judged(|it| &it.missing_history, hint));
    let minor = facts.version.minor.trim_end_matches('+').parse();
    let has_whole_pods = minor.is_ok_and(|minor: u32| minor >= FIRST_WITH_WHOLE_PODS);
    let title = "Kubernetes has the resources of whole pods that objects size";
    let hint = "Update Kubernetes to 1.34, or size the containers (containerPolicies)";
    let whole_pods = if has_whole_pods {
        Ok(String::new())
    } else {
        judged(|it| &it.whole_pods, hint)
    };
    findings.add("whole-pods", title, whole_pods);
    let title = "sizing policies are read by a recommender";
    let hint = "Set recommender.sizingPolicies, or start the recommender that spec.recommender names (docs/sizing.md)";
    findings.add("policies", title, judged(|it| &it.unread, hint));
}

/// The condition of a VPA object whose history could not be fetched yet.
fn missing_history(object: &DynamicObject) -> Option<String> {
    let mut conditions = items(&object.data["status"]["conditions"]);
    let missing = conditions.find(|it| it["type"] == FETCHING_HISTORY && it["status"] == "True")?;
    Some(missing["message"].as_str().unwrap_or_default().to_owned())
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

    #[test]
    fn a_history_that_is_missing_is_told_by_the_condition() {
        let check = |status: &str, expected: Option<&str>| {
            let condition =
                json!({"type": FETCHING_HISTORY, "status": status, "message": "no answer"});
            let object =
                json!({"metadata": {"name": "web"}, "status": {"conditions": [condition]}});
            let object = serde_json::from_value(object).expect("an object");
            assert_eq!(missing_history(&object).as_deref(), expected);
        };
        check("True", Some("no answer"));
        check("False", None);
    }
}
