//! Parses loosely typed objects one by one.
//!
//! The server's schema accepts values that do not parse: a quantity may match the pattern and still
//! be invalid. One such object must not stop a whole watch, so watches carry untyped values and
//! each object is parsed separately.

use kube::Resource;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Maximum length of a field's path and of a reason in characters, since both can contain user
/// input.
const MOST_CHARACTERS: usize = 300;

/// Error in an object, by field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {namespace}/{name}: {field}: {reason}")]
pub struct ParseError {
    /// Expected kind.
    pub kind: String,
    /// Namespace of the object, empty if unknown.
    pub namespace: String,
    /// Name of the object, empty if unknown.
    pub name: String,
    /// Path of the field, such as `spec.resourcePolicy.containerPolicies[0].minAllowed.cpu`; `.` is
    /// the whole object.
    pub field: String,
    /// Description of the error.
    pub reason: String,
}

/// Parses an object. The error names the invalid field.
pub(crate) fn parse<K>(object: Value) -> Result<K, ParseError>
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    let (namespace, name) = (metadata(&object, "namespace"), metadata(&object, "name"));
    serde_path_to_error::deserialize(object).map_err(|error| explain::<K>(&error, namespace, name))
}

/// Parses an object from JSON text. The error names the invalid field.
pub fn parse_text<K>(text: &[u8]) -> Result<K, ParseError>
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    let mut json = serde_json::Deserializer::from_slice(text);
    serde_path_to_error::deserialize(&mut json).map_err(|error| {
        // Parses only the names, which may be valid in an invalid object.
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
