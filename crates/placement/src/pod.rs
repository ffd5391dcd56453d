//! Requests and limits of a pod.

use model::ResourceList;

/// Amounts of CPU and memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// CPU in millicores.
    pub cpu_millicores: i64,
    /// Memory in bytes.
    pub memory_bytes: i64,
}

/// Container of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Container {
    /// Name of the container.
    pub name: String,
    /// Requests of the container.
    pub requests: ResourceList,
    /// Limits of the container.
    pub limits: ResourceList,
}

/// Part of a pod that determines its requests and limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodSpec {
    /// Containers, with the sidecars (init containers with `restartPolicy: Always`).
    pub containers: Vec<Container>,
    /// Init containers that end before the containers start.
    pub init_containers: Vec<Container>,
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

    /// The saturated sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            cpu_millicores: self.cpu_millicores.saturating_add(other.cpu_millicores),
            memory_bytes: self.memory_bytes.saturating_add(other.memory_bytes),
        }
    }

    /// The difference, at least 0.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        let difference = Self {
            cpu_millicores: self.cpu_millicores.saturating_sub(other.cpu_millicores),
            memory_bytes: self.memory_bytes.saturating_sub(other.memory_bytes),
        };
        difference.max(Self::default())
    }

    /// The larger amount of each resource.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            cpu_millicores: self.cpu_millicores.max(other.cpu_millicores),
            memory_bytes: self.memory_bytes.max(other.memory_bytes),
        }
    }

    /// The smaller amount of each resource.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self {
            cpu_millicores: self.cpu_millicores.min(other.cpu_millicores),
            memory_bytes: self.memory_bytes.min(other.memory_bytes),
        }
    }

    /// Whether no resource exceeds that of `other`.
    pub fn fits(self, other: Self) -> bool {
        self.cpu_millicores <= other.cpu_millicores && self.memory_bytes <= other.memory_bytes
    }
}

impl PodSpec {
    /// The larger of the sum over containers and the largest init container, plus overhead.
    pub fn requests(&self) -> Amounts {
        self.total(|container| &container.requests)
    }

    /// The same for limits, each at least the request of the pod. A missing limit counts as 0.
    pub fn limits(&self) -> Amounts {
        self.total(|container| &container.limits)
            .max(self.requests())
    }

    fn total(&self, list: impl Fn(&Container) -> &ResourceList) -> Amounts {
        let amounts = |container| Amounts::of(list(container));
        let sum = self
            .containers
            .iter()
            .map(amounts)
            .fold(Amounts::default(), Amounts::plus);
        self.init_containers
            .iter()
            .map(amounts)
            .fold(sum, Amounts::max)
            .plus(Amounts::of(&self.overhead))
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
            };
            let pair = |amounts: Amounts| (amounts.cpu_millicores, amounts.memory_bytes);
            assert_eq!(
                (pair(pod.requests()), pair(pod.limits())),
                (requests, limits)
            );
        }
    }
}
