//! Crane's replicas recommender: the number of pods that keeps the percentile of the workload's
//! usage at the target utilisation of their requests.
//!
//! `replicas = ceil(percentile / (target utilisation * request of one pod))` for CPU and memory,
//! the larger of the two. CPU usage is the history and the forecast together, in cores; memory
//! usage is the history, in bytes. Source: gocrane/crane `pkg/recommendation/recommender/replicas`.
//! Unlike there, memory uses the memory series: Crane passes the CPU series to the memory half, so
//! that its memory replicas are practically always one.

use model::{Cpu, Memory};

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

const EMPTY: &str = "there are no values";
/// Too few values for the share, or a share outside 0 (exclusive) to 1.
const OUT_OF_BOUNDS: &str = "the list is too short for this percentile";

/// The percentile at a share above 0 and at most 1.
/// The value at rank `share * count`, or the mean of the two neighbours. Source: montanaflynn/stats
/// 0.6.6 `percentile.go` (`Percentile`), which Crane uses.
pub fn percentile(values: &[f64], share: f64) -> Result<f64, &'static str> {
    match values {
        [] => return Err(EMPTY),
        [only] => return Ok(*only),
        _ => {}
    }
    if !(share > 0.0 && share <= 1.0) {
        return Err(OUT_OF_BOUNDS);
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    // Through percent and back, as in the source: the last bit decides whether a rank is whole.
    let rank = share * 100.0 / 100.0 * sorted.len() as f64;
    let below = rank as usize;
    if below == 0 {
        return Err(OUT_OF_BOUNDS);
    }
    let is_whole = rank.fract() == 0.0;
    match (sorted.get(below - 1), sorted.get(below)) {
        (Some(value), Some(next)) if !is_whole => Ok(f64::midpoint(*value, *next)),
        (Some(value), _) => Ok(*value),
        (None, _) => Err(OUT_OF_BOUNDS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[f64], share: f64, expected: Result<f64, &'static str>) {
        assert_eq!(percentile(values, share), expected, "{values:?} at {share}");
    }

    #[test]
    fn a_whole_rank_is_one_value_and_any_other_the_mean_of_two() {
        check(&[3.0, 1.0, 2.0, 4.0], 0.5, Ok(2.0));
        check(&[3.0, 1.0, 2.0, 4.0], 0.6, Ok(2.5));
        check(&[3.0, 1.0, 2.0, 4.0], 1.0, Ok(4.0));
        check(&[7.0], 0.1, Ok(7.0));
    }

    #[test]
    fn a_share_before_the_first_rank_has_no_percentile() {
        check(&[], 0.5, Err(EMPTY));
        check(&[1.0, 2.0], 0.1, Err(OUT_OF_BOUNDS));
        check(&[1.0, 2.0], 0.0, Err(OUT_OF_BOUNDS));
        check(&[1.0, 2.0], 1.1, Err(OUT_OF_BOUNDS));
        check(&[1.0, 2.0], f64::NAN, Err(OUT_OF_BOUNDS));
    }
}
