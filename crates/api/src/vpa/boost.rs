//! `startupBoost`: additional CPU while a container starts.

use model::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// Additional resources while a pod starts.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
pub struct StartupBoost {
    /// CPU boost. Absent means none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuStartupBoost>,
}

/// Amount and duration of a CPU boost.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "(self.type == 'Factor') == has(self.factor)",
        "message": "factor is required when type is Factor and forbidden otherwise",
    },
    {
        "rule": "(self.type == 'Quantity') == has(self.quantity)",
        "message": "quantity is required when type is Quantity and forbidden otherwise",
    },
]))]
pub struct CpuStartupBoost {
    /// Whether factor or quantity defines the boost.
    #[serde(rename = "type")]
    pub kind: StartupBoostType,
    /// Multiplier of the request. Required with the type Factor, and only allowed there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factor: Option<i32>,
    /// CPU added to the request and the limit while starting. Required with the type Quantity, and
    /// only allowed there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub quantity: Option<Quantity>,
    /// Seconds for which the boost continues after the pod is ready. Absent means 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_seconds: Option<i32>,
}

/// Field that defines the boost.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StartupBoostType {
    /// `factor`
    Factor,
    /// `quantity`
    Quantity,
}
