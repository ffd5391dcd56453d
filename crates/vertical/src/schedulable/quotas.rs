//! Requests of the pods in namespaces with quotas. They are added up here, since the status of a
//! quota lags behind: inconsistent numbers would make recommendations jump.

use std::collections::BTreeMap;
use std::sync::Arc;

use sizing::{Amounts, Ceiling, QuotaUsage};
use view::{ObjectKey, Pod, Quota, View};

use super::node_inputs::amounts;

/// All quotas, with the requests and limits of all pods that each one counts.
pub(super) struct Quotas<'a>(BTreeMap<&'a ObjectKey, (&'a Quota, (Amounts, Amounts))>);

impl<'a> Quotas<'a> {
    pub(super) fn of(view: &'a View) -> Self {
        let quotas = view.quotas.iter().map(|quota| {
            let pending = view.pending_pods.in_namespace(&quota.key.namespace);
            let pods = view.pods.in_namespace(&quota.key.namespace).chain(pending);
            (&quota.key, (&**quota, sum(counted(quota, pods))))
        });
        Self(quotas.collect())
    }

    /// The room that the quotas of a namespace leave for each pod of a workload.
    pub(super) fn ceilings(
        &self,
        namespace: &str,
        like: &Pod,
        pods: &[&Arc<Pod>],
        replicas: u32,
    ) -> Vec<Ceiling> {
        let first = ObjectKey::new(namespace, "");
        let quotas = self
            .0
            .range::<ObjectKey, _>(first..)
            .take_while(|(key, _)| key.namespace == namespace);
        let counting = quotas.filter(|(_, (quota, _))| counts(quota, like));
        let ceilings = counting.flat_map(|(key, (quota, all))| {
            let own: Vec<_> = counted(quota, pods.iter().copied()).collect();
            let sum = sum(own.iter().copied());
            let facts = QuotaUsage {
                name: &key.name,
                hard: &quota.hard,
                others: (all.0 - sum.0, all.1 - sum.1),
                own: sum,
                pods: u32::try_from(own.len()).unwrap_or(u32::MAX),
                replicas,
            };
            facts.ceilings()
        });
        ceilings.collect()
    }
}

fn counted<'a>(
    quota: &Quota,
    pods: impl Iterator<Item = &'a Arc<Pod>>,
) -> impl Iterator<Item = &'a Arc<Pod>> {
    pods.filter(|pod| !pod.is_finished() && counts(quota, pod))
}

fn counts(quota: &Quota, pod: &Pod) -> bool {
    pod.placement
        .as_ref()
        .is_some_and(|placement| quota.counts(placement))
}

fn sum<'a>(pods: impl Iterator<Item = &'a Arc<Pod>>) -> (Amounts, Amounts) {
    pods.map(|pod| pod.requirements()).fold(
        Default::default(),
        |(requests, limits): (Amounts, Amounts), asked| {
            (
                requests + amounts(asked.requests),
                limits + amounts(asked.limits),
            )
        },
    )
}
