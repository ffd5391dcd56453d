//! One metric of an autoscaler: its target, and its proposal for a reading.
//!
//! Source: upstream `horizontal.go` (`computeReplicasForMetric`).

use jiff::Timestamp;
use model::ResourceName;

use super::per_pod::{Proposal, Target, Value};
use super::{NO_PODS, Pod, PodMetrics, ReadinessDelays, Tolerance, ceil_replicas};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Metric {
    /// CPU or memory of the pods, or of one container of each.
    Resource {
        /// Resource, CPU or memory.
        resource: ResourceName,
        /// Container; `None` for all together.
        container: Option<String>,
        target: PerPodTarget,
    },
    /// Values of pods, with the target per pod in milli-units.
    Pods {
        average_milli: i64,
    },
    Object(TotalTarget),
    /// A metric unrelated to Kubernetes objects.
    External(TotalTarget),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerPodTarget {
    /// Percent of the requests.
    Utilization(i32),
    /// Per pod, in thousandths.
    AverageMilli(i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TotalTarget {
    /// The value itself, in thousandths.
    Milli(i64),
    /// The value divided by the number of pods, in thousandths.
    AverageMilli(i64),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reading<'a> {
    /// Values of pods, for a resource and for `Pods`.
    Pods(&'a PodMetrics),
    /// One value in milli-units, for `Object`.
    Object(i64),
    /// Items to sum in milli-units, for `External`.
    External(&'a [i64]),
}

/// The workload during a pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Workload<'a> {
    pub pods: &'a [Pod],
    pub spec_replicas: i32,
    pub status_replicas: i32,
    pub tolerance: Tolerance,
    /// Delays for CPU values of starting pods.
    pub delays: ReadinessDelays,
    pub now: Timestamp,
}

impl Workload<'_> {
    pub fn propose(&self, metric: &Metric, reading: Reading<'_>) -> Result<Proposal, String> {
        match (metric, reading) {
            (
                Metric::Resource {
                    resource,
                    container,
                    target,
                },
                Reading::Pods(metrics),
            ) => {
                let target = match *target {
                    PerPodTarget::Utilization(percent) => Target::Utilization {
                        percent,
                        resource,
                        container: container.as_deref(),
                    },
                    PerPodTarget::AverageMilli(milli) => Target::Average {
                        milli,
                        is_cpu: *resource == ResourceName::Cpu,
                    },
                };
                self.per_pod(metrics, target)
            }
            (Metric::Pods { average_milli }, Reading::Pods(metrics)) => {
                let target = Target::Average {
                    milli: *average_milli,
                    is_cpu: false,
                };
                self.per_pod(metrics, target)
            }
            (Metric::Object(target), Reading::Object(usage)) => match *target {
                TotalTarget::Milli(target) => self.by_value(usage, target),
                TotalTarget::AverageMilli(target) => Ok(self.by_average(usage, target)),
            },
            (Metric::External(target), Reading::External(items)) => match *target {
                TotalTarget::Milli(target) => self.by_value(sum(items), target),
                TotalTarget::AverageMilli(target) => {
                    let usage = sum_for_average(items);
                    let proposal = self.by_average(usage, target);
                    if usage < i64::MAX {
                        return Ok(proposal);
                    }
                    // A saturated value is reported as it is.
                    let value = Value::Average { milli: usage };
                    Ok(Proposal { value, ..proposal })
                }
            },
            _ => Err("the samples do not fit the type of the metric".to_owned()),
        }
    }

    /// Replicas for a total of `usage` with a total target, both in milli-units: the ratio times the
    /// ready pods. Source: upstream `GetObjectMetricReplicas`, `GetExternalMetricReplicas`.
    fn by_value(&self, usage: i64, target: i64) -> Result<Proposal, String> {
        let value = Value::Total { milli: usage };
        let ratio = usage as f64 / target as f64;
        let replicas = if self.spec_replicas == 0 {
            ceil_replicas(ratio)
        } else if self.tolerance.covers(ratio) {
            self.spec_replicas
        } else if self.pods.is_empty() {
            return Err(NO_PODS.to_owned());
        } else {
            let ready = self.pods.iter().filter(|pod| pod.is_ready()).count();
            ceil_replicas(ratio * ready as f64)
        };
        Ok(Proposal { replicas, value })
    }

    /// Replicas for a total of `usage` with a target per pod, both in milli-units, independent of the
    /// pods. Source: the `PerPod` forms.
    fn by_average(&self, usage: i64, target: i64) -> Proposal {
        let replicas = f64::from(self.status_replicas);
        let ratio = usage as f64 / (target as f64 * replicas);
        let milli = (usage as f64 / replicas).ceil() as i64;
        let value = Value::Average { milli };
        let replicas = if self.tolerance.covers(ratio) {
            self.status_replicas
        } else {
            ceil_replicas(usage as f64 / target as f64)
        };
        Proposal { replicas, value }
    }
}

/// Sum of an external metric's items, for a value target.
fn sum(items: &[i64]) -> i64 {
    items.iter().fold(0, |sum, item| sum.wrapping_add(*item))
}

/// Sum of an external metric's items, for an average target: a partial sum below zero saturates to
/// the maximum.
fn sum_for_average(items: &[i64]) -> i64 {
    let mut sum = 0_i64;
    for item in items {
        sum = sum.wrapping_add(*item);
        if sum < 0 {
            return i64::MAX;
        }
    }
    sum
}
