//! The metric of kinds of object that a program has no right to list, and does without.

use prometheus::{Error, IntGaugeVec, Registry, register_int_gauge_vec_with_registry};
use view::Resource;

/// The kinds of object without a right, as a metric. Clones share it.
#[derive(Debug, Clone)]
pub struct MissingRights(IntGaugeVec);

impl MissingRights {
    /// Adds the metric to a registry.
    pub fn register(registry: &Registry) -> Result<Self, Error> {
        let gauge = register_int_gauge_vec_with_registry!(
            "plimsoll_missing_rights",
            "1 for objects that the program has no right to list, and does without; 0 once it has.",
            &["resource"],
            registry
        )?;
        Ok(Self(gauge))
    }

    /// Sets whether the right to list is missing.
    pub(crate) fn set(&self, resource: Resource, is_missing: bool) {
        let gauge = self.0.with_label_values(&[resource.name()]);
        gauge.set(i64::from(is_missing));
    }
}
