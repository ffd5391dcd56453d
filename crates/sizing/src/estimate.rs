//! Estimates from history: percentile, plus margin, times confidence, at least the minimum;
//! integers after every step.
//!
//! * target = percentile + margin
//! * lower bound = (percentile + margin) * (1 + 0.001 / confidence)^-2
//! * upper bound = (percentile + margin) * (1 + 1 / confidence)
//!
//! Confidence is the shorter of the time between first and last CPU sample and the number of
//! samples in minutes, both in confidence intervals. Without samples it is 0: the upper bound is
//! the maximum, the lower one the minimum. Source: upstream `pkg/recommender/logic/recommender.go`
//! and `estimator.go`.

use crate::amount::{self, Amounts};
use crate::config::{Config, Percentiles};
use crate::container_history::{ContainerHistory, HistogramConfigs};
use crate::float::power;

const MINUTE_NS: i64 = 60_000_000_000;

/// Target and bounds of one container, before rounding and policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// Recommended request.
    pub target: Amounts,
    /// Requests below this are likely insufficient.
    pub lower_bound: Amounts,
    /// Requests above this are likely wasted.
    pub upper_bound: Amounts,
}

/// Target, with its steps, and bounds of one resource, in millicores or bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Derivation {
    /// Percentile of usage.
    pub(crate) usage: i64,
    pub(crate) with_margin: i64,
    /// The greater of the previous step and the minimum.
    pub(crate) target: i64,
    lower_bound: i64,
    upper_bound: i64,
}

/// Minimum of a container: the configured minimum of a pod divided by its containers.
pub fn container_minimum(config: &Config, containers: usize) -> Amounts {
    let share = 1.0 / containers as f64;
    let [cpu, memory] = config.pod_minimum();
    Amounts::new(amount::scale(cpu, share), amount::scale(memory, share))
}

/// Target and bounds from a container's history.
pub fn estimate(
    config: &Config,
    shapes: &HistogramConfigs,
    minimum: Amounts,
    history: &ContainerHistory,
) -> Estimate {
    let [cpu, memory] = derive(config, shapes, minimum, history);
    Estimate {
        target: Amounts::new(cpu.target, memory.target),
        lower_bound: Amounts::new(cpu.lower_bound, memory.lower_bound),
        upper_bound: Amounts::new(cpu.upper_bound, memory.upper_bound),
    }
}

/// The steps to target and bounds of CPU in millicores, and of memory in bytes.
pub(crate) fn derive(
    config: &Config,
    shapes: &HistogramConfigs,
    minimum: Amounts,
    history: &ContainerHistory,
) -> [Derivation; 2] {
    let cores = |percentile| history.cpu.percentile(&shapes.cpu, percentile);
    let bytes = |percentile| history.memory.percentile(&shapes.memory, percentile);
    let margin = config.margin_fraction;
    [
        derive_one(
            margin,
            confidence(history, config.cpu_confidence_interval_ns),
            minimum.cpu.millicores(),
            &config.cpu_percentiles,
            |percentile| cores(percentile) * 1000.0,
        ),
        derive_one(
            margin,
            confidence(history, config.memory_confidence_interval_ns),
            minimum.memory.bytes(),
            &config.memory_percentiles,
            bytes,
        ),
    ]
}

fn derive_one(
    margin: f64,
    confidence: f64,
    minimum: i64,
    wanted: &Percentiles,
    usage: impl Fn(f64) -> f64,
) -> Derivation {
    let steps = |percentile| {
        let usage = amount::from_f64(usage(percentile));
        let with_margin = usage.saturating_add(amount::scale(usage, margin));
        (usage, with_margin)
    };
    let bound = |percentile, factor| {
        let (_, with_margin) = steps(percentile);
        amount::scale(with_margin, factor).max(minimum)
    };
    let (usage, with_margin) = steps(wanted.target);
    Derivation {
        usage,
        with_margin,
        target: with_margin.max(minimum),
        lower_bound: bound(wanted.lower_bound, power(1.0 + 0.001 / confidence, -2)),
        upper_bound: bound(wanted.upper_bound, 1.0 + 1.0 / confidence),
    }
}

/// Length of the history in confidence intervals.
pub(crate) fn confidence(history: &ContainerHistory, interval_ns: i64) -> f64 {
    let lifespan = history.lifespan() as f64 / interval_ns as f64;
    let whole_minutes = (interval_ns / MINUTE_NS) as f64;
    let minutes = whole_minutes + (interval_ns % MINUTE_NS) as f64 / MINUTE_NS as f64;
    lifespan.min(history.samples() as f64 / minutes)
}
