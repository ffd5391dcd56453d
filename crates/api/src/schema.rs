//! Schema parts that serde cannot tell: quantities, resource lists, times and objects of free form.
//!
//! Shapes follow what controller-gen writes for `resource.Quantity`, `v1.ResourceList` and
//! `metav1.Time`.

use schemars::{Schema, SchemaGenerator, json_schema};

/// What a Kubernetes quantity looks like as text (`resource.Quantity` in apimachinery). The
/// server's own parser is stricter and looser in places, so a text that matches may still fail to
/// parse.
const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// One quantity: an integer or a text.
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

/// Names of resources.
pub(crate) fn resource_names(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "items": {"type": "string"}})
}

/// A point in time as RFC 3339 text.
pub(crate) fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "date-time"})
}

/// A point in time that may be `null`: Go writes its zero time so.
pub(crate) fn nullable_time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "date-time", "nullable": true})
}

/// An object whose keys the server must keep without knowing them.
pub(crate) fn free_form(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// A whole number without a stated width, as Go's `int`.
pub(crate) fn count(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer"})
}

/// A floating point number without a stated width.
pub(crate) fn number(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "number"})
}
