//! Schema parts that serde cannot derive: quantities, resource lists, times and free-form objects.
//!
//! Shapes follow controller-gen's for `resource.Quantity`, `v1.ResourceList` and `metav1.Time`.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::json;

/// Pattern of a Kubernetes quantity (`resource.Quantity` in apimachinery). The server's parser is
/// stricter and looser in places, so a matching string may still be invalid.
const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// A quantity: an integer or a string.
pub(crate) fn quantity(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "pattern": QUANTITY,
        "x-kubernetes-int-or-string": true,
    })
}

/// Quantities by resource name.
pub(crate) fn resource_list(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "additionalProperties": quantity(generator)})
}

/// `status.recommendation` of a VPA. Its type is in `model`, which knows no schemas.
pub(crate) fn recommendation(generator: &mut SchemaGenerator) -> Schema {
    let mut list = |description: &str| {
        let mut list = resource_list(generator);
        list.insert("description".to_owned(), description.into());
        list
    };
    let amounts = json!({
        "target": list("Recommended requests, within the constraints of the resource policy."),
        "lowerBound": list("Pods with requests below this are updated first. Within the constraints of the resource\npolicy."),
        "upperBound": list("Pods with requests above this are updated first. Within the constraints of the resource\npolicy."),
        "uncappedTarget": list("Recommendation before the constraints of the resource policy. For information only."),
    });
    let mut of_container = amounts.clone();
    of_container["containerName"] =
        json!({"type": "string", "description": "Name of the container."});
    json_schema!({
        "type": "object",
        "properties": {
            "containerRecommendations": {
                "description": "One recommendation per container, ordered by name.",
                "type": "array",
                "items": {
                    "description": "The recommendation for one container.",
                    "type": "object",
                    "required": ["target"],
                    "properties": of_container,
                },
            },
            "podRecommendations": {
                "description": "The recommendation for the resources of the pod as a whole, with the podPolicy.",
                "type": "object",
                "required": ["target"],
                "properties": amounts,
            },
        },
    })
}

pub(crate) fn resource_names(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "items": {"type": "string"}})
}

/// A point in time as an RFC 3339 string.
pub(crate) fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "date-time"})
}

/// A point in time that may be `null`: Go encodes its zero time so.
pub(crate) fn nullable_time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "date-time", "nullable": true})
}

/// An object whose unknown fields the server must preserve.
pub(crate) fn free_form(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// An integer without a format, as Go's `int`.
pub(crate) fn count(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer"})
}

/// A number without a format.
pub(crate) fn number(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "number"})
}
