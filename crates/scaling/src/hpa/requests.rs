//! What a pod asks for, as the base of its utilisation in percent.
//!
//! A pod's own requests if it has any, else the sum over its containers and sidecars, each of which
//! must have one. A metric of one container goes by that container alone. Source: upstream
//! `replica_calculator.go` (`calculatePodRequests`).

use model::{Quantity, ResourceList, ResourceName};

use super::MetricError;

/// Requests of one pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Requests {
    /// Of the pod as a whole; empty when only its containers have some.
    pub pod: ResourceList,
    /// Of its containers, then of its init containers that go on running.
    pub containers: Vec<Container>,
}

/// Requests of one container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Container {
    /// Its name.
    pub name: String,
    /// What it asks for.
    pub requests: ResourceList,
}

impl Requests {
    /// What the pod, or one container of it, asks for, in thousandths.
    pub fn milli(
        &self,
        pod: &str,
        resource: &ResourceName,
        container: Option<&str>,
    ) -> Result<i64, MetricError> {
        match container {
            None if !self.pod.is_empty() => self.of_pod(pod, resource),
            None => self.sum(pod, resource, |_| true),
            Some(name)
                if self
                    .containers
                    .iter()
                    .all(|container| container.name != name) =>
            {
                Err(MetricError::MissingContainer {
                    container: name.to_owned(),
                    pod: pod.to_owned(),
                })
            }
            Some(name) => self.sum(pod, resource, |container| container.name == name),
        }
    }

    fn of_pod(&self, pod: &str, resource: &ResourceName) -> Result<i64, MetricError> {
        let missing = || MetricError::MissingPodRequest {
            resource: resource.clone(),
            pod: pod.to_owned(),
        };
        self.pod
            .get(resource)
            .map(Quantity::milli_value)
            .ok_or_else(missing)
    }

    fn sum(
        &self,
        pod: &str,
        resource: &ResourceName,
        counts: impl Fn(&Container) -> bool,
    ) -> Result<i64, MetricError> {
        let mut sum = 0_i64;
        for container in self.containers.iter().filter(|container| counts(container)) {
            let request =
                container
                    .requests
                    .get(resource)
                    .ok_or_else(|| MetricError::MissingRequest {
                        resource: resource.clone(),
                        container: container.name.clone(),
                        pod: pod.to_owned(),
                    })?;
            sum = sum.wrapping_add(request.milli_value());
        }
        Ok(sum)
    }
}
