//! Pods from recorded machines: usage per slot, and the requests that a sizing policy gives them.

use placement::Amounts;
use rayon::prelude::*;
use replay::peers::{AnnotatedPolicy, Provisioned, Vpa};
use replay::{EntityScore, Executor, Policy, Resource, Score, Series};

/// Recorded usage of a machine. Both series begin at the same time and have the same step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Machine {
    /// CPU in millicores.
    pub(crate) cpu: Series,
    /// Memory in MiB.
    pub(crate) memory: Series,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sizing {
    Provisioned,
    /// Upstream's VPA with its defaults and its updater's rules, each hour.
    Vpa,
    /// The policy that `plimsoll.dev/sizing-policy: plimsoll` selects, with early raises and this
    /// value of `plimsoll.dev/sizing-caution`.
    Plimsoll(&'static str),
}

/// New request of a pod from a slot on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestChange {
    pub(crate) slot: usize,
    pub(crate) pod: usize,
    pub(crate) request: Amounts,
}

/// The pods and their usage.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    /// One machine per pod, shifted in time.
    machines: Vec<Machine>,
    pub(super) slots: usize,
    pub(super) start: i64,
    pub(super) step: i64,
    /// Millicores and MiB of all pods in the first slot, then in the second, and so on.
    usage: Vec<[u32; 2]>,
}

/// Amounts from millicores and MiB, rounded up.
fn amounts(millicores: f64, mebibytes: f64) -> Amounts {
    Amounts {
        cpu_millicores: millicores.ceil() as i64,
        memory_bytes: (mebibytes.ceil() as i64) << 20,
    }
}

/// A series with both of its halves rotated to the left.
fn rotated(series: &Series, slots: usize) -> Series {
    let mut rotated = series.clone();
    let middle = rotated.usage.len() / 2;
    let (first, second) = rotated.usage.split_at_mut(middle);
    for half in [first, second] {
        let slots = slots % half.len().max(1);
        half.rotate_left(slots);
    }
    rotated
}

impl Workload {
    /// Several copies of the machines. Each copy is a shift later than the one before, within the
    /// first and within the second half of the time, so that no usage is in both halves. Shifts of
    /// whole days keep the hour of the day.
    ///
    /// # Panics
    ///
    /// Without machines, or if the series differ in start, step or length.
    pub(crate) fn copies(machines: &[Machine], copies: usize, shift: i64) -> Self {
        let first = &machines[0].cpu;
        let (start, step, slots) = (first.start, first.step, first.usage.len());
        for series in machines.iter().flat_map(|it| [&it.cpu, &it.memory]) {
            let shape = (series.start, series.step, series.usage.len());
            assert_eq!(shape, (start, step, slots));
        }
        let shifted = |copy: usize| {
            let slots = copy * first.slots(shift);
            machines.iter().map(move |machine| Machine {
                cpu: rotated(&machine.cpu, slots),
                memory: rotated(&machine.memory, slots),
            })
        };
        let machines: Vec<Machine> = (0..copies).flat_map(shifted).collect();
        let in_slot = |slot: usize| {
            let of = move |machine: &Machine| {
                [machine.cpu.usage[slot], machine.memory.usage[slot]].map(|usage| usage as u32)
            };
            machines.iter().map(of)
        };
        let usage = (0..slots).flat_map(in_slot).collect();
        Self {
            machines,
            slots,
            start,
            step,
            usage,
        }
    }

    pub(crate) fn pods(&self) -> usize {
        self.machines.len()
    }

    pub(crate) fn slots(&self) -> usize {
        self.slots
    }

    /// Length of a slot in seconds.
    pub(crate) fn step(&self) -> i64 {
        self.step
    }

    /// Usage of a pod in a slot: millicores and MiB.
    pub(super) fn usage(&self, slot: usize, pod: usize) -> [u32; 2] {
        self.usage[slot * self.machines.len() + pod]
    }

