//! Fields of source objects: those that a migration has used, and those that it names in the plan,
//! so that the user sees each of them.

#[cfg(test)]
mod tests;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::{Map, Value, json};

/// The annotation in which kubectl repeats the object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The fields of an object that have not been used yet: its content without its status, and its
/// labels and annotations.
#[derive(Debug)]
pub(crate) struct Fields(Value);

impl Fields {
    pub(crate) fn of(object: &DynamicObject) -> Self {
        let mut annotations = object.annotations().clone();
        annotations.remove(LAST_APPLIED);
        let mut root = content(object);
        let metadata = json!({"labels": object.labels(), "annotations": annotations});
        root.insert("metadata".to_owned(), metadata);
        Self(root.into())
    }

    pub(crate) fn take(&mut self, pointer: &str) -> Value {
        let field = self.0.pointer_mut(pointer);
        field.map(Value::take).unwrap_or_default()
    }

    pub(crate) fn text(&mut self, pointer: &str) -> Option<String> {
        match self.take(pointer) {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn take_if(&mut self, pointer: &str, expected: &Value) {
        if self.0.pointer(pointer).unwrap_or(&Value::Null) == expected {
            self.take(pointer);
        }
    }

    /// The paths of the other fields, such as `spec.triggers[0].metadata.value`.
    pub(crate) fn rest(&self) -> Vec<String> {
        let mut paths = Vec::new();
        add_leaves(&self.0, "", &mut paths);
        paths
    }
}

fn content(object: &DynamicObject) -> Map<String, Value> {
    let mut content = object.data.as_object().cloned().unwrap_or_default();
    content.remove("status");
    content
}

fn add_leaves(value: &Value, path: &str, paths: &mut Vec<String>) {
    match value {
        Value::Null => {}
        Value::Object(fields) => {
            for (name, value) in fields {
                add_leaves(value, &join(path, name), paths);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                add_leaves(item, &format!("{path}[{index}]"), paths);
            }
        }
        _ => paths.push(path.to_owned()),
    }
}

fn join(path: &str, name: &str) -> String {
    let is_key = name.contains(['.', '/']);
    match (path, is_key) {
        ("", _) => name.to_owned(),
        (_, true) => format!("{path}[{name}]"),
        (_, false) => format!("{path}.{name}"),
    }
}

/// The paths of the fields that a definition lacks: the API server drops them with the next write.
pub(crate) fn lacking(
    object: &DynamicObject,
    definition: &CustomResourceDefinition,
) -> Vec<String> {
    let stored = definition.spec.versions.iter().find(|it| it.storage);
    let schema = stored.and_then(|version| version.schema.as_ref());
    let schema = schema.and_then(|schema| schema.open_api_v3_schema.as_ref());
    let mut paths = Vec::new();
    if let Some(schema) = schema {
        add_lacking(&content(object).into(), schema, "", &mut paths);
    }
    paths
}

fn add_lacking(value: &Value, schema: &JSONSchemaProps, path: &str, paths: &mut Vec<String>) {
    let items = value.as_array().into_iter().flatten();
    if let Some(JSONSchemaPropsOrArray::Schema(schema)) = &schema.items {
        for (index, item) in items.enumerate() {
            add_lacking(item, schema, &format!("{path}[{index}]"), paths);
        }
    }
    if schema.x_kubernetes_preserve_unknown_fields == Some(true) {
        return;
    }
    for (name, value) in value.as_object().into_iter().flatten() {
        let path = join(path, name);
        let known = schema.properties.as_ref().and_then(|it| it.get(name));
        match (known, &schema.additional_properties) {
            (Some(schema), _) => add_lacking(value, schema, &path, paths),
            (None, Some(JSONSchemaPropsOrBool::Schema(schema))) => {
                add_lacking(value, schema, &path, paths);
            }
            (None, Some(JSONSchemaPropsOrBool::Bool(true))) => {}
            (None, _) => add_leaves(value, &path, paths),
        }
    }
}
