//! Effective resources of a container: as the kubelet reports them, else as specified.
//!
//! Source: upstream `pkg/utils/resources/resourcehelpers.go`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{self, Container, ContainerStatus, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use model::{Cpu, Memory, Quantity, ResourceList, ResourceName};

/// CPU and memory; `None` where unset.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Resources {
    /// CPU, rounded up to millicores.
    pub cpu: Option<Cpu>,
    /// Memory, rounded up to bytes.
    pub memory: Option<Memory>,
}

impl Resources {
    /// Reads a resource list. The API server admits quantities only, others count as unset.
    pub(crate) fn of(list: Option<&BTreeMap<String, Text>>) -> Self {
        let quantity = |name: &str| list?.get(name)?.0.parse::<Quantity>().ok();
        Self {
            cpu: quantity("cpu").as_ref().map(Cpu::from),
            memory: quantity("memory").as_ref().map(Memory::from),
        }
    }
}

/// Whether a resource is one that every node has.
pub(crate) fn is_common(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage" | "pods")
}

/// The sum of extended resources, such as devices and huge pages, over some resource lists.
pub(crate) fn extended<'a>(
    lists: impl Iterator<Item = &'a BTreeMap<String, Text>>,
) -> ResourceList {
    let mut sum = ResourceList::new();
    for (name, text) in lists.flatten() {
        let Some(quantity) = text
            .0
            .parse::<Quantity>()
            .ok()
            .filter(|quantity| !is_common(name) && !quantity.is_zero())
        else {
            continue;
        };
        let name = ResourceName::from(name.as_str());
        let quantity = sum
            .get(&name)
            .map_or(quantity.clone(), |before| before + &quantity);
        sum.insert(name, quantity);
    }
    sum
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Requirements {
    pub requests: Resources,
    pub limits: Resources,
}

impl Requirements {
    pub(crate) fn of(resources: Option<&ResourceRequirements>) -> Self {
        Self {
            requests: Resources::of(resources.and_then(|it| it.requests.as_ref())),
            limits: Resources::of(resources.and_then(|it| it.limits.as_ref())),
        }
    }

    /// Fills absent requests with the limits, as the API server's defaulting does.
    pub(crate) fn or_limits(self) -> Self {
        let Self {
            requests: Resources { cpu, memory },
            limits,
        } = self;
        Self {
            requests: Resources {
                cpu: cpu.or(limits.cpu),
                memory: memory.or(limits.memory),
            },
            limits,
        }
    }

    /// These, and others where there are none.
    pub(crate) fn or(self, others: Self) -> Self {
        let of = |own: Resources, other: Resources| Resources {
            cpu: own.cpu.or(other.cpu),
            memory: own.memory.or(other.memory),
        };
        Self {
            requests: of(self.requests, others.requests),
            limits: of(self.limits, others.limits),
        }
    }

    /// The sum; a resource that is unset on both sides stays unset.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.each(other, i64::saturating_add)
    }

    #[must_use]
    pub fn max(self, other: Self) -> Self {
        self.each(other, i64::max)
    }

    fn each(self, other: Self, combine: fn(i64, i64) -> i64) -> Self {
        let cpu = |a: Cpu, b: Cpu| Cpu::from_millicores(combine(a.millicores(), b.millicores()));
        let memory = |a: Memory, b: Memory| Memory::from_bytes(combine(a.bytes(), b.bytes()));
        let both = |a: Resources, b: Resources| Resources {
            cpu: either(a.cpu, b.cpu, cpu),
            memory: either(a.memory, b.memory, memory),
        };
        Self {
            requests: both(self.requests, other.requests),
            limits: both(self.limits, other.limits),
        }
    }
}

fn either<T>(a: Option<T>, b: Option<T>, combine: impl FnOnce(T, T) -> T) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(combine(a, b)),
        (one, other) => one.or(other),
    }
}

/// Resources of a pod as a whole in effect: as specified, and while a resize is underway with the kubelet's
/// amounts, which it reads from the pod's cgroup, with the overhead and rounded.
pub(crate) fn of_pod(
    generation: Option<i64>,
    spec: &v1::PodSpec,
    status: &v1::PodStatus,
) -> Option<ResourceRequirements> {
    let mut found = spec.resources.clone()?;
    let mut conditions = status.conditions.iter().flatten();
    let is_seen = status.observed_generation.is_none() || status.observed_generation >= generation;
    let is_resizing = |it: &v1::PodCondition| {
        it.status == "True" && matches!(&*it.type_, "PodResizePending" | "PodResizeInProgress")
    };
    if is_seen && !conditions.any(is_resizing) {
        return Some(found);
    }
    let reported = status.resources.clone().unwrap_or_default();
    for (specified, reported) in [
        (&mut found.requests, reported.requests),
        (&mut found.limits, reported.limits),
    ] {
        let reported = reported.unwrap_or_default();
        for (name, amount) in specified.iter_mut().flatten() {
            if let Some(reported) = reported.get(name) {
                amount.clone_from(reported);
            }
        }
    }
    Some(found)
}

/// Requests and limits in effect: the status replaces the specification as a whole, even if it sets
/// fewer resources.
pub(crate) fn effective(status: Option<&ContainerStatus>, spec: &Container) -> Requirements {
    let reported = status.and_then(|status| status.resources.as_ref());
    Requirements::of(reported.or(spec.resources.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requirements(requests: &[(&str, &str)]) -> ResourceRequirements {
        let list = requests
            .iter()
            .map(|(name, text)| ((*name).to_owned(), Text((*text).to_owned())))
            .collect();
        ResourceRequirements {
            requests: Some(list),
            ..Default::default()
        }
    }

    fn check(
        status: Option<&[(&str, &str)]>,
        spec: Option<&[(&str, &str)]>,
        expected: (Option<i64>, Option<i64>),
    ) {
        let status = status.map(|reported| ContainerStatus {
            resources: Some(requirements(reported)),
            ..ContainerStatus::default()
        });
        let spec = Container {
            resources: spec.map(requirements),
            ..Container::default()
        };
        let requests = effective(status.as_ref(), &spec).requests;
        let amounts = (
            requests.cpu.map(Cpu::millicores),
            requests.memory.map(Memory::bytes),
        );
        assert_eq!(amounts, expected, "{status:?} {spec:?}");
    }

    #[test]
    fn the_status_goes_before_the_specification() {
        let (one, two) = (
            [("cpu", "1"), ("memory", "1Gi")],
            [("cpu", "2"), ("memory", "1Gi")],
        );
        check(Some(&two), Some(&one[..1]), (Some(2000), Some(1 << 30)));
        check(Some(&[]), Some(&one), (None, None));
        check(None, Some(&one), (Some(1000), Some(1 << 30)));
        check(None, None, (None, None));
    }

    #[test]
    fn fractions_round_up() {
        let fractions = [("cpu", "1500u"), ("memory", "1500m")];
        check(None, Some(&fractions), (Some(2), Some(2)));
    }
}
