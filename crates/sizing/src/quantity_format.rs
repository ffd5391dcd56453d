//! Quantity of one amount: rounded up to a step if configured, CPU with decimal suffixes, memory
//! with binary ones.
//!
//! Source: upstream `pkg/recommender/model/types.go` (`ResourcesAsResourceList`,
//! `HumanizeMemoryQuantity`).

use model::{Cpu, Memory, Quantity};

use crate::config::Config;

pub fn cpu(config: &Config, cpu: Cpu) -> Quantity {
    Quantity::from_milli(round_up(cpu.millicores(), config.round_cpu_millicores))
}

pub fn memory(config: &Config, memory: Memory) -> Quantity {
    let bytes = round_up(memory.bytes(), config.round_memory_bytes);
    if config.humanize_memory {
        humanized(bytes)
    } else {
        Quantity::from_bytes(bytes)
    }
}

/// The next multiple of `step`; unchanged if the step is below one.
fn round_up(amount: i64, step: i64) -> i64 {
    if step <= 1 || amount <= 0 {
        return amount;
    }
    let steps = (amount - 1) / step + 1;
    steps.saturating_mul(step)
}

/// Formats with two decimals and the largest binary suffix up to Ti and parses the result: `1.33Gi`
/// is not a whole number of bytes.
fn humanized(bytes: i64) -> Quantity {
    let units = [(40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")];
    let Some((power, suffix)) = units.into_iter().find(|(power, _)| bytes >= 1 << power) else {
        // Without a suffix the format is decimal.
        return Quantity::from_units(bytes, model::quantity::Format::DecimalSi);
    };
    let text = format!("{:.2}{suffix}", bytes as f64 / f64::from(power).exp2());
    text.parse().unwrap_or_else(|_| Quantity::from_bytes(bytes))
}
