//! The `CustomResourceDefinition`s generated from the types.
//!
//! The types give the schema of `v1`. This module adds what derives cannot express: upstream still
//! lists an unserved `v1beta2`; optional fields may be absent but not `null`; upstream's kinds have
//! no defaults. `make manifests` writes the result into `deploy/crds`, and a golden test compares
//! them.

mod crane;
mod policy;
mod schema_normalisation;
mod v1beta2;
mod yaml;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion, JSONSchemaProps,
};
use kube::CustomResourceExt;

use crate::{checkpoint::VerticalPodAutoscalerCheckpoint, vpa::VerticalPodAutoscaler};

pub use crane::{effective_horizontal_pod_autoscaler, substitute, time_series_prediction};
pub use policy::{cluster_sizing_policy, sizing_policy};
pub use yaml::{Manifest, manifests};

/// All definitions of this crate.
pub fn all() -> Vec<CustomResourceDefinition> {
    vec![
        vertical_pod_autoscaler(),
        vertical_pod_autoscaler_checkpoint(),
        sizing_policy(),
        cluster_sizing_policy(),
        effective_horizontal_pod_autoscaler(),
        substitute(),
        time_series_prediction(),
    ]
}

/// `verticalpodautoscalers.autoscaling.k8s.io`: `v1`, and an unserved, deprecated `v1beta2`.
pub fn vertical_pod_autoscaler() -> CustomResourceDefinition {
    let mut definition = from_type::<VerticalPodAutoscaler>();
    add_version(&mut definition, |v1| CustomResourceDefinitionVersion {
        deprecated: Some(true),
        deprecation_warning: Some("autoscaling.k8s.io/v1beta2 API is deprecated".to_owned()),
        additional_printer_columns: None,
        schema: v1beta2::vertical_pod_autoscaler(v1.schema.clone()),
        ..unserved_v1beta2(v1)
    });
    definition
}

/// `verticalpodautoscalercheckpoints.autoscaling.k8s.io`: `v1`, and the same schema as an unserved
/// `v1beta2`. Without a status subresource: the status is written with the object.
pub fn vertical_pod_autoscaler_checkpoint() -> CustomResourceDefinition {
    let mut definition = from_type::<VerticalPodAutoscalerCheckpoint>();
    for version in &mut definition.spec.versions {
        version.subresources = None;
        // A checkpoint without a spec is valid, as upstream.
        if let Some(schema) = schema_of(version) {
            schema.required = None;
        }
    }
    add_version(&mut definition, unserved_v1beta2);
    definition
}

/// The derived definition in upstream's shape.
fn from_type<K: CustomResourceExt>() -> CustomResourceDefinition {
    let mut definition = K::crd();
    let names = &mut definition.spec.names;
    names.list_kind = Some(format!("{}List", names.kind));
    names.categories = None;
    for version in &mut definition.spec.versions {
        version.selectable_fields = None;
        version.additional_printer_columns = version
            .additional_printer_columns
            .take()
            .filter(|list| !list.is_empty());
        if let Some(schema) = schema_of(version) {
            schema_normalisation::add_object_fields(schema);
            schema_normalisation::normalise(schema);
        }
    }
    definition
}

fn add_version(
    definition: &mut CustomResourceDefinition,
    from_v1: impl Fn(&CustomResourceDefinitionVersion) -> CustomResourceDefinitionVersion,
) {
    let added: Vec<_> = definition.spec.versions.iter().map(from_v1).collect();
    definition.spec.versions.extend(added);
}

fn unserved_v1beta2(v1: &CustomResourceDefinitionVersion) -> CustomResourceDefinitionVersion {
    CustomResourceDefinitionVersion {
        name: "v1beta2".to_owned(),
        served: false,
        storage: false,
        ..v1.clone()
    }
}

fn schema_of(version: &mut CustomResourceDefinitionVersion) -> Option<&mut JSONSchemaProps> {
    version.schema.as_mut()?.open_api_v3_schema.as_mut()
}
