//! `LoadVariationRiskBalancing`: a low sum of average and standard deviation of the utilization.

use crate::{Amounts, Usage, rounded};

/// Arguments of the plugin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadVariationRiskBalancing {
    /// Factor on the standard deviation. With a Gaussian load, 1, 2 and 3 leave a chance of 16,
    /// 2.5 and 0.15 % of exceeding the capacity.
    pub safe_variance_margin: f64,
    /// Root of the standard deviation. 0 ignores deviations below the capacity; negative: no root.
    pub safe_variance_sensitivity: f64,
}

impl Default for LoadVariationRiskBalancing {
    fn default() -> Self {
        Self {
            safe_variance_margin: 1.0,
            safe_variance_sensitivity: 1.0,
        }
    }
}

/// Average and standard deviation of a resource as fractions of the capacity, each 0 to 1.
/// `None` without capacity.
pub(crate) fn mean_and_deviation(usage: Usage, capacity: f64, added: f64) -> Option<(f64, f64)> {
    if capacity <= 0.0 {
        return None;
    }
    let amount = |percent: f64| (percent * capacity / 100.0).min(capacity).max(0.0);
    let mean = (amount(usage.average_percent) + added.max(0.0)) / capacity;
    let deviation = amount(usage.deviation_percent) / capacity;
    Some((mean.clamp(0.0, 1.0), deviation.clamp(0.0, 1.0)))
}

impl LoadVariationRiskBalancing {
    /// Score of one resource before rounding. `added` has the unit of `capacity`.
    pub fn resource_score(&self, usage: Usage, capacity: f64, added: f64) -> f64 {
        let Some((mean, deviation)) = mean_and_deviation(usage, capacity, added) else {
            return 0.0;
        };
        let mut deviation = deviation;
        if self.safe_variance_sensitivity >= 0.0 {
            deviation = deviation.powf(1.0 / self.safe_variance_sensitivity);
        }
        let deviation = (deviation * self.safe_variance_margin).clamp(0.0, 1.0);
        (1.0 - f64::midpoint(mean, deviation)) * 100.0
    }

    /// Scores of CPU and memory before rounding; `None` for a resource without metrics.
    ///
    /// `added`: the requests of the pod, and the load of pods that the metrics do not include yet.
    pub fn resource_scores(
        &self,
        cpu: Option<Usage>,
        memory: Option<Usage>,
        allocatable: Amounts,
        added: Amounts,
    ) -> (Option<f64>, Option<f64>) {
        let mebibytes = |bytes: i64| bytes as f64 / (1024.0 * 1024.0);
        let (cores, more) = (allocatable.cpu_millicores, added.cpu_millicores);
        let of_cpu = |usage| self.resource_score(usage, cores as f64, more as f64);
        let (size, more) = (allocatable.memory_bytes, added.memory_bytes);
        let of_memory = |usage| self.resource_score(usage, mebibytes(size), mebibytes(more));
        (cpu.map(of_cpu), memory.map(of_memory))
    }

