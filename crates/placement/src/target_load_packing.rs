//! `TargetLoadPacking`: nodes fill up to a target utilization; above it, the least loaded wins.

use crate::{Amounts, rounded};

/// Arguments of the plugin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TargetLoadPacking {
    pub target_percent: i64,
    /// Load of a container without request and limit: of a resource that it has neither for.
    pub default_requests: Amounts,
    /// Factor on the request of a container without limit.
    pub requests_multiplier: f64,
}

impl Default for TargetLoadPacking {
    fn default() -> Self {
        Self {
            target_percent: 40,
            // Memory as in kube-scheduler.
            default_requests: Amounts {
                cpu_millicores: 1000,
                memory_bytes: 200 << 20,
            },
            requests_multiplier: 1.5,
        }
    }
}

impl TargetLoadPacking {
    /// The default with another target. A target below 1 is the default, one above 100 is 100.
    pub fn with_target(target_percent: Option<i64>) -> Self {
        let default = Self::default();
        Self {
            target_percent: match target_percent {
                Some(target) if target > 0 => target.min(100),
                _ => default.target_percent,
            },
            ..default
        }
    }

    /// Score of a node; 0 without utilization.
    ///
    /// `pod` is the load of the pod to place, `reserved` that of pods which the utilization does
    /// not include yet; they have the unit of `capacity`.
    pub fn score(
        &self,
        utilization_percent: Option<f64>,
        capacity: i64,
        pod: i64,
        reserved: i64,
    ) -> i64 {
        let Some(measured) = utilization_percent.filter(|percent| percent.is_finite()) else {
            return 0;
        };
        let size = capacity as f64;
        let expected = if capacity == 0 {
            0.0
        } else {
            100.0 * (measured / 100.0 * size + pod as f64 + reserved as f64) / size
        };
        self.of_percent(expected)
    }

    pub fn of_percent(&self, expected_percent: f64) -> i64 {
        let target = self.target_percent as f64;
        if expected_percent > 100.0 {
            0
        } else if expected_percent > target {
            rounded(target * (100.0 - expected_percent) / (100.0 - target))
        } else {
            rounded((100.0 - target) * expected_percent / target + target).max(0)
        }
    }
}

#[cfg(test)]
mod tests {
    use model::ResourceName;

    use super::*;
    use crate::{Container, PodForecast, PodSpec, PredictionConfig, predict};

    #[test]
    fn documented_examples_have_their_scores() {
        // The three nodes of KEP-61 have four CPUs each and a target of 50 %.
        for (target, expected) in [
            (50, &[(25.0, 75), (50.0, 100), (75.0, 25)][..]),
            (
                20,
                &[(1.0, 24), (5.0, 40), (25.0, 19), (50.0, 13), (99.0, 0)],
            ),
            (
                40,
                &[
                    (0.0, 40),
                    (20.0, 70),
                    (40.0, 100),
                    (40.0001, 40),
                    (41.0, 39),
                    (50.0, 33),
                    (70.0, 20),
                    (100.0, 0),
                    (100.1, 0),
                ],
            ),
            (70, &[(35.0, 85), (70.0, 100), (85.0, 35)]),
            (100, &[(50.0, 100), (100.0, 100), (100.1, 0)]),
        ] {
            let plugin = TargetLoadPacking::with_target(Some(target));
            for (utilization, score) in expected {
                let found = plugin.score(Some(*utilization), 4000, 0, 0);
                assert_eq!(found, *score, "{utilization} % of {target} %");
            }
        }
    }

    #[test]
    fn the_pod_and_pods_not_measured_yet_count() {
        let plugin = TargetLoadPacking::default();
        for (utilization, pod, reserved, expected) in [
            (10.0, 450, 0, 89),
            (60.0, 450, 0, 12),
            (0.0, 450, 0, 74),
            (10.0, 150, 450, 100),
            (60.0, 150, 0, 22),
            (0.0, 150, 0, 51),
            (10.0, 150, 0, 66),
            (30.0, 2000, 0, 0),
        ] {
            let found = plugin.score(Some(utilization), 2000, pod, reserved);
            assert_eq!(found, expected, "{utilization} {pod} {reserved}");
        }
        assert_eq!(plugin.score(None, 2000, 0, 0), 0);
        assert_eq!(plugin.score(Some(f64::NAN), 2000, 0, 0), 0);
        assert_eq!(plugin.score(Some(50.0), 0, 100, 0), 40);
    }

    #[test]
    fn a_container_is_predicted_by_limit_then_request_then_default() {
        let list = |text: &str| {
            [(ResourceName::Cpu, text.parse().expect(text))]
                .into_iter()
                .collect()
        };
        let container = |requests: &str, limits: &str| Container {
            name: String::new(),
            requests: if requests.is_empty() {
                model::ResourceList::new()
            } else {
                list(requests)
            },
            limits: if limits.is_empty() {
                model::ResourceList::new()
            } else {
                list(limits)
            },
        };
        for (containers, overhead, expected) in [
            (vec![container("500m", "0")], "0", 0),
            (vec![container("333m", "")], "0", 500),
            (vec![container("", "")], "10m", 1010),
            (vec![container("", ""), container("1", "300m")], "0", 1300),
            (vec![], "0", 0),
        ] {
            let pod = PodSpec {
                containers,
                init_containers: vec![container("8", "8")],
                overhead: list(overhead),
                ..PodSpec::default()
            };
            let config = PredictionConfig::default();
            let found = predict(&pod, None, PodForecast::default(), &config).load;
            assert_eq!(found.cpu_millicores, expected, "{pod:?}");
        }
    }

    #[test]
    fn a_target_out_of_range_is_replaced() {
        for (given, expected) in [(None, 40), (Some(0), 40), (Some(-3), 40), (Some(150), 100)] {
            let found = TargetLoadPacking::with_target(given);
            assert_eq!(found.target_percent, expected);
        }
    }
}