    /// Requests of all pods under a sizing policy, in the order of slots. A policy sees the usage of
    /// a pod from the first slot on, also while the pod is absent. Requests are not above `largest`.
    ///
    /// # Panics
    ///
    /// If production would refuse the caution.
    pub(crate) fn requests(&self, sizing: Sizing, largest: Amounts) -> Vec<RequestChange> {
        let of_pod = |(pod, machine): (usize, &Machine)| {
            let (cpu, _) = sizing.trace(Resource::Cpu, &machine.cpu);
            let (memory, _) = sizing.trace(Resource::Memory, &machine.memory);
            let mut last = None;
            let mut changes = Vec::new();
            for (slot, (cpu, memory)) in cpu.into_iter().zip(memory).enumerate() {
                let request = amounts(cpu, memory).min(largest);
                if last.replace(request) != Some(request) {
                    changes.push(RequestChange { slot, pod, request });
                }
            }
            changes
        };
        let pods = self.machines.par_iter().enumerate();
        let mut changes: Vec<RequestChange> = pods.flat_map_iter(of_pod).collect();
        changes.sort_by_key(|change| (change.slot, change.pod));
        changes
    }

    /// Slack, shortage and OOM kills of a sizing policy over all pods.
    ///
    /// # Panics
    ///
    /// If production would refuse the caution.
    pub(crate) fn sizing_score(&self, sizing: Sizing, resource: Resource) -> Score {
        let of_pod = |machine: &Machine| {
            let series = match resource {
                Resource::Cpu => &machine.cpu,
                Resource::Memory => &machine.memory,
            };
            sizing.trace(resource, series).1
        };
        let scores: Vec<EntityScore> = self.machines.par_iter().map(of_pod).collect();
        Score::of(&scores)
    }
}

impl Sizing {
    /// The request in every slot, and their score.
    fn trace(self, resource: Resource, series: &Series) -> (Vec<f64>, EntityScore) {
        let mut policy: Box<dyn Policy> = match self {
            Self::Provisioned => Box::new(Provisioned),
            Self::Vpa => Box::new(Vpa::new(resource).with_updater()),
            Self::Plimsoll(caution) => {
                let settings = [("policy", "plimsoll"), ("caution", caution)];
                let policy = AnnotatedPolicy::new(resource, &settings);
                Box::new(policy.expect("a caution that production accepts"))
            }
        };
        let executor = Executor {
            early_raises: matches!(self, Self::Plimsoll(_)),
            ..Executor::new(resource)
        };
        let mut requests = Vec::with_capacity(series.usage.len());
        let pods = std::slice::from_ref(series);
        let score = executor.trace_pods(pods, policy.as_mut(), |_, request| {
            requests.push(request);
        });
        (requests, score)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_shifted_within_each_half_and_have_requests_of_their_own() {
        let series = |usage: &[f64], provisioned| Series {
            start: 0,
            step: 300,
            usage: usage.to_vec(),
            provisioned,
        };
        let machine = Machine {
            cpu: series(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 1500.0),
            memory: series(&[10.0, 20.0, 30.0, 40.0, 50.0, 60.0], 100.5),
        };
        let workload = Workload::copies(&[machine], 3, 300);
        let of_pod = |pod| [0, 1, 2, 3, 4, 5].map(|slot| workload.usage(slot, pod));
        let expected = |cpu: [u32; 6]| cpu.map(|cpu| [cpu, 10 * cpu]);
        assert_eq!(of_pod(0), expected([1, 2, 3, 4, 5, 6]));
        assert_eq!(of_pod(1), expected([2, 3, 1, 5, 6, 4]));
        assert_eq!(of_pod(2), expected([3, 1, 2, 6, 4, 5]));
        let largest = Amounts {
            cpu_millicores: 1200,
            memory_bytes: 1 << 40,
        };
        let request = Amounts {
            cpu_millicores: 1200,
            memory_bytes: 101 << 20,
        };
        let change = |pod| RequestChange {
            slot: 0,
            pod,
            request,
        };
        let found = workload.requests(Sizing::Provisioned, largest);
        assert_eq!(found, [change(0), change(1), change(2)]);
    }
}