    /// Score of a node: the lower one of its resources. 0 without metrics.
    pub fn score(
        &self,
        cpu: Option<Usage>,
        memory: Option<Usage>,
        allocatable: Amounts,
        added: Amounts,
    ) -> i64 {
        let (cpu, memory) = self.resource_scores(cpu, memory, allocatable, added);
        let scores = [cpu, memory].into_iter().flatten();
        scores.reduce(f64::min).map_or(0, rounded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upstreams_examples_of_one_resource_have_their_scores() {
        for (margin, sensitivity, capacity, average, deviation, expected) in [
            (1.0, 1.0, 100.0, 40.0, 36.0, 57),
            (1.0, 2.0, 0.0, 40.0, 36.0, 0),
            (1.0, 2.0, 100.0, -40.0, 36.0, 65),
            (1.0, 2.0, 100.0, 200.0, 36.0, 20),
            (1.0, 2.0, 100.0, 40.0, -36.0, 75),
            (1.0, 2.0, 100.0, 40.0, 120.0, 25),
            (-1.0, 1.0, 100.0, 40.0, 36.0, 75),
            (1.0, -1.0, 100.0, 40.0, 36.0, 57),
            (1.0, 0.0, 100.0, 40.0, 36.0, 75),
        ] {
            let plugin = LoadVariationRiskBalancing {
                safe_variance_margin: margin,
                safe_variance_sensitivity: sensitivity,
            };
            let usage = Usage {
                average_percent: average,
                deviation_percent: deviation,
            };
            let found = rounded(plugin.resource_score(usage, capacity, 10.0));
            assert_eq!(found, expected, "{plugin:?} {usage:?}");
        }
    }

    /// The three nodes of KEP-61: 4 CPUs, 8 GB, a pod of 0.5 CPUs and 1 GB.
    #[test]
    fn documented_nodes_have_the_scores_of_the_running_code() {
        let gb = 1_000_000_000;
        let amounts = |cpu_millicores, memory_bytes| Amounts {
            cpu_millicores,
            memory_bytes,
        };
        let usage = |mean: f64, deviation: f64, capacity: f64| {
            Some(Usage {
                average_percent: mean / capacity * 100.0,
                deviation_percent: deviation / capacity * 100.0,
            })
        };
        for (cpu, memory, expected) in [
            ((0.8, 3.2), (1.6, 4.8), [44, 39]),
            ((2.0, 0.04), (6.4, 0.004), [54, 53]),
            ((1.2, 0.4), (3.2, 0.4), [71, 63]),
        ] {
            for (sensitivity, expected) in [1.0, 2.0].into_iter().zip(expected) {
                let plugin = LoadVariationRiskBalancing {
                    safe_variance_sensitivity: sensitivity,
                    ..LoadVariationRiskBalancing::default()
                };
                let found = plugin.score(
                    usage(cpu.0, cpu.1, 4.0),
                    usage(memory.0, memory.1, 8.0),
                    amounts(4000, 8 * gb),
                    amounts(500, gb),
                );
                assert_eq!(found, expected, "{cpu:?} {memory:?} {sensitivity}");
            }
        }
    }

    #[test]
    fn upstreams_examples_of_mean_and_deviation_are_met() {
        for (capacity, added, average, deviation, expected) in [
            (1000.0, 100.0, 400.0, 360.0, Some((0.5, 0.36))),
            (0.0, 0.0, 0.0, 0.0, None),
            (1000.0, 100.0, 1400.0, 300.0, Some((1.0, 0.3))),
            (1000.0, 100.0, 400.0, 1600.0, Some((0.5, 1.0))),
            (1000.0, 0.0, 1400.0, 1600.0, Some((1.0, 1.0))),
            (1000.0, 0.0, -100.0, 200.0, Some((0.0, 0.2))),
            (1000.0, 400.0, 0.0, -200.0, Some((0.4, 0.0))),
        ] {
            let usage = Usage {
                average_percent: average / 10.0,
                deviation_percent: deviation / 10.0,
            };
            let found = mean_and_deviation(usage, capacity, added);
            let distance = |(one, other): ((f64, f64), (f64, f64))| {
                (one.0 - other.0).abs() + (one.1 - other.1).abs()
            };
            assert_eq!(found.is_some(), expected.is_some());
            let distance = found.zip(expected).map_or(0.0, distance);
            assert!(distance < 1e-12, "{capacity} {added}: {found:?}");
        }
    }

    #[test]
    fn upstreams_examples_of_nodes_have_their_scores() {
        const MIB: i64 = 1 << 20;
        let one = |sensitivity| LoadVariationRiskBalancing {
            safe_variance_sensitivity: sensitivity,
            ..LoadVariationRiskBalancing::default()
        };
        let usage = |pair: Option<(f64, f64)>| {
            pair.map(|(average_percent, deviation_percent)| Usage {
                average_percent,
                deviation_percent,
            })
        };
        for (sensitivity, size, pod, cpu, memory, expected) in [
            (1.0, 1000, (0, 0), Some((50.0, 0.0)), None, 75),
            (1.0, 1000, (0, 0), Some((100.0, 0.0)), None, 50),
            (1.0, 1000, (200, 256), Some((30.0, 16.0)), None, 67),
            (
                1.0,
                1000,
                (100, 512),
                Some((40.0, 16.0)),
                Some((50.0, 10.0)),
                45,
            ),
            (
                1.0,
                1000,
                (100, 512),
                Some((80.0, 20.0)),
                Some((25.0, 15.0)),
                45,
            ),
            (1.0, 1000, (0, 0), None, None, 0),
            // The integration test, with a sensitivity of 0, and with 1.
            (0.0, 2000, (300, 0), Some((30.0, 0.0)), None, 78),
            (0.0, 2000, (300, 0), Some((70.0, 20.0)), None, 57),
            (0.0, 2000, (300, 0), Some((40.0, 30.0)), None, 73),
            (0.0, 2000, (100, 0), Some((30.0, 0.0)), None, 83),
            (0.0, 2000, (100, 0), Some((70.0, 20.0)), None, 63),
            (0.0, 2000, (100, 0), Some((40.0, 30.0)), None, 78),
            (1.0, 2000, (300, 0), Some((70.0, 20.0)), None, 48),
            (1.0, 2000, (300, 0), Some((40.0, 30.0)), None, 57),
        ] {
            let size = Amounts {
                cpu_millicores: size,
                memory_bytes: 1024 * MIB,
            };
            let pod = Amounts {
                cpu_millicores: pod.0,
                memory_bytes: pod.1 * MIB,
            };
            let found = one(sensitivity).score(usage(cpu), usage(memory), size, pod);
            assert_eq!(found, expected, "{cpu:?} {memory:?} {pod:?}");
        }
    }
}
