//! Requests and limits of a pod.

use model::{ResourceList, ResourceName};

/// Amounts of CPU and memory.
#[must_use]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    pub cpu_millicores: i64,
    pub memory_bytes: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Container {
    pub name: String,
    pub requests: ResourceList,
    pub limits: ResourceList,
}

/// Pod-level requests and limits; empty where unset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodLevel {
    pub requests: ResourceList,
    pub limits: ResourceList,
}

/// Part of a pod that determines its requests and limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodSpec {
    /// Containers, with the sidecars (init containers with `restartPolicy: Always`).
    pub containers: Vec<Container>,
    /// Init containers that end before the containers start, each with the sidecars that run
    /// before it. [`PodSpec::add_init_container`] fills both lists.
    pub init_containers: Vec<Container>,
    /// Pod-level requests and limits (`spec.resources`), which replace the sums over containers.
    pub pod_level: PodLevel,
    /// Overhead of the pod's runtime class.
    pub overhead: ResourceList,
}

impl Amounts {
    /// CPU and memory of a list; 0 for a missing resource.
    pub fn of(list: &ResourceList) -> Self {
        Self {
            cpu_millicores: list.cpu().map_or(0, model::Cpu::millicores),
            memory_bytes: list.memory().map_or(0, model::Memory::bytes),
        }
    }

    fn each(self, other: Self, combine: fn(i64, i64) -> i64) -> Self {
        Self {
            cpu_millicores: combine(self.cpu_millicores, other.cpu_millicores),
            memory_bytes: combine(self.memory_bytes, other.memory_bytes),
        }
    }

    pub fn plus(self, other: Self) -> Self {
        self.each(other, i64::saturating_add)
    }

    /// The difference, at least 0.
    pub fn minus(self, other: Self) -> Self {
        self.each(other, |amount, part| amount.saturating_sub(part).max(0))
    }

    pub fn part(self, part: f64) -> Self {
        let of = |amount: i64| (amount as f64 * part.clamp(0.0, 1.0)).round() as i64;
        Self {
            cpu_millicores: of(self.cpu_millicores),
            memory_bytes: of(self.memory_bytes),
        }
    }

    pub fn max(self, other: Self) -> Self {
        self.each(other, i64::max)
    }

    pub fn min(self, other: Self) -> Self {
        self.each(other, i64::min)
    }

    /// Whether no resource exceeds that of `other`.
    pub fn fits(self, other: Self) -> bool {
        self.cpu_millicores <= other.cpu_millicores && self.memory_bytes <= other.memory_bytes
    }
}

impl PodSpec {
    /// Adds an init container; call in the order of the pod's specification. One with
    /// `restartPolicy: Always` is a sidecar and runs alongside all later containers. Source:
    /// `PodRequests` in `k8s.io/component-helpers/resource`.
    pub fn add_init_container(&mut self, mut container: Container, is_sidecar: bool) {
        // Only sidecars are in `containers` before the app containers are added.
        if is_sidecar {
            self.containers.push(container);
            return;
        }
        for sidecar in &self.containers {
            add(&mut container.requests, &sidecar.requests);
            add(&mut container.limits, &sidecar.limits);
        }
        self.init_containers.push(container);
    }

    /// The larger of the sum over containers and the largest init container, or the pod-level
    /// request; plus overhead.
    pub fn requests(&self) -> Amounts {
        self.total(|container| &container.requests, &self.pod_level.requests)
    }

    /// The same for limits, each at least the request of the pod. A missing limit counts as 0.
    pub fn limits(&self) -> Amounts {
        self.total(|container| &container.limits, &self.pod_level.limits)
            .max(self.requests())
    }

    fn total(
        &self,
        list: impl Fn(&Container) -> &ResourceList,
        pod_level: &ResourceList,
    ) -> Amounts {
        let amounts = |container| Amounts::of(list(container));
        let containers = self.containers.iter().map(amounts);
        let sum = containers.fold(Amounts::default(), Amounts::plus);
        let largest = self.init_containers.iter().map(amounts);
        let total = largest.fold(sum, Amounts::max);
        let (cpu, memory) = (pod_level.cpu(), pod_level.memory());
        let total = Amounts {
            cpu_millicores: cpu.map_or(total.cpu_millicores, model::Cpu::millicores),
            memory_bytes: memory.map_or(total.memory_bytes, model::Memory::bytes),
        };
        total.plus(Amounts::of(&self.overhead))
    }
}

