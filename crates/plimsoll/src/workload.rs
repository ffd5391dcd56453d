//! Containers by workload, and the total usage of a workload's pods.

use std::collections::BTreeMap;

use replay::horizontal::Demand;
use replay::{Resource, Series};

use crate::usage::{ContainerId, ContainerUsage};

/// Containers of the pods of one workload, at least one.
pub(crate) struct Workload<'a> {
    pub(crate) containers: Vec<&'a ContainerUsage>,
}

/// The workloads, in the order of their names.
pub(crate) fn workloads(usage: &[ContainerUsage]) -> Vec<Workload<'_>> {
    let mut workloads: BTreeMap<_, Vec<&ContainerUsage>> = BTreeMap::new();
    for usage in usage {
        workloads.entry(usage.id.pod()).or_default().push(usage);
    }
    let workloads = workloads.into_values();
    let workloads = workloads.map(|containers| Workload { containers });
    workloads.collect()
}

impl Workload<'_> {
    /// Namespace and workload without a container.
    pub(crate) fn id(&self) -> ContainerId {
        ContainerId {
            container: String::new(),
            ..self.containers[0].id.clone()
        }
    }

    pub(crate) fn present_pods(&self) -> usize {
        let pods = self.containers.iter().map(|usage| usage.present_pods());
        pods.max().unwrap_or(0)
    }

    /// Usage of all pods per minute in millicores or MiB. A slot longer than a minute counts for each of
    /// its minutes; of several slots in a minute, their mean counts. `None` without samples.
    pub(crate) fn total(&self, resource: Resource) -> Option<Demand> {
        let pods = self.containers.iter().flat_map(|it| it.series(resource));
        let pods: Vec<Series> = pods.collect();
        let start = pods.iter().map(|pod| pod.start).min()?.div_euclid(60) * 60;
        let mut minutes: Vec<Option<f64>> = Vec::new();
        for pod in &pods {
            let first = usize::try_from((pod.start - start) / 60).ok()?;
            let step = usize::try_from(pod.step).ok()?;
            let count = (pod.usage.len() * step).div_ceil(60);
            minutes.resize(minutes.len().max(first + count), None);
            for (index, minute) in minutes[first..first + count].iter_mut().enumerate() {
                let from = index * 60 / step;
                let to = ((index + 1) * 60 / step).clamp(from + 1, pod.usage.len());
                let slots = &pod.usage[from..to];
                let mean = slots.iter().sum::<f64>() / slots.len() as f64;
                *minute.get_or_insert(0.0) += mean;
            }
        }
        Some(Demand { start, minutes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::tests::usage as usage_of;
    use crate::usage::{PodUsage, Resources};

    fn usage(container: &str, step: i64, amounts: &[f64]) -> ContainerUsage {
        let samples = amounts.iter().enumerate();
        let cpu = samples.map(|(index, amount)| (600 + index as i64 * step, *amount));
        let pod = PodUsage {
            cpu: cpu.collect(),
            ..PodUsage::default()
        };
        let mut usage = usage_of("deployment/web", Resources::default(), &[pod]);
        container.clone_into(&mut usage.id.container);
        usage
    }

    #[test]
    fn totals_are_the_usage_of_all_containers_per_minute() {
        let usage = [
            usage("app", 120, &[100.0, 200.0]),
            usage("sidecar", 30, &[50.0, 150.0, 300.0, 300.0]),
        ];
        let workloads = workloads(&usage);
        assert_eq!(workloads.len(), 1);
        let expected = Demand {
            start: 600,
            minutes: [200.0, 400.0, 200.0, 200.0].map(Some).into(),
        };
        assert_eq!(workloads[0].total(Resource::Cpu), Some(expected));
        assert_eq!(workloads[0].total(Resource::Memory), None);
    }
}
