//! From history to amounts: percentile, plus margin, times confidence, at least the minimum; whole numbers after every step.
//!
//! * target = percentile + margin
//! * lower bound = (percentile + margin) * (1 + 0.001 / confidence)^-2
//! * upper bound = (percentile + margin) * (1 + 1 / confidence)
//!
//! Confidence is the shorter of the time between first and last CPU sample and the time that the number of samples would take at
//! one per minute, both in confidence intervals. Without samples it is 0: the upper bound is as large as it gets, the lower one is the minimum.
//! Source: upstream `pkg/recommender/logic/recommender.go` and `estimator.go`.

use model::{Cpu, Memory};

use crate::aggregate::{Aggregate, Shapes};
use crate::amount;
use crate::config::{Config, Percentiles};
use crate::decaying::{DecayingHistogram, Shape};
use crate::float::power;

const MINUTE_NS: i64 = 60_000_000_000;

/// Amounts of both resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amounts {
    /// CPU.
    pub cpu: Cpu,
    /// Memory.
    pub memory: Memory,
}

/// Target and bounds of one container, before rounding and policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// What to ask for.
    pub target: Amounts,
    /// Less is likely too little.
    pub lower_bound: Amounts,
    /// More is likely wasted.
    pub upper_bound: Amounts,
}

/// Target and bounds of one resource.
struct Bounds {
    target: i64,
    lower: i64,
    upper: i64,
}

/// The least a container gets when a pod of so many containers has the configured minimum.
pub(crate) fn minimum(config: &Config, containers: usize) -> Amounts {
    let share = 1.0 / containers as f64;
    Amounts {
        cpu: Cpu::from_millicores(amount::scale(config.pod_min_cpu().millicores(), share)),
        memory: Memory::from_bytes(amount::scale(config.pod_min_memory().bytes(), share)),
    }
}

/// Target and bounds from a container's history.
pub(crate) fn estimate(config: &Config, shapes: &Shapes, minimum: Amounts, history: &Aggregate) -> Estimate {
    let cpu = bounds(
        config.margin_fraction,
        confidence(history, config.cpu_confidence_interval_ns),
        minimum.cpu.millicores(),
        // To thousandths of a core.
        &percentiles(&history.cpu, &shapes.cpu, &config.cpu_percentiles, 1000.0),
    );
    let memory = bounds(
        config.margin_fraction,
        confidence(history, config.memory_confidence_interval_ns),
        minimum.memory.bytes(),
        &percentiles(&history.memory, &shapes.memory, &config.memory_percentiles, 1.0),
    );
    let amounts = |cpu, memory| Amounts { cpu: Cpu::from_millicores(cpu), memory: Memory::from_bytes(memory) };
    Estimate {
        target: amounts(cpu.target, memory.target),
        lower_bound: amounts(cpu.lower, memory.lower),
        upper_bound: amounts(cpu.upper, memory.upper),
    }
}

fn percentiles(usage: &DecayingHistogram, shape: &Shape, wanted: &Percentiles, unit: f64) -> Bounds {
    let at = |fraction| amount::from_f64(usage.percentile(shape, fraction) * unit);
    Bounds { target: at(wanted.target), lower: at(wanted.lower_bound), upper: at(wanted.upper_bound) }
}

fn bounds(margin: f64, confidence: f64, minimum: i64, usage: &Bounds) -> Bounds {
    let with_margin = |amount: i64| amount.saturating_add(amount::scale(amount, margin));
    let lower_factor = power(1.0 + 0.001 / confidence, -2);
    let upper_factor = 1.0 + 1.0 / confidence;
    Bounds {
        target: with_margin(usage.target).max(minimum),
        lower: amount::scale(with_margin(usage.lower), lower_factor).max(minimum),
        upper: amount::scale(with_margin(usage.upper), upper_factor).max(minimum),
    }
}

/// How much history there is, in confidence intervals.
pub(crate) fn confidence(history: &Aggregate, interval_ns: i64) -> f64 {
    let lifespan = history.lifespan() as f64 / interval_ns as f64;
    let whole_minutes = (interval_ns / MINUTE_NS) as f64;
    let minutes = whole_minutes + (interval_ns % MINUTE_NS) as f64 / MINUTE_NS as f64;
    lifespan.min(history.samples() as f64 / minutes)
}
