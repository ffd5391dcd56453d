//! The priority of a pod's update: the difference between its requests and the recommendation.
//!
//! Outside the bounds a pod is updated at once. Within the bounds, only if it is old enough and the
//! difference is large enough. Source: upstream `pkg/updater/priority/priority_processor.go` and
//! `update_priority_calculator.go`.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::Duration;

use model::{Recommendation, ResourceName};
use view::{Pod, Running};

use crate::clock::ClockReading;
use crate::resize::observed_containers;
use crate::resize::pod_size::{container_recommendation, requests, sized_containers};
use crate::settings::Settings;

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Priority {
    /// Whether a request is outside the recommended bounds, or missing.
    pub(crate) outside_recommended_range: bool,
    /// Whether a target is above the request.
    pub(crate) scale_up: bool,
    /// The sum over resources of the difference between target and request, relative to the
    /// request.
    pub(crate) resource_diff: f64,
}

impl Priority {
    /// The priority of a pod. `recommendation` is the pod's capped one.
    pub(crate) fn of(
        running: &Running,
        recommendation: &Recommendation,
        native_sidecars: bool,
    ) -> Self {
        let is_observed = observed_containers(running);
        // Requested and wanted amounts.
        let mut sums: BTreeMap<&ResourceName, (i64, i64)> = BTreeMap::new();
        let mut priority = Self::default();
        for container in sized_containers(running, native_sidecars)
            .filter(|container| is_observed(&container.name))
        {
            let Some(recommended) = container_recommendation(recommendation, &container.name)
            else {
                continue;
            };
            for (name, target) in recommended.target.iter() {
                let request = requests(container).get(name);
                let target_milli = target.milli_value();
                let (requested, wanted) = sums.entry(name).or_default();
                *wanted = wanted.saturating_add(target_milli);
                let Some(request) = request else {
                    priority.outside_recommended_range = true;
                    priority.scale_up = true;
                    continue;
                };
                *requested = requested.saturating_add(request.milli_value());
                priority.scale_up |= target_milli > request.milli_value();
                let (lower, upper) = (&recommended.lower_bound, &recommended.upper_bound);
                priority.outside_recommended_range |=
                    lower.get(name).is_some_and(|it| request < it)
                        || upper.get(name).is_some_and(|it| request > it);
            }
        }
        priority.resource_diff = sums
            .values()
            .map(|(requested, wanted)| {
                let requested = (*requested as f64).max(1.0);
                (requested - *wanted as f64).abs() / requested
            })
            .sum();
        priority
    }

    pub(crate) fn needs_update(
        &self,
        pod: &Pod,
        quick_oom: bool,
        settings: &Settings,
        now: ClockReading,
    ) -> bool {
        if self.outside_recommended_range || quick_oom {
            return !(quick_oom && self.resource_diff == 0.0);
        }
        let old = pod.started_at.is_some_and(|start| {
            now.wall >= start && now.since(start) >= settings.lifetime_threshold
        });
        old && self.resource_diff >= settings.update_threshold
    }

    /// The time until a pod within the bounds is old enough; `None` if it is, or if the difference
    /// is too small.
    pub(crate) fn needs_update_in(
        &self,
        pod: &Pod,
        settings: &Settings,
        now: ClockReading,
    ) -> Option<Duration> {
        let waits =
            !self.outside_recommended_range && self.resource_diff >= settings.update_threshold;
        now.until(
            pod.started_at.filter(|_| waits)?,
            settings.lifetime_threshold,
        )
    }

    /// The order of updates: pods that grow first, then larger differences.
    pub(crate) fn cmp_urgency(&self, other: &Self) -> Ordering {
        other
            .scale_up
            .cmp(&self.scale_up)
            .then_with(|| other.resource_diff.total_cmp(&self.resource_diff))
    }
}
