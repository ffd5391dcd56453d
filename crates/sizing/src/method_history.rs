//! History of one container for a sizing method other than the VPA's: ours, Crane's or
//! Autopilot's.

use model::{Cpu, Memory, MethodStep};

use crate::autopilot::AutopilotHistory;
use crate::config::MemoryRules;
use crate::crane::CraneHistory;
use crate::estimate::Amounts;
use crate::instant::Instant;
use crate::price_of_failure::WorkloadHistory;
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
    PriceOfFailure(Box<WorkloadHistory>),
}

impl MethodHistory {
    /// Starts an empty history at the time of the first observation.
    pub fn new(policy: &MethodSettings, at: Instant) -> Self {
        let history = match &policy.method {
            SizingMethod::Crane(_) => HistoryKind::Crane(CraneHistory::new()),
            SizingMethod::Autopilot(method) => {
                HistoryKind::Autopilot(Box::new(AutopilotHistory::new(method)))
            }
            SizingMethod::PriceOfFailure(_) => HistoryKind::PriceOfFailure(Box::default()),
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
                        history.add_cpu(config, pod, cpu.cores(), at);
                    }
                    if let Some(memory) = memory {
                        history.add_memory(config, pod, memory.bytes() as f64, at);
                    }
                }
                Observation::Oom { request, .. } => history.add_oom(config, request, at),
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
            (HistoryKind::PriceOfFailure(history), SizingMethod::PriceOfFailure(config)) => {
                let Some(at) = at.into() else {
                    return;
                };
                match seen {
                    Observation::Usage { cpu, memory } => {
                        if let Some(cpu) = cpu {
                            history.add_cpu(config, pod, cpu, at);
                        }
                        if let Some(memory) = memory {
                            history.add_memory(config, pod, memory, at);
                        }
                    }
                    Observation::Oom { request, rules } => {
                        history.add_oom(config, rules, pod, request, at);
                    }
                }
            }
            // Histories are dropped when the method changes.
            _ => {}
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
            (HistoryKind::PriceOfFailure(history), SizingMethod::PriceOfFailure(_)) => {
                history.recommend()
            }
            _ => None,
        }?;
        Some(Amounts { cpu, memory })
    }

    /// The steps of the recommendation for CPU and memory. The last one of each is the
    /// recommendation, in millicores or bytes. `None` without enough history.
    pub fn explain(&self, policy: &MethodSettings) -> Option<[Vec<MethodStep>; 2]> {
        let Amounts { cpu, memory } = self.recommend(policy)?;
        let mut steps = match (&self.history, &policy.method) {
            (HistoryKind::Crane(history), SizingMethod::Crane(config)) => {
                history.explain(config, self.last)
            }
            (HistoryKind::Autopilot(history), SizingMethod::Autopilot(method)) => {
                history.explain(method)
            }
            (HistoryKind::PriceOfFailure(history), SizingMethod::PriceOfFailure(config)) => {
                history.explain(config)
            }
            _ => return None,
        };
        let amounts = [(cpu.millicores(), "millicores"), (memory.bytes(), "bytes")];
        for (steps, (amount, unit)) in steps.iter_mut().zip(amounts) {
            steps.push(MethodStep::number("recommendation", amount as f64, unit));
        }
        Some(steps)
    }
}
