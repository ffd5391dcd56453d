//! Number of capped objects, by source of the cap.

use prometheus::{IntGaugeVec, Registry, register_int_gauge_vec_with_registry};
use vertical::recommender_state::Decision;
use vertical::schedulable::count_capped;

/// The gauge.
#[derive(Debug, Clone)]
pub(super) struct Caps(IntGaugeVec);

impl Caps {
    pub(super) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let caps = Self(register_int_gauge_vec_with_registry!(
            "vpa_recommender_capped_objects",
            "VPA objects whose recommendation is capped to what can be scheduled, by source of the cap.",
            &["source"],
            registry,
        )?);
        caps.count([]);
        Ok(caps)
    }

    /// Sets every source, also those without objects.
    pub(super) fn count<'a>(&self, decisions: impl IntoIterator<Item = &'a Decision>) {
        let statuses = decisions.into_iter().map(|decision| &decision.status);
        for (source, count) in count_capped(statuses) {
            self.0.with_label_values(&[source]).set(count);
        }
    }
}
