//! Samples of workloads, summed from rounds of container usage, for predictions without Prometheus.

use std::collections::HashMap;
use std::sync::Arc;

use horizontal::predictions::{Query, Resource};
use jiff::Timestamp;
use sources::ContainerUsage;

/// Round of usage.
#[derive(Clone, Debug)]
pub struct Round {
    /// Time at which it was read.
    pub at: Timestamp,
    /// Samples of all containers.
    pub usage: Arc<Vec<ContainerUsage>>,
}

/// Round of usage by namespace.
pub(super) struct ByNamespace<'a>(HashMap<&'a str, Vec<&'a ContainerUsage>>);

impl<'a> ByNamespace<'a> {
    pub(super) fn new(round: &'a Round) -> Self {
        let mut namespaces: HashMap<&str, Vec<_>> = HashMap::new();
        for usage in round.usage.iter() {
            namespaces
                .entry(&usage.container.namespace)
                .or_default()
                .push(usage);
        }
        Self(namespaces)
    }

    /// Usage of the pods of a workload in cores or bytes; `None` without samples, or for a query
    /// that is not about usage.
    pub(super) fn sum(&self, query: &Query) -> Option<f64> {
        let Query::Workload {
            namespace,
            pods,
            resource,
        } = query
        else {
            return None;
        };
        let own = self
            .0
            .get(namespace.as_str())?
            .iter()
            .filter(|usage| pods.include(&usage.container.pod));
        let amount = |usage: &&ContainerUsage| match resource {
            Resource::Cpu => usage.sample.cpu.map(model::Cpu::cores),
            Resource::Memory => usage.sample.memory.map(|memory| memory.bytes() as f64),
        };
        own.filter_map(amount).reduce(|one, other| one + other)
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
}
