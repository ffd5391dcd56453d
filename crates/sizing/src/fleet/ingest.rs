//! Samples, OOM kills and stored histories on their way in; what cannot be true is refused here.

use jiff::Timestamp;
use model::{ContainerRef, Memory, Sample};
use thiserror::Error;

use super::Fleet;
use super::autoscaler::AutoscalerId;
use super::policy_history::Observation;
use crate::aggregate::Aggregate;
use crate::checkpoint::{Checkpoint, CheckpointError};
use crate::config::MemoryRules;
use crate::decaying::Shape;
use crate::instant::Instant;
use crate::policy::policy_for;

/// Clocks differ, but samples from further ahead would make everything real look ancient, so they
/// are refused.
const MAX_AHEAD_NS: i64 = 86_400_000_000_000;

/// A sample further ahead than this would stop the windows of policies that go by windows until its
/// time has come, so it is not shown to them.
const MAX_WINDOW_AHEAD_NS: i64 = 300_000_000_000;

/// Which parts of a sample entered the history; old and negative ones do not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// The CPU usage did.
    pub cpu: bool,
    /// The memory usage did.
    pub memory: bool,
}

/// The time of a stored history that is the furthest in the future.
struct Ahead {
    field: &'static str,
    time: Timestamp,
    /// Nanoseconds from now to it, less what it may be later than the last sample.
    by_ns: i64,
}

/// Why a sample or OOM kill cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SampleError {
    /// No such pod, or the pod has no such container.
    #[error("container {0} is not known")]
    UnknownContainer(ContainerRef),
    /// The time is more than a day ahead.
    #[error("sample of container {container} is from the future: {at}")]
    Future {
        /// The container.
        container: ContainerRef,
        /// The time of the sample.
        at: Timestamp,
    },
}

impl Fleet {
    /// Adds the usage of a container. Samples of init containers are dropped.
    pub fn add_sample(
        &mut self,
        container: &ContainerRef,
        sample: &Sample,
        now: Timestamp,
    ) -> Result<Accepted, SampleError> {
        check_time(container, sample.at, now)?;
        let shapes = self.shapes;
        let default_rules = self.config.memory;
        let at = sample.at.into();
        let Some(namespace) = self.namespaces.get_mut(container.namespace.as_str()) else {
            return self.unknown(container).map(|()| Accepted::default());
        };
        let Some((state, history)) =
            namespace.container(&container.pod, &container.container, sample.at)
        else {
            return self.unknown(container).map(|()| Accepted::default());
        };
        let rules = history.rules.as_deref().unwrap_or(&default_rules);
        state.forget_after(Instant::from(now).plus(MAX_AHEAD_NS));
        let aggregate = &mut history.aggregate;
        let is_new_memory = state.is_new_memory(at);
        let accepted = Accepted {
            cpu: sample
                .cpu
                .is_some_and(|cpu| state.add_cpu(aggregate, &shapes, cpu.millicores(), at)),
            memory: sample.memory.is_some_and(|memory| {
                state.add_memory(aggregate, &shapes, rules, memory.bytes(), at)
            }),
        };
        if namespace.own_policies > 0 && !is_ahead(sample.at, now, MAX_WINDOW_AHEAD_NS) {
            let cpu = sample.cpu.filter(|_| accepted.cpu);
            // The same sample again is accepted above, where only the peak counts.
            let memory = sample.memory.filter(|_| accepted.memory && is_new_memory);
            if cpu.is_some() || memory.is_some() {
                namespace.observe(
                    &container.pod,
                    &container.container,
                    Observation::Usage { cpu, memory },
                    at,
                );
            }
        }
        Ok(accepted)
    }

    /// Adds an OOM kill of a container that requested so much memory; false if it is too old to
    /// matter.
    pub fn record_oom(
        &mut self,
        container: &ContainerRef,
        at: Timestamp,
        requested: Memory,
        now: Timestamp,
    ) -> Result<bool, SampleError> {
        check_time(container, at, now)?;
        let shapes = self.shapes;
        let default_rules = self.config.memory;
        let Some(namespace) = self.namespaces.get_mut(container.namespace.as_str()) else {
            return self.unknown(container).map(|()| false);
        };
        let Some((state, history)) = namespace.container(&container.pod, &container.container, at)
        else {
            return self.unknown(container).map(|()| false);
        };
        let rules = *history.rules.as_deref().unwrap_or(&default_rules);
        let accepted = state.add_oom(
            &mut history.aggregate,
            &shapes,
            &rules,
            requested.bytes(),
            at.into(),
        );
        if accepted && !is_ahead(at, now, MAX_WINDOW_AHEAD_NS) {
            let seen = Observation::Oom {
                request: requested,
                rules: &rules,
            };
            namespace.observe(&container.pod, &container.container, seen, at.into());
        }
        Ok(accepted)
    }

