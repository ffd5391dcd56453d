//! `startupBoost`: more CPU while a container starts.

use model::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// More of a resource while a pod starts.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
pub struct StartupBoost {
    /// The boost of CPU. Absent means none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuStartupBoost>,
}

/// How much CPU a container gets while it starts, and for how long after it is ready.
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
    /// Whether factor or quantity says how much.
    #[serde(rename = "type")]
    pub kind: StartupBoostType,
    /// The request is multiplied by this. Only with the type Factor, and then required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factor: Option<i32>,
    /// The request and the limit while starting. Only with the type Quantity, and then required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub quantity: Option<Quantity>,
    /// How many seconds the boost lasts once the pod is ready. Absent means 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_seconds: Option<i32>,
}

/// Which field of a boost says how much.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StartupBoostType {
    /// `factor`
    Factor,
    /// `quantity`
    Quantity,
}
