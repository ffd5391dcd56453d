//! JSON patches of pods, as upstream writes them: only `add`, with the objects above that are
//! missing. They are text from the beginning: nothing is kept of an operation but what is sent.
//!
//! Source: upstream `pkg/admission-controller/resource/pod/patch`.

use std::fmt::{self, Display};

use model::{Quantity, ResourceName};
use serde::Serialize;
use serde_json::json;

/// Bytes of a patch of usual size.
const USUAL: usize = 1536;

/// A patch.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Patch {
    /// A list without its closing bracket; empty where there is no operation.
    json: Vec<u8>,
    /// An operation could not be written. It is all or none of them.
    is_broken: bool,
}

impl Patch {
    /// Puts `value` at `path`, also in place of what is there.
    pub(crate) fn add(&mut self, path: fmt::Arguments<'_>, value: &impl Serialize) {
        self.is_broken |= self.write(path, value).is_err();
    }

    fn write(
        &mut self,
        path: fmt::Arguments<'_>,
        value: &impl Serialize,
    ) -> serde_json::Result<()> {
        if self.json.is_empty() {
            self.json.reserve(USUAL);
        }
        self.json
            .push(if self.json.is_empty() { b'[' } else { b',' });
        self.json.extend_from_slice(br#"{"op":"add","path":"#);
        serde_json::to_writer(&mut self.json, &path)?;
        self.json.extend_from_slice(br#","value":"#);
        serde_json::to_writer(&mut self.json, value)?;
        self.json.push(b'}');
        Ok(())
    }

    /// How long its text is so far; nothing where nothing is changed.
    pub(crate) fn length(&self) -> usize {
        self.json.len()
    }

    /// The whole text; none where nothing is changed.
    pub(crate) fn into_json(mut self) -> Option<Vec<u8>> {
        self.json.push(b']');
        (self.json.len() > 1 && !self.is_broken).then_some(self.json)
    }

    /// Gives the pod a map for annotations.
    pub(crate) fn annotations(&mut self) {
        self.add(format_args!("/metadata/annotations"), &json!({}));
    }

    /// Gives the pod an annotation.
    pub(crate) fn annotation(&mut self, name: &str, value: &str) {
        self.add(
            format_args!("/metadata/annotations/{}", escaped(name)),
            &value,
        );
    }

    /// Gives a container its resources.
    pub(crate) fn resources(&mut self, place: Place) {
        self.add(format_args!("{}", place.path()), &json!({}));
    }

    /// Gives a container one of the two maps.
    pub(crate) fn map(&mut self, place: Place, map: Map) {
        self.add(format_args!("{}/{}", place.path(), map.name()), &json!({}));
    }

    /// Sets one amount.
    pub(crate) fn amount(
        &mut self,
        place: Place,
        map: Map,
        resource: &ResourceName,
        quantity: &Quantity,
    ) {
        let path = place.path();
        self.add(
            format_args!("{path}/{}/{}", map.name(), escaped(resource.as_str())),
            quantity,
        );
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
    fn path(self) -> impl Display {
        fmt::from_fn(move |f| match self {
            Self::Container(index) => write!(f, "/spec/containers/{index}/resources"),
            Self::InitContainer(index) => write!(f, "/spec/initContainers/{index}/resources"),
        })
    }
}

impl Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Container(index) => write!(f, "container {index}"),
            Self::InitContainer(index) => write!(f, "init container {index}"),
        }
    }
}

/// A key as one step of a JSON pointer.
fn escaped(key: &str) -> impl Display {
    fmt::from_fn(move |f| {
        let has_special = key.contains(['~', '/']);
        if has_special {
            f.write_str(&key.replace('~', "~0").replace('/', "~1"))
        } else {
            f.write_str(key)
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

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
                    Place::InitContainer(2),
                    Map::Limits,
                    &"a~b/c".into(),
                    &amount,
                );
            },
            &json!([{"op": "add", "path": "/spec/initContainers/2/resources/limits/a~0b~1c", "value": "1500m"}]),
        );
        check(
            |patch| {
                patch.annotations();
                patch.annotation("a/\"b", "\"");
            },
            &json!([
                {"op": "add", "path": "/metadata/annotations", "value": {}},
                {"op": "add", "path": "/metadata/annotations/a~1\"b", "value": "\""},
            ]),
        );
    }

    #[test]
    fn nothing_is_no_patch() {
        assert_eq!(Patch::default().into_json(), None);
    }
}
