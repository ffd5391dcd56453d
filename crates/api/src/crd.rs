//! The `CustomResourceDefinition`s generated from the types.
//!
//! The types give the schema of `v1`. This module adds what derives cannot express: upstream still
//! lists an unserved `v1beta2`; optional fields may be absent but not `null`; upstream's kinds have
//! no defaults, ours and Crane's show theirs to users. `make manifests` writes the result into
//! `deploy/crds`, and a golden test compares them.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition, CustomResourceDefinitionVersion,
    CustomResourceValidation, JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
    ValidationRule,
};
use kube::CustomResourceExt;
use serde_json::Value;

use crate::checkpoint::VerticalPodAutoscalerCheckpoint;
use crate::ehpa::{DEFAULT_PREDICTION_WINDOW_SECONDS, EffectiveHorizontalPodAutoscaler};
use crate::prediction::TimeSeriesPrediction;
use crate::sizing_policy::{ClusterSizingPolicy, MAX_NAME, SizingPolicy};
use crate::substitute::Substitute;
use crate::vpa::VerticalPodAutoscaler;

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
        schema: v1beta2_schema(v1.schema.clone()),
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

/// `effectivehorizontalpodautoscalers.autoscaling.crane.io`.
pub fn effective_horizontal_pod_autoscaler() -> CustomResourceDefinition {
    let mut definition = from_type::<EffectiveHorizontalPodAutoscaler>();
    for (field, default) in [
        ("spec.minReplicas", Value::from(1)),
        ("spec.scaleStrategy", "Auto".into()),
        (
            "spec.prediction.predictionWindowSeconds",
            DEFAULT_PREDICTION_WINDOW_SECONDS.into(),
        ),
    ] {
        set_default(&mut definition, field, &default);
    }
    definition
}

/// `substitutes.autoscaling.crane.io`.
pub fn substitute() -> CustomResourceDefinition {
    from_type::<Substitute>()
}

/// `timeseriespredictions.prediction.crane.io`.
pub fn time_series_prediction() -> CustomResourceDefinition {
    from_type::<TimeSeriesPrediction>()
}

/// `sizingpolicies.plimsoll.dev`.
pub fn sizing_policy() -> CustomResourceDefinition {
    of_policy::<SizingPolicy>()
}

/// `clustersizingpolicies.plimsoll.dev`.
pub fn cluster_sizing_policy() -> CustomResourceDefinition {
    of_policy::<ClusterSizingPolicy>()
}

/// Name, type and field of the columns that kubectl shows of our own kinds, the last one with `-o wide`.
const POLICY_COLUMNS: [(&str, &str, &str); 7] = [
    ("Mode", "string", ".spec.updateMode"),
    ("Selected", "integer", ".status.selected"),
    ("Managed", "integer", ".status.managed"),
    ("Conflicts", "integer", ".status.conflicts"),
    (
        "Ready",
        "string",
        ".status.conditions[?(@.type=='Ready')].status",
    ),
    ("Age", "date", ".metadata.creationTimestamp"),
    ("Overridden", "integer", ".status.overridden"),
];

/// The definition of one of our own kinds, with its columns and a rule for the object's name.
fn of_policy<K: CustomResourceExt>() -> CustomResourceDefinition {
    let mut definition = from_type::<K>();
    set_default(&mut definition, "spec.updateMode", &"Off".into());
    let columns = POLICY_COLUMNS.map(|(name, type_, json_path)| CustomResourceColumnDefinition {
        name: name.to_owned(),
        type_: type_.to_owned(),
        json_path: json_path.to_owned(),
        priority: (name == "Overridden").then_some(1),
        ..CustomResourceColumnDefinition::default()
    });
    for version in &mut definition.spec.versions {
        version.additional_printer_columns = Some(columns.to_vec());
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
    }
    definition
}

fn set_default(definition: &mut CustomResourceDefinition, field: &str, default: &Value) {
    let schemas = definition.spec.versions.iter_mut().filter_map(schema_of);
    for field in schemas.filter_map(|schema| at(schema, field)) {
        field.default = Some(JSON(default.clone()));
    }
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
            add_object_fields(schema);
            normalise(schema);
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

/// Adds `apiVersion`, `kind` and `metadata`, which every object has, for `kubectl explain`.
fn add_object_fields(object: &mut JSONSchemaProps) {
    let fields = [
        (
            "apiVersion",
            "string",
            Some("Group and version of this object's schema."),
        ),
        ("kind", "string", Some("Kind of this object.")),
        ("metadata", "object", None),
    ];
    for (name, kind, description) in fields {
        let field = JSONSchemaProps {
            description: description.map(str::to_owned),
            ..of_type(kind)
        };
        object
            .properties
            .get_or_insert_default()
            .insert(name.to_owned(), field);
    }
}

/// Brings a schema of schemars into the form of controller-gen: optional fields may be absent but
/// not `null`, and have no default. Only times may be `null`. An integer-or-string schema also
/// lists both types in `anyOf`, as the server requires.
fn normalise(schema: &mut JSONSchemaProps) {
    if schema.format.as_deref() != Some("date-time") {
        schema.nullable = None;
    }
    schema.default = None;
    schema.title = None;
    if schema.x_kubernetes_int_or_string == Some(true) {
        schema.any_of = Some(["integer", "string"].map(of_type).into());
    }
    for property in schema
        .properties
        .iter_mut()
        .flat_map(|properties| properties.values_mut())
    {
        normalise(property);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        normalise(items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        normalise(values);
    }
}

fn of_type(name: &str) -> JSONSchemaProps {
    JSONSchemaProps {
        type_: Some(name.to_owned()),
        ..JSONSchemaProps::default()
    }
}

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

/// Derives the schema of `v1beta2` from that of `v1`: without later additions. Upstream lists it, unserved,
/// so that a server which once stored objects in it still accepts the definition.
fn v1beta2_schema(v1: Option<CustomResourceValidation>) -> Option<CustomResourceValidation> {
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
