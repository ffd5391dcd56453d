//! `CustomResourceDefinition`s: presence, served versions and fields.

use std::collections::BTreeMap;

use api::vpa::VerticalPodAutoscaler;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion, JSONSchemaProps,
    JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::Resource as _;

use super::Extent;
use crate::check::facts::Facts;
use crate::check::finding::{Findings, Verdict, error, warn};
use crate::output::first_names;

/// Most names of missing fields in a message.
const MAX_NAMES: usize = 3;

/// Fields of VPA objects that upstream has only in a proposal. Its definition, which an installation may keep, has
/// none of them.
const PROPOSED: [&str; 2] = [
    "spec.resourcePolicy.podPolicy",
    "status.recommendation.podRecommendations",
];

pub(super) fn judge(facts: &Facts, extent: Extent, findings: &mut Findings) {
    findings.category = "definitions";
    for ours in api::crd::all() {
        let name = ours.metadata.name.as_deref().unwrap_or_default();
        let title = format!("{name} is up to date");
        let verdict = compared(&ours, facts, extent);
        findings.add(format!("definition-{name}"), title, verdict);
    }
}

fn compared(ours: &CustomResourceDefinition, facts: &Facts, extent: Extent) -> Verdict {
    let mut definitions = facts.definitions.as_ref()?.iter();
    let found = definitions.find(|one| one.metadata.name == ours.metadata.name);
    let remedy = "Run kubectl apply -k deploy/crds";
    match (found.map(|found| difference(ours, found)), extent) {
        (None, Extent::Before) => Ok("not installed yet".to_owned()),
        (None, Extent::Installed) => error("the CustomResourceDefinition is missing", remedy),
        (Some(None), _) => Ok(String::new()),
        (Some(Some(difference)), Extent::Before) => warn(
            format!("another version is installed: {difference}"),
            "The installation replaces it; its objects stay valid",
        ),
        (Some(Some(difference)), Extent::Installed) => error(difference, remedy),
    }
}

fn difference(ours: &CustomResourceDefinition, found: &CustomResourceDefinition) -> Option<String> {
    for version in ours.spec.versions.iter().filter(|version| version.served) {
        let has_name = |one: &&CustomResourceDefinitionVersion| one.name == version.name;
        let served = found.spec.versions.iter().filter(|one| one.served);
        let Some(found) = served.clone().find(has_name) else {
            return Some(format!("version {} is not served", version.name));
        };
        let schema = |version: &CustomResourceDefinitionVersion| {
            version.schema.as_ref()?.open_api_v3_schema.clone()
        };
        let (Some(wanted), Some(found)) = (schema(version), schema(found)) else {
            continue;
        };
        let mut missing = Vec::new();
        compare(&wanted, &found, "", &mut missing);
        if ours.spec.group == VerticalPodAutoscaler::group(&()) {
            missing.retain(|path| !PROPOSED.contains(&path.as_str()));
        }
        if !missing.is_empty() {
            let fields = first_names(&missing, MAX_NAMES);
            return Some(format!("version {} has no field {fields}", version.name));
        }
    }
    None
}

/// Adds the paths of fields that `found` lacks.
fn compare(
    wanted: &JSONSchemaProps,
    found: &JSONSchemaProps,
    path: &str,
    missing: &mut Vec<String>,
) {
    // Unknown fields are kept, so none is missing.
    if found.x_kubernetes_preserve_unknown_fields == Some(true) {
        return;
    }
    let empty = BTreeMap::new();
    let found_fields = found.properties.as_ref().unwrap_or(&empty);
    for (name, wanted) in wanted.properties.iter().flatten() {
        let path = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        match found_fields.get(name) {
            Some(found) => compare(wanted, found, &path, missing),
            None => missing.push(path),
        }
    }
    if let Some(JSONSchemaPropsOrArray::Schema(wanted)) = &wanted.items
        && let Some(JSONSchemaPropsOrArray::Schema(found)) = &found.items
    {
        compare(wanted, found, &format!("{path}[]"), missing);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(wanted)) = &wanted.additional_properties
        && let Some(JSONSchemaPropsOrBool::Schema(found)) = &found.additional_properties
    {
        compare(wanted, found, &format!("{path}.*"), missing);
    }
}
