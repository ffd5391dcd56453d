//! Usage of pods in common slots.

use replay::Series;

/// Usage of the pods of a container.
pub(crate) struct PerSlot {
    /// Start in seconds since 1970.
    pub(crate) start: i64,
    /// Length of a slot in seconds.
    pub(crate) step: i64,
    /// Highest usage of a pod.
    pub(crate) highest: Vec<f64>,
    /// Sum of the usage of all pods.
    pub(crate) sums: Vec<f64>,
    /// Number of pods.
    pub(crate) counts: Vec<u32>,
}

impl PerSlot {
    /// Usage of pods with the same length of slots, at least one pod.
    pub(crate) fn of(pods: &[Series]) -> Self {
        let start = pods.iter().map(|pod| pod.start).min().unwrap_or_default();
        let step = pods[0].step;
        let first = |pod: &Series| usize::try_from((pod.start - start) / step).unwrap_or(0);
        let ends = pods.iter().map(|pod| first(pod) + pod.usage.len());
        let slots = ends.max().unwrap_or(0);
        let mut per_slot = Self {
            start,
            step,
            highest: vec![0.0; slots],
            sums: vec![0.0; slots],
            counts: vec![0; slots],
        };
        for pod in pods {
            for (slot, amount) in (first(pod)..).zip(&pod.usage) {
                per_slot.highest[slot] = per_slot.highest[slot].max(*amount);
                per_slot.sums[slot] += amount;
                per_slot.counts[slot] += 1;
            }
        }
        per_slot
    }

    /// Mean usage of a pod.
    pub(crate) fn means(&self) -> Vec<f64> {
        let slots = self.sums.iter().zip(&self.counts);
        slots
            .map(|(sum, count)| sum / f64::from((*count).max(1)))
            .collect()
    }
}
