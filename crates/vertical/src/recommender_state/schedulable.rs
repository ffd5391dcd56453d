//! Caps to what can be scheduled, if enabled.

use std::collections::HashMap;

use api::vpa::VerticalPodAutoscalerStatus;
use jiff::Timestamp;
use view::{ObjectKey, View};

use super::{Decision, RecommenderState, Tracked};
use crate::schedulable::{SchedulableCaps, Settings, apply_cap, clear_cap};

impl RecommenderState {
    /// Enables the caps.
    pub fn cap_to_schedulable(&mut self, settings: Settings) {
        self.schedulable = Some(SchedulableCaps::new(settings));
    }

    pub(super) fn load_schedulable(&mut self, view: &View) {
        let Some(schedulable) = &mut self.schedulable else {
            return;
        };
        let tracked = self.vpas.values();
        let known = tracked.filter_map(|tracked| Some((&tracked.vpa, tracked.selector()?)));
        schedulable.load(view, known);
    }

    /// Recommended, requested and allocatable cores and bytes of each node group, with the
    /// recommendations of these decisions; none unless recommendations are capped to nodes.
    pub fn node_group_totals<'a>(
        &self,
        decisions: impl IntoIterator<Item = &'a Decision>,
    ) -> Vec<(String, [f64; 6])> {
        let Some(schedulable) = &self.schedulable else {
            return Vec::new();
        };
        let decisions = decisions.into_iter();
        let decisions: HashMap<&ObjectKey, &Decision> = decisions
            .map(|decision| (&decision.vpa.key, decision))
            .collect();
        let totals = schedulable.node_group_totals(|vpa| {
            let decision = decisions.get(&vpa.key)?;
            decision.status.recommendation.as_ref()
        });
        let values = totals.iter();
        values
            .map(|(group, totals)| (group.to_string(), totals.values()))
            .collect()
    }

    /// Applies the caps to a status.
    pub(super) fn apply_cap(
        &self,
        tracked: &Tracked,
        status: &mut VerticalPodAutoscalerStatus,
        now: Timestamp,
    ) {
        let Some(schedulable) = &self.schedulable else {
            clear_cap(status);
            return;
        };
        let whole_cores = self.cluster.config().integer_cpu;
        let published = tracked.vpa.object.status.as_ref();
        apply_cap(
            status,
            published,
            |found| schedulable.fit(&tracked.vpa, whole_cores, found),
            now,
        );
    }
}
