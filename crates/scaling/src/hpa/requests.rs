//! Requests of a pod, the base of its utilisation in percent.
//!
//! Pod-level requests if present, else the sum over containers and sidecars, each of which must
//! have one. A metric of one container uses that container alone. Source: upstream
//! `replica_calculator.go` (`calculatePodRequests`).

use model::{Quantity, ResourceList, ResourceName};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Requests {
    /// Pod-level requests; empty if only containers have some.
    pub pod: ResourceList,
    /// Requests of its containers, then of its sidecars.
    pub containers: Vec<Container>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Container {
    pub name: String,
    pub requests: ResourceList,
}

impl Requests {
    /// The request of the pod, or of one container, in milli-units.
    pub fn milli(
        &self,
        pod: &str,
        resource: &ResourceName,
        container: Option<&str>,
    ) -> Result<i64, String> {
        match container {
            None if !self.pod.is_empty() => self.of_pod(pod, resource),
            None => self.sum(pod, resource, |_| true),
            Some(name) if self.containers.iter().all(|it| it.name != name) => {
                Err(format!("container {name} not found in Pod {pod}"))
            }
            Some(name) => self.sum(pod, resource, |container| container.name == name),
        }
    }

    fn of_pod(&self, pod: &str, resource: &ResourceName) -> Result<i64, String> {
        let request = self.pod.get(resource).map(Quantity::milli_value);
        request.ok_or_else(|| format!("missing pod-level request for {resource} in Pod {pod}"))
    }

    fn sum(
        &self,
        pod: &str,
        resource: &ResourceName,
        counts: impl Fn(&Container) -> bool,
    ) -> Result<i64, String> {
        let mut sum = 0_i64;
        for container in self.containers.iter().filter(|container| counts(container)) {
            let name = &container.name;
            let missing =
                || format!("missing request for {resource} in container {name} of Pod {pod}");
            let request = container.requests.get(resource).ok_or_else(missing)?;
            sum = sum.wrapping_add(request.milli_value());
        }
        Ok(sum)
    }
}
