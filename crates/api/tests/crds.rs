//! The custom resource definitions match upstream's shape.

use std::fmt::Write;

use api::crd;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};

/// An integer or a string with the pattern of a quantity.
const QUANTITY: &str = concat!(
    r#"{"anyOf":[{"type":"integer"},{"type":"string"}],"#,
    r#""pattern":"^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|"#,
    r#"([eE](\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$","x-kubernetes-int-or-string":true}"#
);

#[test]
fn the_vertical_pod_autoscaler_has_upstreams_shape() {
    check(
        &crd::vertical_pod_autoscaler(),
        include_str!("upstream/verticalpodautoscalers.txt"),
    );
}

#[test]
fn the_checkpoint_has_upstreams_shape() {
    check(
        &crd::vertical_pod_autoscaler_checkpoint(),
        include_str!("upstream/verticalpodautoscalercheckpoints.txt"),
    );
}

#[test]
fn every_field_is_described() {
    for definition in crd::all() {
        for version in &definition.spec.versions {
            let root = schema(&definition, &version.name);
            walk(root, "", &mut |path, field| {
                let is_described = field
                    .description
                    .as_deref()
                    .is_some_and(|it| !it.is_empty());
                let needs_none = matches!(path, "" | "metadata") || path.ends_with([']', '}']);
                assert!(is_described || needs_none, "{path}");
            });
        }
    }
}

/// The fields that upstream has only in a proposal, and the one whose rule names them.
const PROPOSED: [&str; 3] = [
    ".spec.resourcePolicy ",
    ".spec.resourcePolicy.podPolicy",
    ".status.recommendation.podRecommendations",
];

fn check(definition: &CustomResourceDefinition, expected: &str) {
    let outline = outline(definition).expect("a text");
    let known = |line: &&str| !PROPOSED.iter().any(|it| line.starts_with(it));
    assert!(
        outline
            .lines()
            .filter(known)
            .eq(expected.lines().filter(known)),
        "the outline differs from upstream's; it is now:\n{outline}"
    );
}

/// Everything about a definition but its descriptions, one line per fact.
fn outline(definition: &CustomResourceDefinition) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    let (metadata, spec) = (&definition.metadata, &definition.spec);
    let (group, scope, conversion) = (&spec.group, &spec.scope, &spec.conversion);
    writeln!(text, "name {:?}", metadata.name)?;
    writeln!(text, "annotations {:?}", metadata.annotations)?;
    writeln!(
        text,
        "group {group} scope {scope} conversion {conversion:?}"
    )?;
    let (kind, list, plural) = (&spec.names.kind, &spec.names.list_kind, &spec.names.plural);
    writeln!(text, "kind {kind} list {list:?} plural {plural}")?;
    let (singular, short) = (&spec.names.singular, &spec.names.short_names);
    let categories = &spec.names.categories;
    writeln!(
        text,
        "singular {singular:?} short {short:?} categories {categories:?}"
    )?;
    for version in &spec.versions {
        let (name, served, storage) = (&version.name, version.served, version.storage);
        writeln!(text, "\nversion {name} served {served} storage {storage}")?;
        let (deprecated, warning) = (version.deprecated, &version.deprecation_warning);
        writeln!(text, "deprecated {deprecated:?} {warning:?}")?;
        let subresources = version.subresources.as_ref();
        let has_status = subresources.is_some_and(|sub| sub.status.is_some());
        writeln!(text, "status subresource {has_status}")?;
        for column in version.additional_printer_columns.iter().flatten() {
            let priority = column.priority.unwrap_or_default();
            let (name, type_, path) = (&column.name, &column.type_, &column.json_path);
            writeln!(text, "column {name} {type_} {priority} {path}")?;
        }
        walk(schema(definition, name), "", &mut |path, field| {
            writeln!(text, ".{path} {}", facts(field)).expect("a text");
        });
    }
    Ok(text)
}

fn schema<'a>(definition: &'a CustomResourceDefinition, version: &str) -> &'a JSONSchemaProps {
    let mut versions = definition.spec.versions.iter();
    let version = versions.find(|listed| listed.name == version);
    let schema = version.expect("the version is listed").schema.as_ref();
    schema
        .and_then(|schema| schema.open_api_v3_schema.as_ref())
        .expect("a version has a schema")
}

/// Calls `visit` for a schema and all schemas in it; `[]` denotes the items of a list, `{}` the
/// values of a map.
fn walk(schema: &JSONSchemaProps, path: &str, visit: &mut impl FnMut(&str, &JSONSchemaProps)) {
    visit(path, schema);
    let prefix = if path.is_empty() {
        String::new()
    } else {
        format!("{path}.")
    };
    for (name, property) in schema.properties.iter().flatten() {
        walk(property, &format!("{prefix}{name}"), visit);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items {
        walk(items, &format!("{path}[]"), visit);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &schema.additional_properties {
        walk(values, &format!("{path}{{}}"), visit);
    }
}

/// The facts of a schema itself, without descriptions and nested schemas.
fn facts(schema: &JSONSchemaProps) -> String {
    let bare = JSONSchemaProps {
        description: None,
        properties: None,
        items: None,
        additional_properties: None,
        ..schema.clone()
    };
    match serde_json::to_string(&bare).expect("a schema is JSON") {
        text if text == QUANTITY => "quantity".to_owned(),
        text => text,
    }
}
