//! Samples of workloads, summed from rounds of container usage, for predictions without Prometheus.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use horizontal::predictions::{Query, Resource};
use jiff::Timestamp;
use sources::ContainerUsage;
use view::ObjectKey;

#[derive(Clone, Debug)]
pub struct Round {
    /// Time at which it was read.
    pub at: Timestamp,
    pub usage: Arc<Vec<ContainerUsage>>,
    /// Ready pods without a sample, although they have run for some rounds.
    pub unmeasured: Arc<Vec<ObjectKey>>,
}

/// Share of a workload's pods that must have samples. Their sum counts for all.
const LEAST_MEASURED: f64 = 0.9;

#[derive(Default)]
pub(super) struct ByNamespace<'a>(HashMap<&'a str, OfNamespace<'a>>);

#[derive(Default)]
struct OfNamespace<'a> {
    usage: Vec<&'a ContainerUsage>,
    unmeasured: Vec<&'a str>,
}

impl<'a> ByNamespace<'a> {
    pub(super) fn new(round: &'a Round) -> Self {
        let mut found = Self::default();
        for usage in round.usage.iter() {
            let own = found.0.entry(&usage.container.namespace).or_default();
            own.usage.push(usage);
        }
        for pod in round.unmeasured.iter() {
            let own = found.0.entry(&pod.namespace).or_default();
            own.unmeasured.push(&pod.name);
        }
        found
    }

    /// Usage of the pods of a workload in cores or bytes; `None` without samples of nearly all pods, or
    /// for a query that is not about usage.
    pub(super) fn sum(&self, query: &Query) -> Option<f64> {
        let Query::Workload {
            namespace,
            pods,
            resource,
        } = query
        else {
            return None;
        };
        let OfNamespace { usage, unmeasured } = self.0.get(namespace.as_str())?;
        let usage = usage.iter();
        let own = usage.filter(|usage| pods.include(&usage.container.pod));
        let measured: BTreeSet<_> = own.clone().map(|usage| &usage.container.pod).collect();
        let missing = unmeasured.iter().filter(|pod| pods.include(pod)).count();
        let share = measured.len() as f64 / (measured.len() + missing) as f64;
        if share < LEAST_MEASURED {
            return None;
        }
        let amount = |usage: &&ContainerUsage| match resource {
            Resource::Cpu => usage.sample.cpu.map(model::Cpu::cores),
            Resource::Memory => usage.sample.memory.map(|memory| memory.bytes() as f64),
        };
        let sum = own.filter_map(amount).reduce(|one, other| one + other)?;
        Some(sum / share)
    }
}

#[cfg(test)]
mod tests {
    use horizontal::PodNamePattern;
    use model::{ContainerRef, Cpu, Memory, Sample};

    use super::*;

    fn usage(namespace: &str, pod: &str, millicores: i64) -> ContainerUsage {
        let container = ContainerRef {
            namespace: namespace.to_owned(),
            pod: pod.to_owned(),
            container: "app".to_owned(),
        };
        let cpu = Some(Cpu::from_millicores(millicores));
        let sample = Sample {
            at: Timestamp::UNIX_EPOCH,
            cpu,
            memory: None::<Memory>,
        };
        ContainerUsage { container, sample }
    }

    fn check(workload: &str, resource: Resource, expected: Option<f64>) {
        let usage = vec![
            usage("shop", "web-6d5f8-x2x9z", 250),
            usage("shop", "web-6d5f8-aaaaa", 500),
            usage("shop", "web-admin-6d5f8-aaaaa", 8000),
            usage("bank", "web-6d5f8-bbbbb", 8000),
        ];
        let round = Round {
            at: Timestamp::UNIX_EPOCH,
            usage: Arc::new(usage),
            unmeasured: Arc::default(),
        };
        let pods = PodNamePattern::new("Deployment", workload);
        let query = Query::Workload {
            namespace: "shop".to_owned(),
            pods,
            resource,
        };
        assert_eq!(ByNamespace::new(&round).sum(&query), expected, "{workload}");
    }

    #[test]
    fn the_pods_of_a_workload_are_summed_and_missing_usage_is_not_zero() {
        check("web", Resource::Cpu, Some(0.75));
        check("web-admin", Resource::Cpu, Some(8.0));
        check("web", Resource::Memory, None);
        check("api", Resource::Cpu, None);
    }

    /// The sum over a workload of ten pods with a core each, of which some have no sample.
    fn check_missing(missing: usize, expected: Option<f64>) {
        let pod = |number: usize| format!("web-6d5f8-aaaa{number}");
        let round = Round {
            at: Timestamp::UNIX_EPOCH,
            usage: Arc::new(
                (missing..10)
                    .map(|number| usage("shop", &pod(number), 1000))
                    .collect(),
            ),
            unmeasured: Arc::new(
                (0..missing)
                    .map(|number| ObjectKey::new("shop", pod(number)))
                    .chain([ObjectKey::new("shop", "api-6d5f8-aaaa1")])
                    .collect(),
            ),
        };
        let query = Query::Workload {
            namespace: "shop".to_owned(),
            pods: PodNamePattern::new("Deployment", "web"),
            resource: Resource::Cpu,
        };
        let sum = ByNamespace::new(&round).sum(&query);
        let is_close = |sum: f64| expected.is_some_and(|expected| (sum - expected).abs() < 1e-9);
        assert!(
            sum.map_or(expected.is_none(), is_close),
            "{missing}: {sum:?}"
        );
    }

    #[test]
    fn nearly_all_pods_count_for_all_and_fewer_are_no_sample() {
        check_missing(0, Some(10.0));
        check_missing(1, Some(10.0));
        check_missing(3, None);
        check_missing(10, None);
    }
}
