//! Bad metrics of nodes: out of range, not a number, frozen or missing.

use std::collections::{BTreeSet, HashMap};

use crate::{NodeLoad, NodeResource, Usage, WindowLoad};

/// Highest accepted utilization in percent. Rounding and steal time lead to a little over 100.
const MAX_PERCENT: f64 = 110.0;

/// Reason for leaving out a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Defect {
    NotFinite,
    /// An average outside 0 to 110 %, or a deviation outside 0 to 110 %.
    OutOfRange,
    /// The same average and deviation, not 0, in too many windows one after the other.
    Frozen,
    /// A node without any accepted value.
    Missing,
}

/// Bad value of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub node: String,
    /// Resource; `None` for a missing node.
    pub resource: Option<NodeResource>,
    pub defect: Defect,
}

/// Finds bad values in the successive loads of one window.
#[derive(Clone, Debug)]
pub struct QualityMonitor {
    frozen_after: u32,
    end: Option<jiff::Timestamp>,
    /// Last value of each resource, and the number of windows that had it.
    repeats: HashMap<String, [Option<(Usage, u32)>; 4]>,
}

impl QualityMonitor {
    /// A value is frozen from this number of equal windows on, at least 2.
    pub fn new(frozen_after: u32) -> Self {
        Self {
            frozen_after: frozen_after.max(2),
            end: None,
            repeats: HashMap::new(),
        }
    }

    /// Copies the load without bad values and without nodes that the cluster does not have.
    /// Findings are in order of nodes.
    ///
    /// A load that ends no later than the last one is judged without counting as a repeat.
    pub fn inspect(
        &mut self,
        load: &WindowLoad,
        nodes: &BTreeSet<String>,
    ) -> (WindowLoad, Vec<Finding>) {
        let is_new = self.end.is_none_or(|end| end < load.end);
        self.end = self.end.max(Some(load.end));
        self.repeats.retain(|name, _| nodes.contains(name));
        let mut findings = Vec::new();
        let mut accepted = HashMap::with_capacity(nodes.len());
        for name in nodes {
            let mut node = load.nodes.get(name).copied().unwrap_or_default();
            for resource in NodeResource::ALL {
                if let Some(defect) = self.judge(name, &node, resource, is_new) {
                    *node.get_mut(resource) = None;
                    findings.push(Finding {
                        node: name.clone(),
                        resource: Some(resource),
                        defect,
                    });
                }
            }
            if node.is_empty() {
                findings.push(Finding {
                    node: name.clone(),
                    resource: None,
                    defect: Defect::Missing,
                });
            } else {
                accepted.insert(name.clone(), node);
            }
        }
        let load = WindowLoad {
            end: load.end,
            nodes: accepted,
        };
        (load, findings)
    }

    fn judge(
        &mut self,
        name: &str,
        node: &NodeLoad,
        resource: NodeResource,
        is_new: bool,
    ) -> Option<Defect> {
        let usage = node.get(resource)?;
        let values = [usage.average_percent, usage.deviation_percent];
        if values.iter().any(|value| !value.is_finite()) {
            return Some(Defect::NotFinite);
        }
        if values
            .iter()
            .any(|value| !(0.0..=MAX_PERCENT).contains(value))
        {
            return Some(Defect::OutOfRange);
        }
        let repeats = self.repeats.entry(name.to_owned()).or_default();
        let repeat = repeats[resource as usize].get_or_insert((usage, 0));
        if repeat.0 != usage {
            *repeat = (usage, 0);
        }
        repeat.1 = repeat.1.saturating_add(u32::from(is_new));
        let is_idle = usage == Usage::default();
        (!is_idle && repeat.1 >= self.frozen_after).then_some(Defect::Frozen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    fn cpu(average_percent: f64, deviation_percent: f64) -> NodeLoad {
        NodeLoad {
            cpu: Some(Usage {
                average_percent,
                deviation_percent,
            }),
            ..NodeLoad::default()
        }
    }

    fn inspect(
        monitor: &mut QualityMonitor,
        end: i64,
        values: &[(&str, NodeLoad)],
    ) -> (usize, Vec<Defect>) {
        let load = WindowLoad {
            end: Timestamp::from_second(end).expect("a time"),
            nodes: values
                .iter()
                .map(|(name, load)| ((*name).to_owned(), *load))
                .collect(),
        };
        let nodes = ["n1", "n2"].map(str::to_owned).into();
        let (accepted, findings) = monitor.inspect(&load, &nodes);
        let defects = findings.iter().map(|finding| finding.defect).collect();
        (accepted.nodes.len(), defects)
    }

    #[test]
    fn bad_values_are_removed_and_named() {
        use Defect::{Missing, NotFinite, OutOfRange};
        let good = || ("n2", cpu(30.0, 2.0));
        for (bad, expected) in [
            (cpu(f64::NAN, 0.0), vec![NotFinite, Missing]),
            (cpu(5.0, f64::INFINITY), vec![NotFinite, Missing]),
            (cpu(-1.0, 0.0), vec![OutOfRange, Missing]),
            (cpu(120.5, 0.0), vec![OutOfRange, Missing]),
            (cpu(50.0, -3.0), vec![OutOfRange, Missing]),
            (NodeLoad::default(), vec![Missing]),
            (
                NodeLoad {
                    memory: Some(Usage::default()),
                    ..cpu(-1.0, 0.0)
                },
                vec![OutOfRange],
            ),
            (cpu(100.5, 0.0), vec![]),
        ] {
            let mut monitor = QualityMonitor::new(10);
            let accepted = 1 + usize::from(!expected.contains(&Missing));
            let found = inspect(&mut monitor, 1, &[("n1", bad), good(), ("gone", bad)]);
            assert_eq!(found, (accepted, expected), "{bad:?}");
        }
    }

    #[test]
    fn a_value_is_frozen_after_equal_windows_until_it_changes() {
        let mut monitor = QualityMonitor::new(3);
        for (end, first, is_frozen) in [
            (1, 40.0, false),
            (2, 40.0, false),
            (2, 40.0, false),
            (3, 40.0, true),
            (4, 40.0, true),
            (5, 41.0, false),
            (6, 40.0, false),
        ] {
            // An idle node reports 0 for long.
            let values = [("n1", cpu(first, 1.0)), ("n2", cpu(0.0, 0.0))];
            let (_, found) = inspect(&mut monitor, end, &values);
            assert_eq!(found.contains(&Defect::Frozen), is_frozen, "{end}");
            assert_eq!(found.len(), if is_frozen { 2 } else { 0 }, "{end}");
        }
    }
}
