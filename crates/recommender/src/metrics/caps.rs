//! Number of capped objects, by source of the cap.

use prometheus::{IntGaugeVec, Registry, register_int_gauge_vec_with_registry};
use vertical::recommender_state::Decision;
use vertical::schedulable::capped_by;

/// Words of the condition's reason, and the label values.
const SOURCES: [(&str, &str); 3] = [
    ("Node", "node"),
    ("ResourceQuota", "quota"),
    ("LimitRange", "limit_range"),
];

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
        let mut counts = [0; SOURCES.len()];
        for word in decisions
            .into_iter()
            .flat_map(|decision| capped_by(&decision.status))
        {
            if let Some(index) = SOURCES.iter().position(|(source, _)| *source == word) {
                counts[index] += 1;
            }
        }
        for ((_, source), count) in SOURCES.iter().zip(counts) {
            self.0.with_label_values(&[source]).set(count);
        }
    }
}
