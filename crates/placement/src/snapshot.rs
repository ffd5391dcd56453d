//! Measured load of nodes in windows of 15, 10 and 5 minutes.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::Usage;

/// Length of a window of measurements, longest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Window {
    Fifteen,
    Ten,
    Five,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeResource {
    Cpu,
    Memory,
    Network,
    Disk,
}

/// Utilization of a node by resource; `None` for one that the source does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeLoad {
    pub cpu: Option<Usage>,
    pub memory: Option<Usage>,
    /// Network, in percent of the bandwidth.
    pub network: Option<Usage>,
    /// Disk, in percent of the time.
    pub disk: Option<Usage>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WindowLoad {
    pub end: Timestamp,
    pub nodes: HashMap<String, NodeLoad>,
}

/// Load of nodes, with the length of its window.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredLoad {
    pub load: WindowLoad,
    /// Length of the window. One below 30 seconds counts as 30 seconds: so long a pod may run after
    /// its eviction, and metrics-server measures for about as long.
    pub length: SignedDuration,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadSnapshot {
    windows: [Option<WindowLoad>; 3],
}

/// Windows of a snapshot that are not stale, longest first.
#[derive(Clone, Debug)]
pub struct FreshLoad<'a> {
    windows: Vec<&'a WindowLoad>,
}

/// Reason for scores by allocation in place of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FallbackReason {
    #[error("no node metrics")]
    NoMetrics,
    #[error("node metrics are {age_seconds} s old")]
    StaleMetrics {
        /// Age of the newest window.
        age_seconds: i64,
    },
    #[error("node metrics cover {covered} of {nodes} nodes")]
    LowCoverage { covered: usize, nodes: usize },
}

impl Window {
    /// All windows, longest first.
    pub const ALL: [Self; 3] = [Self::Fifteen, Self::Ten, Self::Five];

    pub fn minutes(self) -> i64 {
        match self {
            Self::Fifteen => 15,
            Self::Ten => 10,
            Self::Five => 5,
        }
    }
}

impl NodeResource {
    pub const ALL: [Self; 4] = [Self::Cpu, Self::Memory, Self::Network, Self::Disk];

    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Network => "network",
            Self::Disk => "disk",
        }
    }
}

impl NodeLoad {
    pub fn get(&self, resource: NodeResource) -> Option<Usage> {
        match resource {
            NodeResource::Cpu => self.cpu,
            NodeResource::Memory => self.memory,
            NodeResource::Network => self.network,
            NodeResource::Disk => self.disk,
        }
    }

    pub fn get_mut(&mut self, resource: NodeResource) -> &mut Option<Usage> {
        match resource {
            NodeResource::Cpu => &mut self.cpu,
            NodeResource::Memory => &mut self.memory,
            NodeResource::Network => &mut self.network,
            NodeResource::Disk => &mut self.disk,
        }
    }

    pub fn is_empty(&self) -> bool {
        NodeResource::ALL
            .iter()
            .all(|resource| self.get(*resource).is_none())
    }

    /// The highest average of CPU and memory, in percent.
    pub fn highest_percent(&self) -> Option<f64> {
        let averages = [self.cpu, self.memory].into_iter().flatten();
        averages.map(|usage| usage.average_percent).reduce(f64::max)
    }
}

impl MeasuredLoad {
    /// Shortest window.
    const MIN_LENGTH: SignedDuration = SignedDuration::from_secs(30);
    /// Longest window.
    pub const MAX_LENGTH: SignedDuration = SignedDuration::from_mins(15);

    /// The part of the window that was over when a change happened, from 0 to 1: so much of the
    /// change the load does not show.
    pub fn part_before(&self, since_change: SignedDuration, now: Timestamp) -> f64 {
        let age = now.duration_since(self.load.end).max(SignedDuration::ZERO);
        let length = self.length.clamp(Self::MIN_LENGTH, Self::MAX_LENGTH);
        let after = since_change.saturating_sub(age);
        (1.0 - after.as_secs_f64() / length.as_secs_f64()).clamp(0.0, 1.0)
    }
}

impl LoadSnapshot {
    /// Replaces the load of a window unless it is newer.
    pub fn update(&mut self, window: Window, load: WindowLoad) {
        let held = &mut self.windows[window as usize];
        if held.as_ref().is_none_or(|held| held.end <= load.end) {
            *held = Some(load);
        }
    }

