//! JSON patches of pods, as upstream writes them: only `add`, with the parent objects that are
//! missing.
//!
//! Source: upstream `pkg/admission-controller/resource/pod/patch`.

use std::fmt::{self, Display};

use json_patch::jsonptr::{PointerBuf, Token};
use json_patch::{AddOperation, PatchOperation};
use model::{Quantity, ResourceName};
use serde_json::{Value, json};

/// A patch.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Patch(json_patch::Patch);

impl Patch {
    /// Adds `value` at `path`, or replaces the value there.
    pub(crate) fn add<'a>(
        &mut self,
        path: impl IntoIterator<Item = impl Into<Token<'a>>>,
        value: Value,
    ) {
        let path = PointerBuf::from_tokens(path);
        self.push(path, value);
    }

    fn push(&mut self, path: PointerBuf, value: Value) {
        let operation = AddOperation { path, value };
        self.0.0.push(PatchOperation::Add(operation));
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
        serde_json::to_vec(&self.0).ok()
    }

    /// Adds an empty map of annotations.
    pub(crate) fn annotations(&mut self) {
        self.add(["metadata", "annotations"], json!({}));
    }

    /// Adds an annotation.
    pub(crate) fn annotation(&mut self, name: &str, value: String) {
        self.add(["metadata", "annotations", name], Value::String(value));
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
}

/// The position of a container in the spec of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContainerPath {
    /// The index in `containers`.
    Container(usize),
    /// The index in `initContainers`.
    InitContainer(usize),
}

/// A field of a container's `resources`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResourcesField {
    /// `requests`
    Requests,
    /// `limits`
    Limits,
}

impl ResourcesField {
    /// The name of one value: `request` or `limit`.
    pub(crate) fn singular(self) -> &'static str {
        match self {
            Self::Requests => "request",
            Self::Limits => "limit",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Limits => "limits",
        }
    }
}

impl ContainerPath {
    /// The path of its `resources`.
    fn resources_path(self) -> PointerBuf {
        let (list, index) = match self {
            Self::Container(index) => ("containers", index),
            Self::InitContainer(index) => ("initContainers", index),
        };
        let tokens: [Token<'_>; 4] = ["spec".into(), list.into(), index.into(), "resources".into()];
        PointerBuf::from_tokens(tokens)
    }
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
