//! Nodes that are too loaded for a pod.

use serde::Deserialize;

use crate::prioritize::percent;
use crate::{NodeResource, NodeState, PodDemand};

/// Thresholds of the expected utilization; both off by default.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct LoadFilter {
    /// Largest CPU utilization with the pod, in percent of the capacity.
    #[serde(deserialize_with = "percent")]
    pub cpu_percent: Option<f64>,
    /// Largest memory utilization with the pod, in percent of the capacity.
    #[serde(deserialize_with = "percent")]
    pub memory_percent: Option<f64>,
    /// Largest share of the offered nodes that are removed, in percent; default 90. When more are
    /// above a threshold, none is removed.
    #[serde(skip)]
    pub max_removed_percent: usize,
}

/// Reason for removing a node.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error(
    "expected {} load {expected_percent:.0}% is above the threshold {threshold_percent}%",
    resource.name()
)]
pub struct Overload {
    pub resource: NodeResource,
    /// Utilization with the pod, in percent.
    pub expected_percent: f64,
    pub threshold_percent: f64,
}

impl Default for LoadFilter {
    fn default() -> Self {
        Self {
            cpu_percent: None,
            memory_percent: None,
            max_removed_percent: 90,
        }
    }
}

impl LoadFilter {
    /// Whether no threshold is set.
    pub fn is_off(&self) -> bool {
        self.cpu_percent.is_none() && self.memory_percent.is_none()
    }

    /// Reason for removing a node. `None` for a node without fresh metrics or without capacity.
    pub fn check(&self, pod: &PodDemand, node: &NodeState<'_>) -> Option<Overload> {
        let load = node.load?;
        let added = pod.load.plus(node.reserved);
        let of = |resource, threshold: Option<f64>, added: i64, capacity: i64| {
            let threshold_percent = threshold?;
            let measured = load.get(resource)?.average_percent;
            let expected_percent = measured + 100.0 * added as f64 / capacity as f64;
            (capacity > 0 && expected_percent > threshold_percent).then_some(Overload {
                resource,
                expected_percent,
                threshold_percent,
            })
        };
        of(
            NodeResource::Cpu,
            self.cpu_percent,
            added.cpu_millicores,
            node.capacity.cpu_millicores,
        )
        .or_else(|| {
            of(
                NodeResource::Memory,
                self.memory_percent,
                added.memory_bytes,
                node.capacity.memory_bytes,
            )
        })
    }

    /// Whether this number of nodes may be removed from those offered.
    pub fn permits(&self, removed: usize, offered: usize) -> bool {
        removed.saturating_mul(100) <= offered.saturating_mul(self.max_removed_percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Amounts, NodeLoad, Usage};

    fn amounts(cpu_millicores: i64, memory_bytes: i64) -> Amounts {
        Amounts {
            cpu_millicores,
            memory_bytes,
        }
    }

    #[test]
    fn a_node_above_a_threshold_with_the_pod_is_removed_with_a_reason() {
        let usage = |average_percent| {
            Some(Usage {
                average_percent,
                deviation_percent: 0.0,
            })
        };
        let load = NodeLoad {
            cpu: usage(70.0),
            memory: usage(85.0),
            ..NodeLoad::default()
        };
        let no_cpu = NodeLoad { cpu: None, ..load };
        let not_a_number = NodeLoad {
            cpu: usage(f64::NAN),
            ..load
        };
        let cpu = "expected cpu load 81% is above the threshold 80%";
        let memory = "expected memory load 96% is above the threshold 95%";
        for (cpu_percent, memory_percent, load, pod, capacity, expected) in [
            (None, None, Some(&load), 900, 4000, None),
            (Some(80.0), None, Some(&load), 0, 4000, None),
            (Some(80.0), None, Some(&load), 40, 4000, Some(cpu)),
            (Some(80.0), Some(95.0), Some(&load), 40, 4000, Some(cpu)),
            (Some(90.0), Some(95.0), Some(&load), 40, 4000, Some(memory)),
            (Some(80.0), None, None, 4000, 4000, None),
            (Some(80.0), None, Some(&no_cpu), 4000, 4000, None),
            (Some(80.0), None, Some(&not_a_number), 4000, 4000, None),
            (Some(80.0), None, Some(&load), 4000, 0, None),
        ] {
            let filter = LoadFilter {
                cpu_percent,
                memory_percent,
                ..LoadFilter::default()
            };
            let node = NodeState {
                capacity: amounts(capacity, 1000),
                reserved: amounts(400, 100),
                load,
                ..NodeState::default()
            };
            let pod = PodDemand {
                load: amounts(pod, 10),
                ..PodDemand::default()
            };
            let found = filter.check(&pod, &node).map(|reason| reason.to_string());
            assert_eq!(found.as_deref(), expected, "{filter:?} {pod:?}");
        }
    }

    #[test]
    fn a_single_offered_node_is_never_removed_by_default() {
        let default = LoadFilter::default();
        let all = LoadFilter {
            max_removed_percent: 100,
            ..default
        };
        for (removed, offered, expected) in [(1, 1, false), (9, 10, true), (10, 10, false)] {
            assert_eq!(default.permits(removed, offered), expected);
            assert!(all.permits(removed, offered));
        }
    }
}
