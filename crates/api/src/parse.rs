//! Reads loosely typed objects one by one.
//!
//! The server's schema lets values through that do not parse: a quantity may fit the pattern and
//! still be no quantity. One such object must not stop a whole watch, so watches carry loose values
//! and each object is parsed by itself.

use kube::Resource;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The most characters of a field's path and of what is wrong with it: both can hold what a tenant
/// wrote.
const MOST_CHARACTERS: usize = 300;

/// An object that does not have the shape of its kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {namespace}/{name}: {field}: {reason}")]
pub struct ParseError {
    /// Kind that the object should have been.
    pub kind: String,
    /// Namespace of the object, empty if even that is not there.
    pub namespace: String,
    /// Name of the object, empty if even that is not there.
    pub name: String,
    /// Path of the field, such as `spec.resourcePolicy.containerPolicies[0].minAllowed.cpu`; `.` is
    /// the whole object.
    pub field: String,
    /// What is wrong with it.
    pub reason: String,
}

/// Reads an object, or says which of its fields cannot be read.
pub(crate) fn parse<K>(object: Value) -> Result<K, ParseError>
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    let (namespace, name) = (metadata(&object, "namespace"), metadata(&object, "name"));
    serde_path_to_error::deserialize(object).map_err(|error| explain::<K>(&error, namespace, name))
}

/// Reads an object from its text, or says which of its fields cannot be read.
pub fn parse_text<K>(text: &[u8]) -> Result<K, ParseError>
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    let mut json = serde_json::Deserializer::from_slice(text);
    serde_path_to_error::deserialize(&mut json).map_err(|error| {
        // The names are readable by themselves, or not at all.
        let Named {
            metadata: Names { namespace, name },
        } = serde_json::from_slice(text).unwrap_or_default();
        explain::<K>(&error, namespace, name)
    })
}

fn explain<K: Resource<DynamicType = ()>>(
    error: &serde_path_to_error::Error<serde_json::Error>,
    namespace: String,
    name: String,
) -> ParseError {
    let short = |text: String| text.chars().take(MOST_CHARACTERS).collect();
    ParseError {
        kind: K::kind(&()).into_owned(),
        namespace,
        name,
        field: short(error.path().to_string()),
        reason: short(error.inner().to_string()),
    }
}

#[derive(Default, Deserialize)]
struct Named {
    metadata: Names,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Names {
    namespace: String,
    name: String,
}

fn metadata(object: &Value, field: &str) -> String {
    object["metadata"][field]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}