    /// The windows that ended at most `max_age` ago, from the requested length to shorter ones.
    ///
    /// # Errors
    ///
    /// [`FallbackReason::NoMetrics`] or [`FallbackReason::StaleMetrics`] without one.
    pub fn fresh(
        &self,
        longest: Window,
        now: Timestamp,
        max_age: SignedDuration,
    ) -> Result<FreshLoad<'_>, FallbackReason> {
        let held = || self.windows[longest as usize..].iter().flatten();
        let newest = held().map(|load| load.end).max();
        let newest = newest.ok_or(FallbackReason::NoMetrics)?;
        let windows: Vec<_> = held()
            .filter(|load| now.duration_since(load.end) <= max_age)
            .collect();
        if windows.is_empty() {
            let age_seconds = now.duration_since(newest).as_secs();
            return Err(FallbackReason::StaleMetrics { age_seconds });
        }
        Ok(FreshLoad { windows })
    }
}

impl<'a> FreshLoad<'a> {
    /// Load of a node in the longest window that has it, with the end of that window.
    pub fn node(&self, name: &str) -> Option<(Timestamp, &'a NodeLoad)> {
        let of = |load: &&'a WindowLoad| load.nodes.get(name).map(|node| (load.end, node));
        self.windows.iter().find_map(of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    fn load(end: i64, nodes: &[(&str, f64)]) -> WindowLoad {
        let of = |(name, average_percent): &(&str, f64)| {
            let cpu = Some(Usage {
                average_percent: *average_percent,
                deviation_percent: 0.0,
            });
            let load = NodeLoad {
                cpu,
                ..NodeLoad::default()
            };
            ((*name).to_owned(), load)
        };
        WindowLoad {
            end: at(end),
            nodes: nodes.iter().map(of).collect(),
        }
    }

    #[test]
    fn a_change_counts_by_the_part_of_the_window_before_it() {
        // The load ends at 1000. Seconds of the window and since the change, and the time.
        for (length, since_change, now, expected) in [
            (900, 0, 1000, 1.0),
            (900, 225, 1000, 0.75),
            (900, 450, 1000, 0.5),
            (900, 900, 1000, 0.0),
            (900, 5000, 1000, 0.0),
            // The load is older than the change.
            (900, 60, 1060, 1.0),
            (900, 510, 1060, 0.5),
            // The clock of the load-watcher is ahead.
            (900, 450, 900, 0.5),
            // The latest value counts as an average of 30 seconds.
            (0, 0, 1000, 1.0),
            (0, 15, 1000, 0.5),
            (0, 30, 1000, 0.0),
            // Longer windows than load-watcher has.
            (90_000, 450, 1000, 0.5),
            (900, -60, 1000, 1.0),
        ] {
            let measured = MeasuredLoad {
                load: load(1000, &[]),
                length: SignedDuration::from_secs(length),
            };
            let found = measured.part_before(SignedDuration::from_secs(since_change), at(now));
            let case = format!("{length} {since_change} {now}");
            assert!((found - expected).abs() < 1e-9, "{case}: {found}");
        }
    }

    #[test]
    fn longer_windows_come_first_and_stale_ones_are_left_out() {
        let mut snapshot = LoadSnapshot::default();
        let five_minutes = SignedDuration::from_mins(5);
        let read = |snapshot: &LoadSnapshot, longest, now| {
            let fresh = snapshot.fresh(longest, at(now), five_minutes)?;
            Ok(fresh
                .node("n1")
                .and_then(|(_, load)| load.highest_percent()))
        };
        let empty: Result<Option<f64>, _> = read(&snapshot, Window::Fifteen, 0);
        assert_eq!(empty, Err(FallbackReason::NoMetrics));
        snapshot.update(Window::Fifteen, load(1000, &[("n1", 26.0)]));
        snapshot.update(Window::Ten, load(1100, &[("n1", 22.0)]));
        snapshot.update(Window::Five, load(1200, &[("n1", 21.0), ("new", 5.0)]));
        // A late answer of an older request.
        snapshot.update(Window::Five, load(900, &[("n1", 99.0)]));
        for (longest, now, expected) in [
            (Window::Fifteen, 1300, Ok(Some(26.0))),
            (Window::Ten, 1300, Ok(Some(22.0))),
            (Window::Fifteen, 1301, Ok(Some(22.0))),
            (Window::Fifteen, 1500, Ok(Some(21.0))),
            (
                Window::Fifteen,
                1501,
                Err(FallbackReason::StaleMetrics { age_seconds: 301 }),
            ),
        ] {
            assert_eq!(read(&snapshot, longest, now), expected, "{longest:?} {now}");
        }
        let fresh = snapshot.fresh(Window::Fifteen, at(1300), five_minutes);
        let fresh = fresh.expect("fresh windows");
        // A new node has the shortest window only.
        assert_eq!(fresh.node("new").map(|(end, _)| end), Some(at(1200)));
    }
}
