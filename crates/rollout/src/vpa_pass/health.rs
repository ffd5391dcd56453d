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
        let same = |it: &&&Member| revision(it.pod) == revision(member.pod);
        let is_settled = |it: &&&Member| {
            let ready_since = it.running.ready_since;
            let ready_for = ready_since.map(|since| self.context.now.since(since));
            ready_for.is_some_and(|it| it >= proven_after)
        };
        for query in queries {
            let counts_throttling = query.metric == HealthMetric::Throttling;
            // No smaller limit, no throttling by the new requests.
            if counts_throttling && !others.iter().any(|it| has_less_cpu(member, it)) {
                continue;
            }
            let reading = self.context.snapshot.health.get(query);
            let is_recent = |reading: &&HealthReading| {
                let age = self.context.now.monotonic.saturating_sub(reading.began);
                well_for.saturating_sub(age) >= proven_after
            };
            let Some(reading) = reading.map(AsRef::as_ref).filter(is_recent) else {
                return Health::Unread;
            };
            // A query gives no value for a pod without errors, and none of throttling without a limit.
            let value = |it: &Member| {
                let value = reading.values.as_ref()?.get(&it.pod.key.name).copied();
                let may_lack = !counts_throttling || cpu_limits(it).next().is_none();
                value.or(may_lack.then_some(0.0))
            };
            let own = value(member).filter(|_| reading.values.is_some());
            let Some(own) = own else {
                health = Health::Unknown;
                continue;
            };
            let mut others = others.iter().filter(is_settled).filter(same).peekable();
            if !query.metric.is_worse(own, 0.0) || others.peek().is_none() {
                continue;
            }
            let Some(largest) = others.filter_map(|it| value(it)).reduce(f64::max) else {
                health = Health::Unknown;
                continue;
            };
            if query.metric.is_worse(own, largest) {
                return Health::Worse(match query.metric {
                    HealthMetric::Throttling => Failure::Throttled {
                        value: own,
                        largest,
                    },
                    HealthMetric::Expression(_) => Failure::Query {
                        value: own,
                        largest,
                    },
                });
            }
        }
        health
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
