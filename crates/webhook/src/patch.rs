//! JSON patches of pods, as upstream writes them: only `add`, with the objects above that are missing.
//!
//! Source: upstream `pkg/admission-controller/resource/pod/patch`.

use model::{Quantity, ResourceName};
use serde::Serialize;
use serde_json::{Value, json};

/// One operation of a patch.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Operation {
    /// Always `add`, which replaces what is there.
    pub(crate) op: &'static str,
    /// Where.
    pub(crate) path: String,
    /// What.
    pub(crate) value: Value,
}

impl Operation {
    /// Puts `value` at `path`.
    pub(crate) fn add(path: String, value: Value) -> Self {
        Self { op: "add", path, value }
    }

    /// Gives the pod a map for annotations.
    pub(crate) fn annotations() -> Self {
        Self::add("/metadata/annotations".to_owned(), json!({}))
    }

    /// Gives the pod an annotation.
    pub(crate) fn annotation(name: &str, value: String) -> Self {
        Self::add(format!("/metadata/annotations/{}", escaped(name)), value.into())
    }
}

/// A container in a pod's specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// By its index in `containers`.
    Container(usize),
    /// By its index in `initContainers`.
    InitContainer(usize),
}

/// A map in the resources of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Map {
    /// `requests`
    Requests,
    /// `limits`
    Limits,
}

impl Map {
    /// One entry of the map, in the singular.
    pub(crate) fn entry(self) -> &'static str {
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

impl Place {
    /// Gives the container its resources.
    pub(crate) fn resources(self) -> Operation {
        Operation::add(self.path(), json!({}))
    }

    /// Gives the container one of the two maps.
    pub(crate) fn map(self, map: Map) -> Operation {
        Operation::add(format!("{}/{}", self.path(), map.name()), json!({}))
    }

    /// Sets one amount.
    pub(crate) fn amount(self, map: Map, resource: &ResourceName, quantity: &Quantity) -> Operation {
        let path = format!("{}/{}/{}", self.path(), map.name(), escaped(resource.as_str()));
        Operation::add(path, quantity.to_string().into())
    }

    fn path(self) -> String {
        match self {
            Self::Container(index) => format!("/spec/containers/{index}/resources"),
            Self::InitContainer(index) => format!("/spec/initContainers/{index}/resources"),
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Container(index) => write!(f, "container {index}"),
            Self::InitContainer(index) => write!(f, "init container {index}"),
        }
    }
}

/// A key as one step of a JSON pointer.
fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_escaped() {
        let operation = Place::InitContainer(2).amount(Map::Limits, &"a~b/c".into(), &Quantity::from_milli(1500));
        assert_eq!(operation.path, "/spec/initContainers/2/resources/limits/a~0b~1c");
        assert_eq!(operation.value, json!("1500m"));
        assert_eq!(Operation::annotation("a/b", String::new()).path, "/metadata/annotations/a~1b");
    }
}
