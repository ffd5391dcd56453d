//! Crane's replicas recommender: the number of pods that keeps the percentile of the workload's
//! usage at the target utilisation of their requests.
//!
//! `replicas = ceil(percentile / (target utilisation * request of one pod))` for CPU and memory,
//! the larger of the two. CPU usage is the history and the forecast together, in cores; memory
//! usage is the history, in bytes. Source: gocrane/crane `pkg/recommendation/recommender/replicas`.
//! Unlike there, memory uses the memory series: Crane passes the CPU series to the memory half, so
//! that its memory replicas are practically always one.

use model::{Cpu, Memory};

use crate::percentile::percentile;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResourceTarget {
    /// Percentile of usage, as a fraction (`cpu-percentile`, `mem-percentile`).
    pub percentile: f64,
    /// Target utilisation of the requests (`cpu-target-utilization`, `mem-target-utilization`).
    pub utilization: f64,
}

impl Default for ResourceTarget {
    fn default() -> Self {
        Self {
            percentile: 0.95,
            utilization: 0.5,
        }
    }
}

/// Settings, with Crane's defaults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReplicasConfig {
    pub cpu: ResourceTarget,
    pub memory: ResourceTarget,
    /// Minimum number of replicas, at least one (`default-min-replicas`).
    pub min_replicas: u32,
}

impl Default for ReplicasConfig {
    fn default() -> Self {
        Self {
            cpu: ResourceTarget::default(),
            memory: ResourceTarget::default(),
            min_replicas: 1,
        }
    }
}

/// Requests of one container of the pod template.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContainerRequests {
    pub cpu: Option<Cpu>,
    pub memory: Option<Memory>,
}

/// Recommended replicas and their inputs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Replicas {
    pub count: u32,
    /// The largest CPU usage, in cores.
    pub max_cpu: f64,
    pub percentile_cpu: f64,
}

impl ReplicasConfig {
    /// The recommendation for a workload whose pods have these containers, or the reason for none.
    pub fn recommend(
        &self,
        cpu_history: &[f64],
        cpu_forecast: &[f64],
        memory_history: &[f64],
        containers: &[ContainerRequests],
    ) -> Result<Replicas, String> {
        let cpu: Vec<f64> = cpu_history.iter().chain(cpu_forecast).copied().collect();
        let percentile_cpu = percentile(&cpu, self.cpu.percentile);
        let percentile_cpu = percentile_cpu.map_err(|error| format!("cpu usage: {error}"))?;
        let pod_cpu = total(containers, |container| container.cpu.map(Cpu::cores));
        let pod_cpu = pod_cpu.ok_or("a container has no cpu request")?;
        let for_cpu = self.cpu.replicas(percentile_cpu, pod_cpu);

        let used = percentile(memory_history, self.memory.percentile);
        let used = used.map_err(|error| format!("memory usage: {error}"))?;
        let bytes = |memory: Memory| memory.bytes() as f64;
        let pod_memory = total(containers, |container| container.memory.map(bytes));
        let pod_memory = pod_memory.ok_or("a container has no memory request")?;
        let for_memory = self.memory.replicas(used, pod_memory);

        Ok(Replicas {
            count: for_cpu.max(for_memory).max(self.min_replicas).max(1),
            max_cpu: cpu.iter().copied().fold(0.0, f64::max),
            percentile_cpu,
        })
    }
}

impl ResourceTarget {
    /// Saturates to 32 bits.
    fn replicas(&self, used: f64, pod_request: f64) -> u32 {
        (used / (self.utilization * pod_request)).ceil() as u32
    }
}

/// The request of a pod; `None` unless every container has one.
fn total(
    containers: &[ContainerRequests],
    request: impl Fn(&ContainerRequests) -> Option<f64>,
) -> Option<f64> {
    let total: f64 = containers.iter().map(request).sum::<Option<f64>>()?;
    (total > 0.0).then_some(total)
}
