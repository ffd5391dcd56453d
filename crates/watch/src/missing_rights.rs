//! The metric of kinds of object that a program has no right to list, and does without.

use prometheus::IntGaugeVec;
use view::Resource;

runtime::metrics! {
    /// The kinds of object without a right, as a metric. Clones share it.
    pub struct MissingRights {
        missing: IntGaugeVec { resource } = "plimsoll_missing_rights",
            "1 for objects that the program has no right to list, and does without; 0 once it has.";
    }
}

impl MissingRights {
    /// Sets whether the right to list is missing.
    pub(crate) fn set(&self, resource: Resource, is_missing: bool) {
        let gauge = self.missing.with_label_values(&[resource.name()]);
        gauge.set(i64::from(is_missing));
    }
}
