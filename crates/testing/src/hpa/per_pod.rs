//! Replicas from values of pods: utilisation in percent of requests, or a plain average.
//!
//! The ratio of usage to target over the counted pods, times their number, rounded up. Unready pods
//! and missing values are counted in the most conservative way: missing pods as idle when scaling
//! up and at the target when scaling down, unready pods as idle when scaling up. If that reverses
//! the direction, nothing changes. Source: upstream `replica_calculator.go` (`GetResourceReplicas`,
//! `calcPlainMetricReplicas`). Sums are 64-bit integers that wrap, as there.

use std::collections::BTreeSet;

use model::{Quantity, ResourceList, ResourceName};

use super::pods::PodClass;
use super::{NO_POD_METRICS, NO_PODS, Pod, PodMetrics, Workload, ceil_replicas};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// Number of replicas before stabilisation and bounds.
    pub replicas: i32,
    /// Value of the metric as reported in the status.
    pub value: Value,
}

/// Value as reported in the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    Utilization {
        percent: i32,
        /// Average per pod, in thousandths.
        average_milli: i64,
    },
    /// Average per pod, in thousandths.
    Average { milli: i64 },
    /// Total in milli-units.
    Total { milli: i64 },
}

#[derive(Clone, Copy)]
pub(super) enum Target<'a> {
    /// Percent of the requests of the pods, or of one container of each.
    Utilization {
        percent: i32,
        resource: &'a ResourceName,
        container: Option<&'a str>,
    },
    /// Milli-units per pod. Only CPU values are affected by starting pods.
    Average { milli: i64, is_cpu: bool },
}

#[derive(Clone, Copy, Default)]
struct Sums {
    /// Sum of all values, of known and unknown pods.
    values: i64,
    count: i64,
    /// Sum of the values of known pods, for utilisation.
    used: i64,
    requested: i64,
    /// Number of those pods.
    known: i64,
}

impl Sums {
    fn add(&mut self, value: i64, request: i64) {
        self.used = self.used.wrapping_add(value);
        self.requested = self.requested.wrapping_add(request);
        self.known += 1;
        self.add_unknown(value);
    }

    fn add_unknown(&mut self, value: i64) {
        self.values = self.values.wrapping_add(value);
        self.count += 1;
    }
}

impl Target<'_> {
    fn is_cpu(&self) -> bool {
        match self {
            Self::Utilization { resource, .. } => **resource == ResourceName::Cpu,
            Self::Average { is_cpu, .. } => *is_cpu,
        }
    }

    fn request(&self, pod: &Pod) -> Result<i64, String> {
        match self {
            Self::Utilization {
                resource,
                container,
                ..
            } => pod.requests.milli(&pod.name, resource, *container),
            Self::Average { .. } => Ok(0),
        }
    }

    /// Assumed usage of a pod without a value when scaling down.
    fn busy(&self, request: i64) -> i64 {
        match self {
            Self::Utilization { percent, .. } => {
                request.wrapping_mul(i64::from((*percent).max(100))) / 100
            }
            Self::Average { milli, .. } => *milli,
        }
    }

    /// Ratio of usage to target, and the usage.
    fn ratio(&self, sums: &Sums) -> Result<(f64, Value), String> {
        match self {
            Self::Utilization {
                percent: target, ..
            } => {
                let percent = sums.used.wrapping_mul(100).checked_div(sums.requested);
                let percent = percent.ok_or("no metrics returned matched known pods")? as i32;
                let average_milli = sums.used.checked_div(sums.known).unwrap_or(0);
                let value = Value::Utilization {
                    percent,
                    average_milli,
                };
                Ok((f64::from(percent) / f64::from(*target), value))
            }
            Self::Average { milli: target, .. } => {
                let milli = sums.values.checked_div(sums.count);
                let milli = milli.ok_or(NO_POD_METRICS)?;
                Ok((milli as f64 / *target as f64, Value::Average { milli }))
            }
        }
    }
}

impl Workload<'_> {
    /// The number of replicas that brings the usage of its pods to the target.
    pub(super) fn per_pod(
        &self,
        metrics: &PodMetrics,
        target: Target<'_>,
    ) -> Result<Proposal, String> {
        if self.pods.is_empty() {
            return Err(NO_PODS.to_owned());
        }
        let (mut sums, absent, ready) = self.sort(metrics, target)?;
        let (ratio, value) = target.ratio(&sums)?;
        let stay = Ok(Proposal {
            replicas: self.spec_replicas,
            value,
        });
        let up = ratio > 1.0;
        let brings_unready = up && absent.iter().any(|pod| pod.is_unready);
        if !brings_unready && absent.iter().all(|pod| pod.is_unready) {
            if self.tolerance.covers(ratio) {
                return stay;
            }
            return Ok(Proposal {
                replicas: ceil_replicas(ratio * f64::from(ready)),
                value,
            });
        }

        for pod in &absent {
            if up {
                sums.add(0, pod.request);
            } else if ratio < 1.0 && !pod.is_unready {
                sums.add(target.busy(pod.request), pod.request);
            }
        }
        let (filled, _) = target.ratio(&sums)?;
        let turned = (ratio < 1.0 && filled > 1.0) || (up && filled < 1.0);
        if self.tolerance.covers(filled) || turned {
            return stay;
        }
        let replicas = ceil_replicas(filled * sums.count as f64);
        let wrong_way = (filled < 1.0 && replicas > self.spec_replicas)
            || (filled > 1.0 && replicas < self.spec_replicas);
        if wrong_way {
            stay
        } else {
            Ok(Proposal { replicas, value })
        }
    }

    /// Sums over counted values, known pods without one, and the number of ready pods.
    fn sort(
        &self,
        metrics: &PodMetrics,
        target: Target<'_>,
    ) -> Result<(Sums, Vec<Absent>, i32), String> {
        let (mut sums, mut absent, mut ready) = (Sums::default(), Vec::new(), 0_i32);
        let mut unselected = metrics.len();
        let mut missing_request = None;
        for pod in self.pods {
            let metric = metrics.get(&pod.name);
            unselected -= usize::from(metric.is_some());
            let class = pod.class(metric, target.is_cpu(), self.delays, self.now);
            let request = target.request(pod).unwrap_or_else(|error| {
                missing_request.get_or_insert(error);
                0
            });
            match class {
                PodClass::Ignored => {}
                PodClass::Unready | PodClass::Missing => absent.push(Absent {
                    request,
                    is_unready: class == PodClass::Unready,
                }),
                PodClass::Ready(value) => {
                    ready = ready.saturating_add(1);
                    sums.add(value, request);
                }
            }
        }
        if unselected > 0 {
            self.add_unselected(metrics, &mut sums);
        }
        if sums.count == 0 {
            return Err(NO_POD_METRICS.to_owned());
        }
        missing_request.map_or(Ok((sums, absent, ready)), Err)
    }

    /// Adds values of pods not matched by the selector, which count in plain averages.
    fn add_unselected(&self, metrics: &PodMetrics, sums: &mut Sums) {
        let known: BTreeSet<_> = self.pods.iter().map(|pod| &pod.name).collect();
        let unselected = metrics.iter().filter(|(name, _)| !known.contains(name));
        unselected.for_each(|(_, metric)| sums.add_unknown(metric.value_milli));
    }
}

/// A known pod without a counted value.
struct Absent {
    request: i64,
    is_unready: bool,
}

/// Requests of a pod, the base of its utilisation in percent: pod-level requests if present, else the
/// sum over containers and sidecars, each of which must have one. A metric of one container uses that
/// container alone. Source: upstream `replica_calculator.go` (`calculatePodRequests`).
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
