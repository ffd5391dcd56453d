//! JSON patches of pods, as upstream writes them: only `add`, with the parent objects that are
//! missing. Only a limit mode removes something.
//!
//! Source: upstream `pkg/admission-controller/resource/pod/patch`.

use std::fmt::{self, Display};

use json_patch::jsonptr::{PointerBuf, Token};
use json_patch::{AddOperation, PatchOperation, RemoveOperation};
use model::{Quantity, ResourceName};
use serde_json::{Value, json};
use sizing::ResourcesField;

/// Capacity of a typical path, in bytes.
const PATH_BYTES: usize = 96;
/// Capacity of a typical patch, in operations and in bytes.
const OPERATIONS: usize = 8;
const PATCH_BYTES: usize = 1536;

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Patch(json_patch::Patch);

impl Patch {
    /// Adds `value` at `path`, or replaces the value there.
    pub(crate) fn add<'a>(
        &mut self,
        path: impl IntoIterator<Item = impl Into<Token<'a>>>,
        value: Value,
    ) {
        let mut pointer = empty_path();
        for token in path {
            pointer.push_back(token);
        }
        self.push(pointer, value);
    }

    fn push(&mut self, path: PointerBuf, value: Value) {
        self.push_operation(PatchOperation::Add(AddOperation { path, value }));
    }

    fn push_operation(&mut self, operation: PatchOperation) {
        if self.0.is_empty() {
            self.0.0.reserve(OPERATIONS);
        }
        self.0.0.push(operation);
    }

    /// The number of operations.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The patch as JSON; `None` without operations.
    pub(crate) fn into_json(self) -> Option<Vec<u8>> {
        if self.0.is_empty() {
            return None;
        }
        let mut json = Vec::with_capacity(PATCH_BYTES);
        serde_json::to_writer(&mut json, &self.0).ok()?;
        Some(json)
    }

    /// Adds an empty map of annotations.
    pub(crate) fn annotations(&mut self) {
        self.add(["metadata", "annotations"], json!({}));
    }

    /// Adds an annotation.
    pub(crate) fn annotation(&mut self, name: &str, value: String) {
        self.add(["metadata", "annotations", name], Value::String(value));
    }

    /// Adds an empty map of labels.
    pub(crate) fn labels(&mut self) {
        self.add(["metadata", "labels"], json!({}));
    }

    /// Adds a label, or replaces its value.
    pub(crate) fn label(&mut self, name: &str, value: String) {
        self.add(["metadata", "labels", name], Value::String(value));
    }

    /// Adds empty `resources` to a container.
    pub(crate) fn resources(&mut self, container: ContainerPath) {
        self.push(container.resources_path(), json!({}));
    }

    /// Adds empty `requests` or `limits` to a container.
    pub(crate) fn requirements(&mut self, container: ContainerPath, field: ResourcesField) {
        let mut path = container.resources_path();
        path.push_back(field.name());
        self.push(path, json!({}));
    }

    /// Sets the amount of one resource.
    pub(crate) fn amount(
        &mut self,
        container: ContainerPath,
        field: ResourcesField,
        resource: &ResourceName,
        quantity: &Quantity,
    ) {
        let mut path = container.resources_path();
        path.push_back(field.name());
        path.push_back(resource.as_str());
        self.push(path, Value::String(quantity.to_string()));
    }

    /// Removes the limit of one resource, which must be present.
    pub(crate) fn remove_limit(&mut self, container: ContainerPath, resource: &ResourceName) {
        let mut path = container.resources_path();
        path.push_back(ResourcesField::Limits.name());
        path.push_back(resource.as_str());
        self.push_operation(PatchOperation::Remove(RemoveOperation { path }));
    }
}

/// The position of a container in the spec of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContainerPath {
    /// The index in `containers`.
    Container(usize),
    /// The index in `initContainers`.
    InitContainer(usize),
}

impl ContainerPath {
    fn resources_path(self) -> PointerBuf {
        let (list, index) = match self {
            Self::Container(index) => ("containers", index),
            Self::InitContainer(index) => ("initContainers", index),
        };
        let mut path = empty_path();
        path.push_back("spec");
        path.push_back(list);
        path.push_back(index);
        path.push_back("resources");
        path
    }
}

/// The root, with capacity for a path.
fn empty_path() -> PointerBuf {
    PointerBuf::parse(String::with_capacity(PATH_BYTES)).unwrap_or_default()
}

impl Display for ContainerPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Container(index) => write!(f, "container {index}"),
            Self::InitContainer(index) => write!(f, "init container {index}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(write: impl FnOnce(&mut Patch), expected: &Value) {
        let mut patch = Patch::default();
        write(&mut patch);
        let json = patch.into_json().expect("an operation");
        assert_eq!(
            serde_json::from_slice::<Value>(&json).expect("a patch"),
            *expected
        );
    }

    #[test]
    fn keys_are_escaped() {
        let amount = Quantity::from_milli(1500);
        check(
            |patch| {
                patch.amount(
                    ContainerPath::InitContainer(2),
                    ResourcesField::Limits,
                    &"a~b/c".into(),
                    &amount,
                );
            },
            &json!([{"op": "add", "path": "/spec/initContainers/2/resources/limits/a~0b~1c", "value": "1500m"}]),
        );
        check(
            |patch| {
                patch.annotations();
                patch.annotation("a/\"b", "\"".to_owned());
            },
            &json!([
                {"op": "add", "path": "/metadata/annotations", "value": {}},
                {"op": "add", "path": "/metadata/annotations/a~1\"b", "value": "\""},
            ]),
        );
    }

    #[test]
    fn an_empty_patch_is_none() {
        assert_eq!(Patch::default().into_json(), None);
    }
}
