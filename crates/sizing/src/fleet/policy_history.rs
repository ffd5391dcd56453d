//! Histories of the sizing policies other than the VPA's: by container name, over all pods of an
//! autoscaler.
//!
//! They start when the autoscaler selects the policy, and with every start of the process: they
//! have no checkpoints. They end with the autoscaler, with the policy, or eight days after the last
//! sample of the container. Autoscalers without such a policy take no memory for them.

use std::collections::BTreeMap;

use model::{Cpu, Memory};

use super::bounds::MAX_CONTAINERS;
use crate::autopilot::AutopilotHistory;
use crate::config::MemoryRules;
use crate::crane::CraneHistory;
use crate::estimate::Amounts;
use crate::instant::Instant;
use crate::sizing_policy::{SizingMethod, SizingPolicy};

/// Retention of a container without samples.
const RETENTION_NS: i64 = 8 * 86_400_000_000_000;

/// Observation of a container.
#[derive(Clone, Copy, Debug)]
pub(super) enum Observation<'a> {
    /// Measured usage.
    Usage {
        cpu: Option<Cpu>,
        memory: Option<Memory>,
    },
    /// OOM kill of a container with this request.
    Oom {
        request: Memory,
        rules: &'a MemoryRules,
    },
}

/// Histories by container name.
#[derive(Clone, Debug, Default)]
pub(super) struct PolicyHistories(BTreeMap<Box<str>, PolicyHistory>);

#[derive(Clone, Debug)]
struct PolicyHistory {
    first: Instant,
    last: Instant,
    memory: MethodHistory,
}

#[derive(Clone, Debug)]
enum MethodHistory {
    Crane(CraneHistory),
    Autopilot(Box<AutopilotHistory>),
}

impl PolicyHistories {
    /// Adds an observation of a container.
    pub(super) fn observe(
        &mut self,
        policy: &SizingPolicy,
        pod: u32,
        container: &str,
        seen: Observation,
        at: Instant,
    ) {
        if !self.0.contains_key(container) {
            self.0
                .insert(container.into(), PolicyHistory::new(policy, at));
            self.bound();
        }
        if let Some(history) = self.0.get_mut(container) {
            history.observe(policy, pod, seen, at);
        }
    }

    /// The recommendation of a container before rounding and limits; `None` without enough history.
    pub(super) fn recommend(&self, policy: &SizingPolicy, container: &str) -> Option<Amounts> {
        let (cpu, memory) = self.0.get(container)?.recommend(policy)?;
        Some(Amounts { cpu, memory })
    }

    /// Whether a container has less history than its recommendation needs to decrease.
    pub(super) fn is_young(&self, policy: &SizingPolicy, container: &str) -> bool {
        let is_old = |history: &PolicyHistory| {
            history.last.since(history.first) >= policy.minimum_history_ns
        };
        !self
            .0
            .get(container)
            .is_some_and(|history| is_old(history) && history.recommend(policy).is_some())
    }

    /// Drops the least recently measured container above the maximum.
    fn bound(&mut self) {
        if self.0.len() > MAX_CONTAINERS {
            let oldest = self
                .0
                .iter()
                .min_by_key(|(_, history)| history.last)
                .map(|(name, _)| name.clone());
            oldest.and_then(|name| self.0.remove(&name));
        }
    }

    /// Drops containers that are no longer measured.
    pub(super) fn collect_garbage(&mut self, now: Instant) {
        self.0
            .retain(|_, history| now.since(history.last) < RETENTION_NS);
    }
}

impl PolicyHistory {
    fn new(policy: &SizingPolicy, at: Instant) -> Self {
        let memory = match &policy.method {
            SizingMethod::Crane(_) => MethodHistory::Crane(CraneHistory::new()),
            SizingMethod::Autopilot(method) => {
                MethodHistory::Autopilot(Box::new(AutopilotHistory::new(method)))
            }
        };
        Self {
            first: at,
            last: at,
            memory,
        }
    }

    fn observe(&mut self, policy: &SizingPolicy, pod: u32, seen: Observation, at: Instant) {
        self.last = self.last.max(at);
        match (&mut self.memory, &policy.method) {
            (MethodHistory::Crane(history), SizingMethod::Crane(config)) => match seen {
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
            (MethodHistory::Autopilot(history), SizingMethod::Autopilot(method)) => match seen {
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
            (MethodHistory::Crane(_) | MethodHistory::Autopilot(_), _) => {}
        }
    }

    fn recommend(&self, policy: &SizingPolicy) -> Option<(Cpu, Memory)> {
        match (&self.memory, &policy.method) {
            (MethodHistory::Crane(history), SizingMethod::Crane(config)) => {
                history.recommend(config, self.last)
            }
            (MethodHistory::Autopilot(history), SizingMethod::Autopilot(_)) => history.recommend(),
            (MethodHistory::Crane(_) | MethodHistory::Autopilot(_), _) => None,
        }
    }
}
