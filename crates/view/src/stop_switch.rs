//! A switch: a `ConfigMap` that somebody made to turn something on, and deletes to turn it off.
//! What is in it does not matter.

use crate::table::{Entry, ObjectKey};

/// A switch that is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopSwitch {
    /// Namespace and name.
    pub key: ObjectKey,
}

impl Entry for StopSwitch {
    type Key = ObjectKey;

    fn key(&self) -> &ObjectKey {
        &self.key
    }
}