    /// The peak that an OOM kill of a container would count as; none where the container is not
    /// known.
    pub fn oom_peak(&self, container: &ContainerRef, requested: Memory) -> Option<Memory> {
        let namespace = self.namespaces.get(container.namespace.as_str())?;
        let pod = namespace.pod(&container.pod)?;
        let (_, state) = pod
            .containers()
            .find(|(name, _)| *name == container.container)?;
        Some(Memory::from_bytes(
            state.oom_peak(&self.memory_rules(container), requested.bytes()),
        ))
    }

    /// How memory samples and OOM kills of a container become peaks: the rules of its autoscalers,
    /// or else the default.
    pub fn memory_rules(&self, container: &ContainerRef) -> MemoryRules {
        let namespace = self.namespaces.get(container.namespace.as_str());
        let group = namespace
            .and_then(|namespace| namespace.groups.get(namespace.pod(&container.pod)?.group));
        let mut histories = group.into_iter().flat_map(|group| &group.histories);
        let history = histories.find(|(name, _)| **name == *container.container);
        history
            .and_then(|(_, history)| history.rules.as_deref())
            .copied()
            .unwrap_or(self.config.memory)
    }

    /// Takes over the stored history of a container of an autoscaler; it replaces what was taken
    /// over before. History that ends more than a day after `now` is refused: samples would count
    /// for nothing until its time has come.
    pub fn load_checkpoint(
        &mut self,
        id: &AutoscalerId,
        container: &str,
        stored: &Checkpoint,
        now: Timestamp,
    ) -> Result<(), CheckpointError> {
        if let Some(Ahead { field, time, .. }) = self.ahead(id, container, stored, now) {
            return Err(CheckpointError::Future { field, time });
        }
        self.store(id, container, Aggregate::load(stored)?)
    }

    /// Takes over stored history as [`Fleet::load_checkpoint`] does. History that ends more than a
    /// day after `now` is moved back, so that it ends now: for a `now` that is known to be right.
    pub fn load_checkpoint_moved_back(
        &mut self,
        id: &AutoscalerId,
        container: &str,
        stored: &Checkpoint,
        now: Timestamp,
    ) -> Result<(), CheckpointError> {
        let mut loaded = Aggregate::load(stored)?;
        if let Some(Ahead { by_ns, .. }) = self.ahead(id, container, stored, now) {
            loaded.move_back(&self.shapes, by_ns);
        }
        self.store(id, container, loaded)
    }

    fn store(
        &mut self,
        id: &AutoscalerId,
        container: &str,
        loaded: Aggregate,
    ) -> Result<(), CheckpointError> {
        let namespace = self.namespaces.get_mut(id.namespace.as_str());
        let is_stored =
            namespace.is_some_and(|namespace| namespace.store(&id.name, container, loaded));
        if is_stored {
            Ok(())
        } else {
            Err(CheckpointError::UnknownAutoscaler)
        }
    }

    /// By how much stored history ends after `now`, if that is more than samples may be ahead.
    /// References may be later by the half-life to which they are rounded, and those of peaks by
    /// the window that they end.
    fn ahead(
        &self,
        id: &AutoscalerId,
        container: &str,
        stored: &Checkpoint,
        now: Timestamp,
    ) -> Option<Ahead> {
        let mut rules = self.config.memory;
        let policies = self
            .autoscaler(id)
            .map(|(_, autoscaler)| &*autoscaler.spec.policies);
        if let Some(policy) = policies.and_then(|policies| policy_for(policies, container)) {
            policy.overlay(&mut rules);
        }
        let rounded = |shape: &Shape| shape.half_life.nanoseconds();
        let times = [
            ("lastSampleStart", stored.last_sample_start, 0),
            (
                "cpuHistogram.referenceTimestamp",
                stored.cpu_histogram.reference_timestamp,
                rounded(&self.shapes.cpu),
            ),
            (
                "memoryHistogram.referenceTimestamp",
                stored.memory_histogram.reference_timestamp,
                rounded(&self.shapes.memory).saturating_add(rules.interval_ns),
            ),
        ];
        let ahead = times.into_iter().filter_map(|(field, time, slack_ns)| {
            let time = time?;
            let by_ns = Instant::from(time)
                .since(now.into())
                .saturating_sub(slack_ns);
            (by_ns > MAX_AHEAD_NS).then_some(Ahead { field, time, by_ns })
        });
        ahead.max_by_key(|ahead| ahead.by_ns)
    }

    /// An error unless the container is an init container of its pod.
    fn unknown(&self, container: &ContainerRef) -> Result<(), SampleError> {
        let pod = self
            .namespaces
            .get(container.namespace.as_str())
            .and_then(|namespace| namespace.pod(&container.pod));
        if pod.is_some_and(|pod| pod.has_init_container(&container.container)) {
            return Ok(());
        }
        Err(SampleError::UnknownContainer(container.clone()))
    }
}

fn check_time(container: &ContainerRef, at: Timestamp, now: Timestamp) -> Result<(), SampleError> {
    if is_ahead(at, now, MAX_AHEAD_NS) {
        return Err(SampleError::Future {
            container: container.clone(),
            at,
        });
    }
    Ok(())
}

fn is_ahead(time: Timestamp, now: Timestamp, reach_ns: i64) -> bool {
    Instant::from(time).since(now.into()) > reach_ns
}
