//! Reads loosely typed objects one by one.
//!
//! The server's schema lets values through that do not parse: a quantity may fit the pattern and still be no quantity.
//! One such object must not stop a whole watch, so watches carry loose values and each object is parsed by itself.

use kube::Resource;
use serde::de::DeserializeOwned;
use serde_json::Value;

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
    /// Path of the field, such as `spec.resourcePolicy.containerPolicies[0].minAllowed.cpu`; `.` is the whole object.
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
    serde_path_to_error::deserialize(object).map_err(|error| ParseError {
        kind: K::kind(&()).into_owned(),
        namespace,
        name,
        field: error.path().to_string(),
        reason: error.into_inner().to_string(),
    })
}

fn metadata(object: &Value, field: &str) -> String {
    object["metadata"][field].as_str().unwrap_or_default().to_owned()
}