fn add(sum: &mut ResourceList, list: &ResourceList) {
    for name in [ResourceName::Cpu, ResourceName::Memory] {
        let Some(added) = list.get(&name) else {
            continue;
        };
        let total = match sum.get(&name) {
            Some(before) => before + added,
            None => added.clone(),
        };
        sum.insert(name, total);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(cpu: i64, memory: i64) -> ResourceList {
        ResourceList::of(
            model::Cpu::from_millicores(cpu),
            model::Memory::from_bytes(memory),
        )
    }

    fn container((request, limit): ((i64, i64), (i64, i64))) -> Container {
        Container {
            requests: list(request.0, request.1),
            limits: list(limit.0, limit.1),
            ..Container::default()
        }
    }

    #[test]
    fn init_containers_count_by_the_largest_and_overhead_is_added() {
        for (containers, init, overhead, requests, limits) in [
            (
                [((1000, 2048), (1000, 2048)), ((500, 1024), (500, 1024))],
                ((100, 512), (100, 512)),
                10,
                (1510, 3072),
                (1510, 3072),
            ),
            (
                [((1000, 2048), (1000, 2048)), ((500, 1024), (500, 1024))],
                ((2000, 4096), (2000, 4096)),
                10,
                (2010, 4096),
                (2010, 4096),
            ),
            (
                [((0, 0), (1000, 4096)), ((0, 0), (2500, 2048))],
                ((0, 0), (2000, 4096)),
                10,
                (10, 0),
                (3510, 6144),
            ),
            (
                [((0, 0), (0, 0)), ((0, 200), (0, 0))],
                ((1000, 400), (0, 0)),
                0,
                (1000, 400),
                (1000, 400),
            ),
            (
                [((0, 0), (0, 0)), ((0, 0), (1000, 2048))],
                ((0, 0), (2000, 4096)),
                0,
                (0, 0),
                (2000, 4096),
            ),
            (
                [((1500, 2048), (1400, 3072)), ((0, 0), (0, 0))],
                ((0, 0), (0, 0)),
                0,
                (1500, 2048),
                (1500, 3072),
            ),
        ] {
            let pod = PodSpec {
                containers: containers.map(container).to_vec(),
                init_containers: vec![container(init)],
                overhead: list(overhead, 0),
                ..PodSpec::default()
            };
            let pair = |amounts: Amounts| (amounts.cpu_millicores, amounts.memory_bytes);
            assert_eq!(
                (pair(pod.requests()), pair(pod.limits())),
                (requests, limits)
            );
        }
    }

    /// Source: the examples of KEP-753 (sidecars) and KEP-2837 (pod-level resources).
    #[test]
    fn sidecars_run_alongside_later_containers_and_pod_level_amounts_replace_sums() {
        let amounts = |cpu| ((cpu, cpu), (cpu, cpu));
        for (init, app, pod_level, expected) in [
            // The sidecar and the app outweigh the init container that runs before the sidecar.
            (vec![(700, false), (300, true)], 500, None, 800),
            // An init container after the sidecar runs alongside it.
            (vec![(300, true), (700, false)], 500, None, 1000),
            (
                vec![(300, true), (100, true), (700, false)],
                500,
                None,
                1100,
            ),
            (
                vec![(300, true), (700, false), (100, true)],
                500,
                None,
                1000,
            ),
            (vec![], 500, None, 500),
            (vec![(300, true), (700, false)], 500, Some(2000), 2000),
            (vec![(300, true)], 500, Some(100), 100),
        ] {
            let mut pod = PodSpec::default();
            for (cpu, is_sidecar) in &init {
                pod.add_init_container(container(amounts(*cpu)), *is_sidecar);
            }
            pod.containers.push(container(amounts(app)));
            if let Some(cpu) = pod_level {
                pod.pod_level = PodLevel {
                    requests: list(cpu, cpu),
                    limits: list(cpu, cpu),
                };
            }
            pod.overhead = list(10, 10);
            let expected = Amounts {
                cpu_millicores: expected + 10,
                memory_bytes: expected + 10,
            };
            assert_eq!(pod.requests(), expected, "{init:?} {pod_level:?}");
            assert_eq!(pod.limits(), expected, "{init:?} {pod_level:?}");
        }
        let mut pod = PodSpec::default();
        pod.containers.push(container(amounts(500)));
        let cpu = model::Quantity::from_milli(900);
        pod.pod_level.requests = [(ResourceName::Cpu, cpu)].into_iter().collect();
        let expected = Amounts {
            cpu_millicores: 900,
            memory_bytes: 500,
        };
        assert_eq!(
            pod.requests(),
            expected,
            "memory is the sum over containers"
        );
    }
}
