//! Additions to the derived definitions of our own kinds: the default shown to users, and a rule
//! for the object's name.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps, ValidationRule,
};

use super::{from_type, schema_of};
use crate::sizing_policy::{ClusterSizingPolicy, MAX_NAME, SizingPolicy};

/// `sizingpolicies.plimsoll.dev`.
pub fn sizing_policy() -> CustomResourceDefinition {
    finished(from_type::<SizingPolicy>())
}

/// `clustersizingpolicies.plimsoll.dev`.
pub fn cluster_sizing_policy() -> CustomResourceDefinition {
    finished(from_type::<ClusterSizingPolicy>())
}

fn finished(mut definition: CustomResourceDefinition) -> CustomResourceDefinition {
    for version in &mut definition.spec.versions {
        let Some(schema) = schema_of(version) else {
            continue;
        };
        schema.x_kubernetes_validations = Some(vec![ValidationRule {
            rule: format!("size(self.metadata.name) <= {MAX_NAME}"),
            message: Some(format!(
                "the name has at most {MAX_NAME} characters: it becomes the value of a label"
            )),
            ..ValidationRule::default()
        }]);
        if let Some(mode) = field(schema, "spec").and_then(|spec| field(spec, "updateMode")) {
            mode.default = Some(JSON("Off".into()));
        }
    }
    definition
}

fn field<'a>(schema: &'a mut JSONSchemaProps, name: &str) -> Option<&'a mut JSONSchemaProps> {
    schema.properties.as_mut()?.get_mut(name)
}
