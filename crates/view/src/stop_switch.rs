//! The stop switch: a `ConfigMap` that an operator creates to stop all evictions and resizes, and
//! deletes to resume them. Its content does not matter.

use crate::table::ObjectKey;

/// A stop switch that is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopSwitch {
    /// Namespace and name.
    pub key: ObjectKey,
}
