//! Replicas from values of pods: utilisation in percent of requests, or a plain average.
//!
//! The ratio of usage to target over the pods that count, times their number, rounded up. Where
//! pods are unready or their values missing, they are counted in the way that changes least:
//! missing pods as idle on the way up and as busy as wanted on the way down, unready pods as idle
//! on the way up. If the direction turns around by that, nothing changes. Source: upstream
//! `replica_calculator.go` (`GetResourceReplicas`, `calcPlainMetricReplicas`). Sums are 64-bit
//! integers that wrap, as there.

use jiff::Timestamp;
use model::ResourceName;

use super::pods::Standing;
use super::{MetricError, Pod, PodMetrics, ReadinessDelays, Tolerance, ceil_replicas};

/// What one metric asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// So many replicas; not yet within any bounds.
    pub replicas: i32,
    /// The value of the metric that it was read from, as the status reports it.
    pub value: Value,
}

/// A value as the status reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// Of requests.
    Utilization {
        /// Percent of what is requested.
        percent: i32,
        /// Average per pod, in thousandths.
        average_milli: i64,
    },
    /// Average per pod, in thousandths.
    Average {
        /// Thousandths.
        milli: i64,
    },
    /// As it is, in thousandths.
    Total {
        /// Thousandths.
        milli: i64,
    },
}

/// What is common to both calculations.
#[derive(Clone, Copy)]
pub(super) struct Input<'a> {
    pub(super) pods: &'a [Pod],
    pub(super) metrics: &'a PodMetrics,
    pub(super) current_replicas: i32,
    pub(super) tolerance: Tolerance,
    pub(super) delays: ReadinessDelays,
    pub(super) now: Timestamp,
}

/// Target of one calculation, and what is needed to hold values against it.
#[derive(Clone, Copy)]
pub(super) enum Target<'a> {
    /// Percent of the requests of the pods, or of one container of each.
    Utilization {
        percent: i32,
        resource: &'a ResourceName,
        container: Option<&'a str>,
    },
    /// Thousandths per pod. Only CPU values suffer from a pod's start.
    Average { milli: i64, is_cpu: bool },
}

/// Sums over values.
#[derive(Clone, Copy, Default)]
struct Sums {
    /// All values, of pods that are known and of others.
    values: i64,
    /// How many those are.
    count: i64,
    /// Values of known pods, for utilisation.
    used: i64,
    /// What those pods request.
    requested: i64,
    /// How many those are.
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

    fn request(&self, pod: &Pod) -> Result<i64, MetricError> {
        match self {
            Self::Utilization {
                resource,
                container,
                ..
            } => pod.requests.milli(&pod.name, resource, *container),
            Self::Average { .. } => Ok(0),
        }
    }

    /// What a pod without a value is taken to use when the others use too little.
    fn busy(&self, request: i64) -> i64 {
        match self {
            Self::Utilization { percent, .. } => {
                request.wrapping_mul(i64::from((*percent).max(100))) / 100
            }
            Self::Average { milli, .. } => *milli,
        }
    }

    /// Usage divided by target, and the usage.
    fn ratio(&self, sums: &Sums) -> Result<(f64, Value), MetricError> {
        match self {
            Self::Utilization {
                percent: target, ..
            } => {
                let percent = sums
                    .used
                    .wrapping_mul(100)
                    .checked_div(sums.requested)
                    .ok_or(MetricError::NoRequests)?;
                let average_milli = sums
                    .used
                    .checked_div(sums.known)
                    .ok_or(MetricError::NoRequests)?;
                let percent = percent as i32;
                Ok((
                    f64::from(percent) / f64::from(*target),
                    Value::Utilization {
                        percent,
                        average_milli,
                    },
                ))
            }
            Self::Average { milli: target, .. } => {
                let milli = sums
                    .values
                    .checked_div(sums.count)
                    .ok_or(MetricError::NoPodMetrics)?;
                Ok((milli as f64 / *target as f64, Value::Average { milli }))
            }
        }
    }
}

impl Input<'_> {
    /// How many replicas these pods need to use what the target says.
    pub(super) fn propose(&self, target: Target<'_>) -> Result<Proposal, MetricError> {
        if self.pods.is_empty() {
            return Err(MetricError::NoPods);
        }
        let (mut sums, absent, ready) = self.sort(target)?;
        let (ratio, value) = target.ratio(&sums)?;
        let stay = Ok(Proposal {
            replicas: self.current_replicas,
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
        let wrong_way = (filled < 1.0 && replicas > self.current_replicas)
            || (filled > 1.0 && replicas < self.current_replicas);
        if wrong_way {
            stay
        } else {
            Ok(Proposal { replicas, value })
        }
    }

    /// Sums over the values that count, the pods that are known but have no such value, and the
    /// number of ready pods.
    fn sort(&self, target: Target<'_>) -> Result<(Sums, Vec<Absent>, i32), MetricError> {
        let (mut sums, mut absent, mut ready) = (Sums::default(), Vec::new(), 0_i32);
        let mut strangers = self.metrics.len();
        let mut missing_request = None;
        for pod in self.pods {
            let metric = self.metrics.get(&pod.name);
            strangers -= usize::from(metric.is_some());
            let standing = pod.standing(metric, target.is_cpu(), self.delays, self.now);
            let request = target.request(pod).unwrap_or_else(|error| {
                missing_request.get_or_insert(error);
                0
            });
            match standing {
                Standing::Ignored => {}
                Standing::Unready => absent.push(Absent {
                    request,
                    is_unready: true,
                }),
                Standing::Missing => absent.push(Absent {
                    request,
                    is_unready: false,
                }),
                Standing::Ready(value) => {
                    ready = ready.saturating_add(1);
                    sums.add(value, request);
                }
            }
        }
        if strangers > 0 {
            self.add_strangers(&mut sums);
        }
        if sums.count == 0 {
            return Err(MetricError::NoPodMetrics);
        }
        missing_request.map_or(Ok((sums, absent, ready)), Err)
    }

    /// Values of pods that the selector does not find count in plain averages.
    fn add_strangers(&self, sums: &mut Sums) {
        let known: std::collections::BTreeSet<&str> =
            self.pods.iter().map(|pod| pod.name.as_str()).collect();
        for (_, metric) in self
            .metrics
            .iter()
            .filter(|(name, _)| !known.contains(name.as_str()))
        {
            sums.add_unknown(metric.value_milli);
        }
    }
}

/// A pod that is known, but has no value that counts.
struct Absent {
    request: i64,
    is_unready: bool,
}
