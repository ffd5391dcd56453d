//! The health of pods with new requests by the queries of a wave, see [`crate::limits::pod_health`].

use std::time::Duration;

use api::rollback::{MAX_WAVE_QUERY, WAVE_QUERY};
use model::{ResourceList, ResourceName};

use super::wave::revision;
use super::{Member, VpaPass};
use crate::limits::pod_health::{HealthMetric, HealthQuery, HealthReading};
use crate::limits::wave::Failure;
use crate::resize::pod_size::{effective, sized_containers};

/// The result of all queries for a pod.
pub(super) enum Health {
    /// Not worse than others, since it has its requests.
    Well,
    /// No values since then yet.
    Unread,
    /// The values could not be read.
    Unknown,
    Worse(Failure<'static>),
}

impl VpaPass<'_> {
    /// The queries that pods must pass to be well; none without Prometheus.
    pub(super) fn health_queries(&self) -> Vec<HealthQuery> {
        let reads = (self.context.settings.waves).is_some_and(|waves| waves.reads_health);
        let annotations = self.vpa.object.metadata.annotations.as_ref();
        let expression = annotations.and_then(|it| it.get(WAVE_QUERY));
        // The rest of one that is too long is of no use.
        let part = |it: &String| it.trim().chars().take(MAX_WAVE_QUERY + 1).collect();
        let expression = expression.map(|it| HealthMetric::Expression(part(it)));
        let metrics = expression.into_iter().chain([HealthMetric::Throttling]);
        let metrics = metrics.filter(|_| reads);
        let queries = metrics.map(|metric| HealthQuery {
            namespace: self.vpa.key.namespace.clone(),
            metric,
        });
        queries.collect()
    }

    /// Compares a pod with those that have other requests, once it has been well for `proven_after`. Values
    /// before that may be of its start.
    pub(super) fn health(
        &self,
        queries: &[HealthQuery],
        member: &Member,
        others: &[&Member],
        well_for: Duration,
    ) -> Health {
        let proven_after = self.proven_after();
        let mut health = Health::Well;
        for query in queries {
            let reading = self.context.snapshot.health.get(query);
            let is_recent = |reading: &&HealthReading| {
                let age = self.context.now.monotonic.saturating_sub(reading.began);
                well_for.saturating_sub(age) >= proven_after
            };
            let Some(reading) = reading.map(AsRef::as_ref).filter(is_recent) else {
                return Health::Unread;
            };
            let Some(values) = &reading.values else {
                health = Health::Unknown;
                continue;
            };
            let value = values.get(&member.pod.key.name).copied();
            if value.is_none() && query.metric == HealthMetric::Throttling && has_cpu_limit(member)
            {
                health = Health::Unknown;
                continue;
            }
            // A query gives no value for a pod without errors.
            let value = value.unwrap_or(0.0);
            if !query.metric.is_worse(value, 0.0) {
                continue;
            }
            let is_settled = |it: &&&Member| {
                let ready_since = it.running.ready_since;
                let ready_for = ready_since.map(|since| self.context.now.since(since));
                ready_for.is_some_and(|it| it >= proven_after)
            };
            let others = others.iter().filter(is_settled);
            let others = others.filter(|it| revision(it.pod) == revision(member.pod));
            let of_others = others.map(|it| values.get(&it.pod.key.name).copied().unwrap_or(0.0));
            let largest = of_others.reduce(f64::max);
            if let Some(largest) = largest
                && query.metric.is_worse(value, largest)
            {
                return Health::Worse(match query.metric {
                    HealthMetric::Throttling => Failure::Throttled { value, largest },
                    HealthMetric::Expression(_) => Failure::Query { value, largest },
                });
            }
        }
        health
    }
}

/// Whether a container of the pod has a CPU limit, so that the kubelet counts its CPU periods.
fn has_cpu_limit(member: &Member) -> bool {
    let has = |limits: &ResourceList| limits.get(&ResourceName::Cpu).is_some();
    sized_containers(member.running, true).any(|it| has(effective(it)[1]))
}
