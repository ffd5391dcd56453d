//! JSON patches of pods, as upstream writes them: only `add`, with the parent objects that are
//! missing. Only a limit mode removes something.
//!
//! Source: upstream `pkg/admission-controller/resource/pod/patch`.

use std::fmt::{self, Display};

use json_patch::jsonptr::{PointerBuf, Token};
use json_patch::{AddOperation, PatchOperation, RemoveOperation};
use serde_json::Value;

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
        self.add_at(pointer, value);
    }

    /// Adds `value` at `path`, or replaces the value there.
    pub(crate) fn add_at(&mut self, path: PointerBuf, value: Value) {
        self.push(PatchOperation::Add(AddOperation { path, value }));
    }

    /// Removes what is at `path`, which must be present.
    pub(crate) fn remove(&mut self, path: PointerBuf) {
        self.push(PatchOperation::Remove(RemoveOperation { path }));
    }

    fn push(&mut self, operation: PatchOperation) {
        if self.0.is_empty() {
            self.0.0.reserve(OPERATIONS);
        }
        self.0.0.push(operation);
    }

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

    pub(crate) fn annotation(&mut self, name: &str, value: String) {
        self.add(["metadata", "annotations", name], Value::String(value));
    }
}

/// The position of resources in the spec of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContainerPath {
    /// The pod as a whole.
    Pod,
    /// The index in `containers`.
    Container(usize),
    /// The index in `initContainers`.
    InitContainer(usize),
}

impl ContainerPath {
    /// The path of its `resources`, and of a field or an amount in it.
    pub(crate) fn resources(self, within: &[&str]) -> PointerBuf {
        let mut path = empty_path();
        path.push_back("spec");
        let of_list = match self {
            Self::Pod => None,
            Self::Container(index) => Some(("containers", index)),
            Self::InitContainer(index) => Some(("initContainers", index)),
        };
        if let Some((list, index)) = of_list {
            path.push_back(list);
            path.push_back(index);
        }
        path.push_back("resources");
        for token in within {
            path.push_back(*token);
        }
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
            Self::Pod => write!(f, "pod"),
            Self::Container(index) => write!(f, "container {index}"),
            Self::InitContainer(index) => write!(f, "init container {index}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use model::Quantity;
    use serde_json::json;

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
                let path = ContainerPath::InitContainer(2).resources(&["limits", "a~b/c"]);
                patch.add_at(path, json!(amount.to_string()));
            },
            &json!([{"op": "add", "path": "/spec/initContainers/2/resources/limits/a~0b~1c", "value": "1500m"}]),
        );
        check(
            |patch| {
                patch.add(["metadata", "annotations"], json!({}));
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
