//! `v1beta2` of `VerticalPodAutoscaler`: `v1` without later additions.
//!
//! Upstream lists it, unserved, so that a server which once stored objects in it still accepts the
//! definition.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceValidation, JSONSchemaProps, JSONSchemaPropsOrArray,
};

/// Fields of `v1` that `v1beta2` lacks. `[]` denotes the items of a list.
const ADDED_IN_V1: [&str; 14] = [
    "spec.recommenders",
    "spec.startupBoost",
    "spec.updatePolicy.evictAfterOOMSeconds",
    "spec.updatePolicy.evictionRequirements",
    "spec.updatePolicy.minReplicas",
    "spec.resourcePolicy.containerPolicies.[].controlledResources",
    "spec.resourcePolicy.containerPolicies.[].controlledValues",
    "spec.resourcePolicy.containerPolicies.[].memoryAggregationIntervalCount",
    "spec.resourcePolicy.containerPolicies.[].memoryAggregationIntervalSeconds",
    "spec.resourcePolicy.containerPolicies.[].oomBumpUpRatio",
    "spec.resourcePolicy.containerPolicies.[].oomMinBumpUp",
    "spec.resourcePolicy.containerPolicies.[].startupBoost",
    "status.observedGeneration",
    "status.conditions.[].observedGeneration",
];

const UPDATE_MODES: [&str; 4] = ["Off", "Initial", "Recreate", "Auto"];

/// Derives the schema of `v1beta2` from that of `v1`.
pub(super) fn vertical_pod_autoscaler(
    v1: Option<CustomResourceValidation>,
) -> Option<CustomResourceValidation> {
    let mut schema = v1?.open_api_v3_schema?;
    for path in ADDED_IN_V1 {
        remove(&mut schema, path);
    }
    if let Some(modes) =
        at(&mut schema, "spec.updatePolicy.updateMode").and_then(|mode| mode.enum_.as_mut())
    {
        modes.retain(|mode| {
            mode.0
                .as_str()
                .is_some_and(|name| UPDATE_MODES.contains(&name))
        });
    }
    Some(CustomResourceValidation {
        open_api_v3_schema: Some(schema),
    })
}

fn remove(schema: &mut JSONSchemaProps, path: &str) {
    if let Some((parent, field)) = path.rsplit_once('.')
        && let Some(properties) = at(schema, parent).and_then(|parent| parent.properties.as_mut())
    {
        properties.remove(field);
    }
}

fn at<'a>(schema: &'a mut JSONSchemaProps, path: &str) -> Option<&'a mut JSONSchemaProps> {
    path.split('.').try_fold(schema, |schema, step| match step {
        "[]" => match schema.items.as_mut()? {
            JSONSchemaPropsOrArray::Schema(items) => Some(items.as_mut()),
            JSONSchemaPropsOrArray::Schemas(_) => None,
        },
        field => schema.properties.as_mut()?.get_mut(field),
    })
}
