//! `LowRiskOverCommitment`: little risk from limits above the capacity and from measured load.

use crate::beta::probability;
use crate::load_variation_risk_balancing::mean_and_deviation;
use crate::{Amounts, Usage, rounded};

/// Arguments of the plugin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LowRiskOverCommitment {
    /// Number of samples that the metrics are smoothed over.
    pub smoothing_window_size: i64,
    /// Weight of the risk from limits, for CPU, 0 to 1.
    pub cpu_limit_weight: f64,
    /// Weight of the risk from limits, for memory, 0 to 1.
    pub memory_limit_weight: f64,
}

/// Requests and limits of pods: of those on a node, and of the pod to place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Commitment {
    /// Sum of requests.
    pub requests: Amounts,
    /// Sum of limits, each at least the request of its pod.
    pub limits: Amounts,
}

impl Default for LowRiskOverCommitment {
    fn default() -> Self {
        Self::new(None, None, None)
    }
}

impl Commitment {
    /// The saturated sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            requests: self.requests.plus(other.requests),
            limits: self.limits.plus(other.limits),
        }
    }
}

/// One resource of a node, in one unit.
#[derive(Clone, Copy, Debug)]
struct Resource {
    capacity: f64,
    /// Without the pod to place.
    requests: f64,
    /// Without the pod to place.
    limits: f64,
    pod_requests: f64,
    pod_limits: f64,
}

impl LowRiskOverCommitment {
    /// Arguments as configured. A missing or non-positive window is 5; a weight that is missing or
    /// not in 0 to 1 is 0.5.
    pub fn new(window: Option<i64>, cpu_weight: Option<f64>, memory_weight: Option<f64>) -> Self {
        let weight = |given: Option<f64>| given.filter(|weight| (0.0..=1.0).contains(weight));
        Self {
            smoothing_window_size: window.filter(|window| *window > 0).unwrap_or(5),
            cpu_limit_weight: weight(cpu_weight).unwrap_or(0.5),
            memory_limit_weight: weight(memory_weight).unwrap_or(0.5),
        }
    }

    /// Score of a node that has metrics. `pods` are those on the node, without `pod`. A pod without
    /// requests and limits has the score 0 on every node.
    ///
    /// `reserved` is the load of pods that the metrics do not include yet.
    pub fn score(
        &self,
        (cpu, memory): (Option<Usage>, Option<Usage>),
        allocatable: Amounts,
        pods: Commitment,
        pod: Commitment,
        reserved: Amounts,
    ) -> i64 {
        if pod == Commitment::default() {
            return 0;
        }
        let resource = |amount: fn(Amounts) -> i64| Resource {
            capacity: amount(allocatable) as f64,
            requests: amount(pods.requests) as f64,
            limits: amount(pods.limits) as f64,
            pod_requests: amount(pod.requests) as f64,
            pod_limits: amount(pod.limits) as f64,
        };
        let cores = resource(|amounts| amounts.cpu_millicores);
        let bytes = resource(|amounts| amounts.memory_bytes);
        let (more_cpu, more_memory) = (reserved.cpu_millicores, reserved.memory_bytes);
        let cpu_risk = self.risk(cores, cpu, more_cpu as f64, self.cpu_limit_weight);
        let memory_risk = self.risk(bytes, memory, more_memory as f64, self.memory_limit_weight);
        rounded(100.0 * (1.0 - cpu_risk.max(memory_risk)))
    }

    fn risk(&self, resource: Resource, usage: Option<Usage>, reserved: f64, weight: f64) -> f64 {
        let load = usage.map_or(0.0, |usage| self.load_risk(resource, usage, reserved));
        (weight * limit_risk(resource) + (1.0 - weight) * load).clamp(0.0, 1.0)
    }

