//! Usage of the last days for Crane's predictor, aggregated online.
//!
//! Crane reads the whole history from its store in every run. Here each resource has seven complete
//! blocks and an open one, each a histogram: the oldest block is dropped as a whole, so that
//! between seven and eight sevenths of the history length count. A block has at most as many
//! entries as its layout has buckets (1001 by default; a steady container uses a few).

use std::collections::VecDeque;

use model::{Cpu, Memory};

use super::histogram::WeightedHistogram;
use super::oom::PROTECTION_NS;
use super::percentile::PercentilePredictor;
use super::resource::CraneConfig;
use crate::instant::Instant;

const BLOCKS: i64 = 7;

/// History of one container.
#[derive(Clone, Debug)]
pub(crate) struct CraneHistory {
    cpu: Blocks,
    memory: Blocks,
    killed: Option<(Instant, Memory)>,
}

/// Histograms of one resource by block number, oldest first.
#[derive(Clone, Debug, Default)]
struct Blocks(VecDeque<(i64, WeightedHistogram)>);

impl CraneHistory {
    pub(crate) fn new() -> Self {
        Self {
            cpu: Blocks::default(),
            memory: Blocks::default(),
            killed: None,
        }
    }

    pub(crate) fn add_cpu(&mut self, config: &CraneConfig, cores: f64, at: Instant) {
        self.cpu.add(&config.cpu, cores, at);
    }

    pub(crate) fn add_memory(&mut self, config: &CraneConfig, bytes: f64, at: Instant) {
        self.memory.add(&config.memory, bytes, at);
    }

    /// Records an OOM kill. Of several the largest request counts, until it is too old.
    pub(crate) fn add_oom(&mut self, request: Memory, at: Instant) {
        let kept = self
            .killed
            .filter(|(before, larger)| *larger > request && at.since(*before) <= PROTECTION_NS);
        if kept.is_none() {
            self.killed = Some((at, request));
        }
    }

    /// The recommendation at a time.
    pub(crate) fn recommend(&self, config: &CraneConfig, now: Instant) -> Option<(Cpu, Memory)> {
        let killed = self
            .killed
            .filter(|(at, _)| now.since(*at) <= PROTECTION_NS)
            .map(|(_, request)| request);
        config.recommend(&self.cpu.merged(), &self.memory.merged(), killed)
    }
}

impl Blocks {
    fn add(&mut self, predictor: &PercentilePredictor, value: f64, at: Instant) {
        let number = at.whole((predictor.history_ns / BLOCKS).max(1));
        let newest = self.0.back().map(|(newest, _)| *newest);
        if newest.is_none_or(|newest| number > newest) {
            self.0.push_back((number, WeightedHistogram::default()));
            self.0.retain(|(kept, _)| *kept >= number - BLOCKS);
        }
        // A late sample goes to its own block if that still exists.
        if let Some((_, histogram)) = self.0.iter_mut().rev().find(|(kept, _)| *kept <= number) {
            predictor.add(histogram, value);
        }
    }

    fn merged(&self) -> WeightedHistogram {
        let mut merged = WeightedHistogram::default();
        self.0.iter().for_each(|(_, block)| merged.merge(block));
        merged
    }
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};

    use super::*;

    const GIB: i64 = 1 << 30;

    fn at(hours: i64) -> Instant {
        (Timestamp::UNIX_EPOCH + SignedDuration::from_hours(hours)).into()
    }

    fn cpu_after(usage: &[(i64, f64)]) -> Option<i64> {
        let config = CraneConfig::new(|_| None).expect("defaults");
        let mut history = CraneHistory::new();
        let mut now = at(0);
        for (hour, cores) in usage {
            now = at(*hour);
            history.add_cpu(&config, *cores, now);
            history.add_memory(&config, 1.0, now);
        }
        let recommended = history.recommend(&config, now);
        recommended.map(|(cpu, _)| cpu.millicores())
    }

    #[test]
    fn usage_counts_for_seven_days_and_at_most_one_block_longer() {
        assert_eq!(cpu_after(&[]), None);
        assert_eq!(cpu_after(&[(0, 2.0), (1, 0.5)]), Some(2415));
        assert_eq!(cpu_after(&[(0, 2.0), (7 * 24, 0.5)]), Some(2415));
        assert_eq!(cpu_after(&[(0, 2.0), (8 * 24, 0.5)]), Some(690));
        // Too late for any block.
        assert_eq!(cpu_after(&[(48, 0.5), (47, 2.0)]), Some(690));
        // Late, and counted.
        assert_eq!(cpu_after(&[(0, 0.5), (48, 0.5), (47, 2.0)]), Some(2415));
    }

    #[test]
    fn a_kill_protects_for_seven_days_and_the_largest_one_counts() {
        let config = CraneConfig::new(|_| None).expect("defaults");
        let mut history = CraneHistory::new();
        history.add_memory(&config, 1.0, at(0));
        let memory = |history: &CraneHistory, hour| {
            let recommended = history.recommend(&config, at(hour));
            recommended.map(|(_, memory)| memory.bytes())
        };
        history.add_oom(Memory::from_bytes(2 * GIB), at(0));
        history.add_oom(Memory::from_bytes(GIB), at(1));
        assert_eq!(memory(&history, 2), Some(2_576_980_377));
        assert_eq!(memory(&history, 7 * 24 + 1), Some(120_586_239));
        history.add_oom(Memory::from_bytes(GIB), at(8 * 24));
        assert_eq!(memory(&history, 8 * 24), Some(1_288_490_188));
    }
}
