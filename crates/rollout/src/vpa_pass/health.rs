//! The health of pods with new requests by the queries of a wave, see [`crate::limits::pod_health`].

use std::time::Duration;

use api::rollback::{MAX_WAVE_QUERY, WAVE_QUERY};
use model::{Quantity, ResourceName};

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
    /// before that may be of its start. One reading of a worse value may be chance: another one must follow.
    pub(super) fn health(
        &self,
        queries: &[HealthQuery],
        member: &Member,
        others: &[&Member],
        well_for: Duration,
    ) -> Health {
        let proven_after = self.proven_after();
        let is_settled = |it: &&&Member| {
            let ready_since = it.running.ready_since;
            let ready_for = ready_since.map(|since| self.context.now.since(since));
            revision(it.pod) == revision(member.pod)
                && ready_for.is_some_and(|it| it >= proven_after)
        };
        let settled: Vec<&Member> = others.iter().filter(is_settled).copied().collect();
        let is_recent = |reading: &&HealthReading| {
            let age = self.context.now.monotonic.saturating_sub(reading.began);
            well_for.saturating_sub(age) >= proven_after
        };
        let mut health = Health::Well;
        // The user's query comes first: with several worse values, its one is named.
        let mut first_worse = None;
        for query in queries {
            let metric = &query.metric;
            // No smaller limit, no throttling by the new requests.
            let may_be_worse = *metric != HealthMetric::Throttling
                || others.iter().any(|it| has_less_cpu(member, it));
            if !may_be_worse {
                continue;
            }
            let readings = self.context.snapshot.health.get(query);
            let readings = readings.into_iter().flatten().map(AsRef::as_ref);
            let mut found = readings
                .filter(is_recent)
                .map(|it| compare(metric, it, member, &settled));
            match (found.next(), found.next()) {
                (Some(Health::Worse(failure)), Some(Health::Worse(_))) => {
                    return Health::Worse(first_worse.unwrap_or(failure));
                }
                (Some(Health::Worse(failure)), before) => {
                    // One worse value after a good one may be chance.
                    if before.is_none() {
                        first_worse = first_worse.or(Some(failure));
                    }
                    health = Health::Unread;
                }
                (None, _) => health = Health::Unread,
                (Some(Health::Unknown), _) if matches!(health, Health::Well) => {
                    health = Health::Unknown;
                }
                _ => {}
            }
        }
        health
    }
}

/// Compares the value of a pod in a reading with the largest one of others.
fn compare(
    metric: &HealthMetric,
    reading: &HealthReading,
    member: &Member,
    others: &[&Member],
) -> Health {
    let counts_throttling = *metric == HealthMetric::Throttling;
    // A query gives no value for a pod without errors, and none of throttling without a limit.
    let value_of = |it: &Member| {
        let value = reading.values.as_ref()?.get(&it.pod.key.name).copied();
        let may_lack = !counts_throttling || cpu_limits(it).next().is_none();
        value.or(may_lack.then_some(0.0))
    };
    let Some(value) = value_of(member).filter(|_| reading.values.is_some()) else {
        return Health::Unknown;
    };
    if !metric.is_worse(value, 0.0) || others.is_empty() {
        return Health::Well;
    }
    let largest = others.iter().filter_map(|it| value_of(it)).reduce(f64::max);
    match (largest, metric) {
        (None, _) => Health::Unknown,
        (Some(largest), _) if !metric.is_worse(value, largest) => Health::Well,
        (Some(largest), HealthMetric::Throttling) => {
            Health::Worse(Failure::Throttled { value, largest })
        }
        (Some(largest), HealthMetric::Expression(_)) => {
            Health::Worse(Failure::Query { value, largest })
        }
    }
}

/// The containers of a pod with a CPU limit, so that the kubelet counts their CPU periods, and the limits.
fn cpu_limits<'a>(member: &'a Member) -> impl Iterator<Item = (&'a str, &'a Quantity)> {
    let containers = sized_containers(member.running, true);
    containers.filter_map(|it| Some((&*it.name, effective(it)[1].get(&ResourceName::Cpu)?)))
}

/// Whether a container has a smaller CPU limit than in another pod.
fn has_less_cpu(member: &Member, other: &Member) -> bool {
    cpu_limits(member).any(|(name, limit)| {
        let mut others = cpu_limits(other);
        let of_other = others.find(|(known, _)| *known == name);
        of_other.is_none_or(|(_, other)| other > limit)
    })
}
