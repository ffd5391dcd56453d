//! History of one container for a sizing policy other than the VPA's: Crane's or Autopilot's.

use model::{Cpu, Memory};

use crate::autopilot::AutopilotHistory;
use crate::config::MemoryRules;
use crate::crane::CraneHistory;
use crate::estimate::Amounts;
use crate::instant::Instant;
use crate::sizing_method::{MethodSettings, SizingMethod};

/// Observation of a container.
#[derive(Clone, Copy, Debug)]
pub enum Observation<'a> {
    /// Measured usage.
    Usage {
        /// CPU used.
        cpu: Option<Cpu>,
        /// Memory used.
        memory: Option<Memory>,
    },
    /// OOM kill of a container with this request.
    Oom {
        /// Memory request.
        request: Memory,
        /// Memory rules of the container.
        rules: &'a MemoryRules,
    },
}

/// History of one container name, over all pods of a VPA.
#[derive(Clone, Debug)]
pub struct MethodHistory {
    first: Instant,
    last: Instant,
    history: HistoryKind,
}

#[derive(Clone, Debug)]
enum HistoryKind {
    Crane(CraneHistory),
    Autopilot(Box<AutopilotHistory>),
}

impl MethodHistory {
    /// Starts an empty history at the time of the first observation.
    pub fn new(policy: &MethodSettings, at: Instant) -> Self {
        let history = match &policy.method {
            SizingMethod::Crane(_) => HistoryKind::Crane(CraneHistory::new()),
            SizingMethod::Autopilot(method) => {
                HistoryKind::Autopilot(Box::new(AutopilotHistory::new(method)))
            }
        };
        Self {
            first: at,
            last: at,
            history,
        }
    }

    /// Adds an observation of a pod's container. `pod` identifies the pod within the history.
    pub fn observe(&mut self, policy: &MethodSettings, pod: u32, seen: Observation, at: Instant) {
        self.last = self.last.max(at);
        match (&mut self.history, &policy.method) {
            (HistoryKind::Crane(history), SizingMethod::Crane(config)) => match seen {
                Observation::Usage { cpu, memory } => {
                    if let Some(cpu) = cpu {
                        history.add_cpu(config, cpu.cores(), at);
                    }
                    if let Some(memory) = memory {
                        history.add_memory(config, memory.bytes() as f64, at);
                    }
                }
                Observation::Oom { request, .. } => history.add_oom(request, at),
            },
            (HistoryKind::Autopilot(history), SizingMethod::Autopilot(method)) => match seen {
                Observation::Usage { cpu, memory } => {
                    if let Some(cpu) = cpu {
                        history.add_cpu(method, cpu.cores(), at);
                    }
                    if let Some(memory) = memory {
                        history.add_memory(method, pod, memory.bytes() as f64, at);
                    }
                }
                Observation::Oom { request, rules } => {
                    history.add_oom(method, rules, pod, request.bytes() as f64, at);
                }
            },
            // Histories are dropped when the method changes.
            (HistoryKind::Crane(_) | HistoryKind::Autopilot(_), _) => {}
        }
    }

    /// The time of the last observation.
    pub fn last(&self) -> Instant {
        self.last
    }

    /// Nanoseconds between the first and the last observation.
    pub fn lifespan_ns(&self) -> i64 {
        self.last.since(self.first)
    }

    /// The recommendation before rounding and limits; `None` without enough history.
    pub fn recommend(&self, policy: &MethodSettings) -> Option<Amounts> {
        let (cpu, memory) = match (&self.history, &policy.method) {
            (HistoryKind::Crane(history), SizingMethod::Crane(config)) => {
                history.recommend(config, self.last)
            }
            (HistoryKind::Autopilot(history), SizingMethod::Autopilot(_)) => history.recommend(),
            (HistoryKind::Crane(_) | HistoryKind::Autopilot(_), _) => None,
        }?;
        Some(Amounts { cpu, memory })
    }
}
