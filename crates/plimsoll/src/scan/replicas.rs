//! Recommended replicas: Crane's replicas recommendation, and workloads that do next to nothing.
//!
//! Replicas keep the 95th percentile of the usage of all pods at half of their requests, CPU and
//! memory, with the recorded requests and Crane's defaults ([`scaling::ReplicasConfig`]). Unlike
//! Crane, no forecast is added.

use rayon::prelude::*;
use replay::Resource;
use scaling::{ContainerRequests, ReplicasConfig};
use serde::Serialize;

use crate::output::Table;
use crate::usage::{ContainerUsage, MIB};
use crate::workload::{Workload, workloads};

/// The largest CPU usage of an idle workload's pod, in millicores.
const IDLE_MILLICORES: f64 = 2.0;
/// Least length of a recording that shows that a workload is idle, in minutes.
const IDLE_MINUTES: usize = 24 * 60;

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ScannedReplicas {
    namespace: String,
    workload: String,
    pods: usize,
    /// Recommended replicas; `None` with the reason.
    recommended: Option<u32>,
    reason: Option<String>,
    /// Whether no pod used more than 2m of CPU within the recording, of at least a day.
    is_idle: bool,
}

fn has_replicas(workload: &str) -> bool {
    let kind = workload.split('/').next().unwrap_or_default();
    let without = ["daemonset", "job", "cronjob", "node", "pod"];
    !without.iter().any(|it| kind.eq_ignore_ascii_case(it))
}

pub(super) fn replicas(usage: &[ContainerUsage]) -> Vec<ScannedReplicas> {
    let mut workloads = workloads(usage);
    workloads.retain(|workload| has_replicas(&workload.id().workload));
    workloads.par_iter().map(of_workload).collect()
}

fn of_workload(workload: &Workload<'_>) -> ScannedReplicas {
    let known = |minutes: Vec<Option<f64>>, unit: f64| -> Vec<f64> {
        minutes.into_iter().flatten().map(|it| it * unit).collect()
    };
    let [cpu, memory] = [Resource::Cpu, Resource::Memory].map(|resource| {
        let total = workload.total(resource);
        total.map_or_else(Vec::new, |it| it.minutes)
    });
    let pods = workload.present_pods();
    let samples = workload.containers.iter().flat_map(|usage| &usage.pods);
    let highest = samples.flat_map(|pod| &pod.cpu).map(|(_, amount)| *amount);
    let is_idle = cpu.len() >= IDLE_MINUTES && highest.fold(0.0, f64::max) <= IDLE_MILLICORES;
    let requests = workload.containers.iter().map(|usage| ContainerRequests {
        cpu: usage.requests.cpu,
        memory: usage.requests.memory,
    });
    let requests: Vec<ContainerRequests> = requests.collect();
    let config = ReplicasConfig::default();
    let found = config.recommend(&known(cpu, 0.001), &[], &known(memory, MIB), &requests);
    let id = workload.id();
    ScannedReplicas {
        namespace: id.namespace,
        workload: id.workload,
        pods,
        recommended: found.as_ref().ok().map(|replicas| replicas.count),
        reason: found.err(),
        is_idle,
    }
}

pub(super) fn table(replicas: &[ScannedReplicas]) -> Table {
    let columns = "Namespace=namespace|Workload=workload| Pods=pods| Recommended=recommended|Note";
    let mut table = Table::of("Replicas", columns, replicas);
    for (row, it) in table.rows.iter_mut().zip(replicas) {
        row.cells[4] = match (&it.reason, it.is_idle) {
            (_, true) => "idle: no pod used more than 2m of CPU".to_owned(),
            (reason, false) => reason.clone().unwrap_or_default(),
        };
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::tests::{constant, resources, usage as usage_of};

    fn usage(workload: &str, millicores: f64, request: Option<i64>) -> ContainerUsage {
        let pod = constant(2, Some(millicores), Some(100.0));
        let requests = resources(request, Some(1 << 30));
        usage_of(workload, requests, &[pod.clone(), pod])
    }

    #[test]
    fn the_percentile_of_all_pods_is_half_of_the_requests() {
        let found = replicas(&[
            usage("daemonset/agent", 500.0, Some(100)),
            usage("deployment/idle", 1.0, Some(100)),
            // 3 cores of two pods at half a core each.
            usage("deployment/web", 1500.0, Some(1000)),
            usage("statefulset/queue", 1500.0, None),
        ]);
        let found: Vec<_> = found
            .iter()
            .map(|it| (it.workload.as_str(), it.pods, it.recommended, it.is_idle))
            .collect();
        let expected = [
            ("deployment/idle", 2, Some(1), true),
            ("deployment/web", 2, Some(6), false),
            ("statefulset/queue", 2, None, false),
        ];
        assert_eq!(found, expected);
    }
}