    /// Probability that the load exceeds the requests of the pods on the node.
    fn load_risk(&self, resource: Resource, usage: Usage, reserved: f64) -> f64 {
        let Resource {
            capacity, limits, ..
        } = resource;
        let requests = resource.requests.min(capacity);
        let (mean, deviation) = mean_and_deviation(usage, capacity, reserved).unwrap_or((0.0, 0.0));
        let deviation = deviation * (self.smoothing_window_size.max(0) as f64).sqrt();
        let deviation = deviation.min((0.99 * mean * (1.0 - mean)).max(0.0).sqrt());
        let threshold = if capacity > 0.0 {
            (requests / capacity).clamp(0.0, 1.0)
        } else {
            0.0
        };
        let (mut probability, fit) = probability(mean, deviation, threshold);
        if limits < capacity && requests <= limits {
            let most = limits / capacity;
            let below_limits = fit.map_or(0.0, |fit| fit.distribution(most));
            if most <= 0.0 {
                probability = 1.0;
            } else if below_limits > 0.0 {
                probability = (probability / below_limits).clamp(0.0, 1.0);
            }
        }
        1.0 - probability
    }
}

/// Share of the limits above requests that exceeds the capacity.
fn limit_risk(resource: Resource) -> f64 {
    let limits = resource.limits + resource.pod_limits;
    let requests = (resource.requests + resource.pod_requests).min(resource.capacity);
    if limits > resource.capacity {
        (limits - resource.capacity) / (limits - requests)
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(average_percent: f64, deviation_percent: f64) -> Usage {
        Usage {
            average_percent,
            deviation_percent,
        }
    }

    /// Requests and limits with the pod; then those without.
    fn check(capacity: f64, with: (f64, f64), without: (f64, f64), usage: Usage, expected: f64) {
        let resource = Resource {
            capacity,
            requests: without.0,
            limits: without.1,
            pod_requests: with.0 - without.0,
            pod_limits: with.1 - without.1,
        };
        let plugin = LowRiskOverCommitment::default();
        let found = plugin.risk(resource, Some(usage), 0.0, 0.5);
        assert!((found - expected).abs() < 1e-3, "{resource:?}: {found}");
    }

    #[test]
    fn upstreams_examples_have_their_risks() {
        let cpu = usage(80.0, 0.0);
        let memory = usage(25.0, 0.0);
        check(4000.0, (2000.0, 3000.0), (1000.0, 2000.0), cpu, 0.5);
        check(4096.0, (2048.0, 6144.0), (0.0, 0.0), memory, 0.25);
        check(4000.0, (4000.0, 5000.0), (3000.0, 4000.0), cpu, 1.0);
        check(4096.0, (1024.0, 7168.0), (512.0, 6144.0), memory, 0.75);
        let half = usage(50.0, 10.0);
        check(4000.0, (2000.0, 6000.0), (1000.0, 3000.0), half, 0.657_407);
        check(4000.0, (2000.0, 6000.0), (1000.0, 5000.0), half, 0.671_875);
        let low = usage(20.0, 5.0);
        check(4000.0, (2000.0, 3000.0), (1500.0, 2000.0), low, 0.033_184);
        let idle = usage(0.0, 0.0);
        check(4000.0, (1000.0, 8000.0), (0.0, 4000.0), idle, 0.285_714);
        let full = usage(100.0, 0.0);
        check(4000.0, (3000.0, 5000.0), (2000.0, 4000.0), full, 0.75);
    }

    /// The measured cluster of the proposal: three nodes of 3,910 millicores.
    #[test]
    fn the_measured_cluster_of_the_proposal_has_its_risks() {
        for (requests, limits, used, deviation, expected) in [
            (2617.0, 5816.0, 2452.89, 467.45, 0.563),
            (2544.0, 4620.0, 1901.78, 606.49, 0.371),
            (3568.0, 4380.0, 1326.75, 421.59, 0.297),
        ] {
            let percent = |amount: f64| amount / 3910.0 * 100.0;
            let usage = usage(percent(used), percent(deviation));
            let without = (requests - 100.0, limits);
            check(3910.0, (requests, limits), without, usage, expected);
        }
    }

    #[test]
    fn arguments_out_of_range_are_replaced() {
        let default = LowRiskOverCommitment::default();
        let given = LowRiskOverCommitment::new(Some(0), Some(1.5), Some(f64::NAN));
        assert_eq!(given, default);
        assert_eq!(default.smoothing_window_size, 5);
    }
}
