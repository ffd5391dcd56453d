//! A declared difference from upstream: checkpoints with the peaks of open memory windows.
//!
//! Upstream leaves them out, so a restart of all replicas loses the peak of the day. The recordings
//! keep upstream's checkpoints: the peaks of open windows are taken from the histories before both
//! are compared.

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::{ContainerRef, Memory};
use sizing::{ContainerHistory, ContainerState, HistogramConfigs, MemoryRules};

/// The containers of all pods in the order of their creation, each with its own peaks.
#[derive(Default)]
pub(crate) struct OpenWindows(Vec<(ContainerRef, ContainerState, ContainerHistory)>);

impl OpenWindows {
    /// Replaces the containers of a pod. Those that remain keep their windows.
    pub(crate) fn set_pod(&mut self, pod: &str, containers: &[ContainerRef]) {
        self.0
            .retain(|(known, ..)| known.pod != pod || containers.contains(known));
        for container in containers {
            if !self.0.iter().any(|(known, ..)| known == container) {
                let window = (ContainerState::default(), ContainerHistory::default());
                self.0.push((container.clone(), window.0, window.1));
            }
        }
    }

    /// Adds memory usage that the cluster state accepted.
    pub(crate) fn add_memory(
        &mut self,
        container: &ContainerRef,
        (shapes, rules): (&HistogramConfigs, &MemoryRules),
        usage: Memory,
        at: Timestamp,
    ) {
        if let Some((_, state, peaks)) = self.0.iter_mut().find(|(known, ..)| known == container) {
            state.add_memory(peaks, shapes, rules, usage.bytes(), at.into());
        }
    }

    /// Adds an OOM kill that the cluster state accepted.
    pub(crate) fn add_oom(
        &mut self,
        container: &ContainerRef,
        (shapes, rules): (&HistogramConfigs, &MemoryRules),
        request: Memory,
        at: Timestamp,
    ) {
        if let Some((_, state, peaks)) = self.0.iter_mut().find(|(known, ..)| known == container) {
            state.add_oom(peaks, shapes, rules, request.bytes(), at.into());
        }
    }

    /// Subtracts the peaks of the windows that are open at `now` in pods that count.
    pub(crate) fn subtract(
        &self,
        histories: &mut BTreeMap<String, ContainerHistory>,
        shapes: &HistogramConfigs,
        counts: impl Fn(&str) -> bool,
        now: Timestamp,
    ) {
        for (container, state, _) in self.0.iter().filter(|(known, ..)| counts(&known.pod)) {
            let open = state.open_peak(now.into());
            if let (Some(history), Some((peak, end))) =
                (histories.get_mut(&container.container), open)
            {
                history.subtract_memory_peak(shapes, peak, end);
            }
        }
    }
}
