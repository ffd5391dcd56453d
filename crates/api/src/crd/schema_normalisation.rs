//! Differences between the schemas of schemars and of controller-gen.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};

/// Adds `apiVersion`, `kind` and `metadata`, which every object has, for `kubectl explain`.
pub(super) fn add_object_fields(object: &mut JSONSchemaProps) {
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

/// Optional fields may be absent but not `null`, and have no default. Only times may be `null`. An
/// integer-or-string schema also lists both types in `anyOf`, as the server requires.
pub(super) fn normalise(schema: &mut JSONSchemaProps) {
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
