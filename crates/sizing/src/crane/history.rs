//! Usage of the last days for Crane's predictor, aggregated online.
//!
//! Crane reads the whole history from its store in every run. Here each resource has seven complete
//! blocks and an open one, each a histogram: the oldest block is dropped as a whole, so that
//! between seven and eight sevenths of the history length count. A block has at most as many
//! entries as its layout has buckets (1001 by default; a steady container uses a few).
//!
//! With a sample interval, the first sample of each pod in an interval counts.

use std::collections::{BTreeMap, VecDeque};

use model::{Cpu, Memory, MethodStep};
use serde::{Deserialize, Serialize};

use super::histogram::WeightedHistogram;
use super::percentile::PercentilePredictor;
use super::resource::CraneConfig;
use crate::amount;
use crate::instant::Instant;
use crate::observation::Observation;
use crate::price_of_failure::first_invalid;

const BLOCKS: i64 = 7;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct CraneHistory {
    cpu: Blocks,
    memory: Blocks,
    /// Time and request in bytes of the OOM kill that counts.
    killed: Option<(Instant, i64)>,
    /// Numbers of the intervals of CPU and memory that have a sample, by pod. Not stored: after a
    /// restart, an open interval may get a second sample.
    #[serde(skip)]
    sampled: [BTreeMap<u64, i64>; 2],
}

/// Histograms of one resource by block number, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Blocks(VecDeque<(i64, WeightedHistogram)>);

impl CraneHistory {
    pub(crate) fn observe(
        &mut self,
        config: &CraneConfig,
        pod: u64,
        seen: Observation,
        at: Instant,
    ) {
        let (cpu, memory) = match seen {
            Observation::Usage { cpu, memory } => (cpu, memory),
            Observation::Oom { request, .. } => return self.add_oom(config, request, at),
        };
        let [cpu_pods, memory_pods] = &mut self.sampled;
        if let Some(cpu) = cpu.filter(|_| is_due(cpu_pods, config.cpu_interval_ns, pod, at)) {
            self.cpu.add(&config.cpu, cpu.cores(), at);
        }
        let counts = |_: &Memory| is_due(memory_pods, config.memory_interval_ns, pod, at);
        if let Some(memory) = memory.filter(counts) {
            self.memory.add(&config.memory, memory.bytes() as f64, at);
        }
    }

    /// Records an OOM kill. Of several the largest request counts, until it is too old.
    fn add_oom(&mut self, config: &CraneConfig, request: Memory, at: Instant) {
        let kept = self.killed.filter(|(before, larger)| {
            *larger > request.bytes() && at.since(*before) <= config.oom_history_ns
        });
        if kept.is_none() {
            self.killed = Some((at, request.bytes()));
        }
    }

    pub(crate) fn recommend(&self, config: &CraneConfig, now: Instant) -> Option<(Cpu, Memory)> {
        let killed = self.killed(config, now);
        config.recommend(&self.cpu.merged(), &self.memory.merged(), killed)
    }

    /// The steps of the recommendation for CPU and memory, without the result.
    pub(crate) fn explain(&self, config: &CraneConfig, now: Instant) -> [Vec<MethodStep>; 2] {
        let killed = self.killed(config, now);
        config.explain(&self.cpu.merged(), &self.memory.merged(), killed)
    }

    /// The request of a container whose OOM kill still counts.
    fn killed(&self, config: &CraneConfig, now: Instant) -> Option<Memory> {
        self.killed
            .filter(|(at, _)| now.since(*at) <= config.oom_history_ns)
            .map(|(_, request)| Memory::from_bytes(request))
    }

    /// The first part that samples until `last` cannot lead to.
    pub(crate) fn invalid_part(&self, config: &CraneConfig, last: Instant) -> Option<&'static str> {
        let amounts = 0..=amount::MAX as i64;
        let is_kill = |(at, bytes): &(Instant, i64)| *at <= last && amounts.contains(bytes);
        first_invalid([
            (self.cpu.is_valid(&config.cpu, last), "cpu blocks"),
            (self.memory.is_valid(&config.memory, last), "memory blocks"),
            (self.killed.as_ref().is_none_or(is_kill), "OOM kill"),
        ])
    }
}

/// Whether a sample of a pod is the first of its interval. Drops pods that are no longer sampled.
fn is_due(
    sampled: &mut BTreeMap<u64, i64>,
    interval_ns: Option<i64>,
    pod: u64,
    at: Instant,
) -> bool {
    let Some(interval_ns) = interval_ns else {
        return true;
    };
    let number = at.whole(interval_ns);
    let last = sampled.insert(pod, number);
    // A new pod, or a clock that was put back: its interval number is never waited for.
    if last.is_none_or(|last| last > number) {
        sampled.retain(|_, last| *last + 1 >= number && *last <= number);
    }
    last != Some(number)
}

impl Blocks {
    /// Whether samples until `last` can lead to these blocks.
    fn is_valid(&self, predictor: &PercentilePredictor, last: Instant) -> bool {
        let newest = block(predictor, last);
        let numbers = || self.0.iter().map(|(number, _)| *number);
        let is_rising = numbers().is_sorted_by(|one, next| one < next);
        let is_past = numbers().all(|number| (0..=newest).contains(&number));
        self.0.len() <= BLOCKS as usize + 1
            && is_rising
            && is_past
            && self.0.iter().all(|(_, histogram)| histogram.is_valid())
    }

    fn add(&mut self, predictor: &PercentilePredictor, value: f64, at: Instant) {
        let number = block(predictor, at);
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

fn block(predictor: &PercentilePredictor, at: Instant) -> i64 {
    at.whole((predictor.history_ns / BLOCKS).max(1))
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};

    use super::*;
    use crate::config::MemoryRules;

    const GIB: i64 = 1 << 30;
    const RULES: MemoryRules = MemoryRules {
        interval_ns: 1,
        interval_count: 1,
        oom_bump_up_ratio: 1.0,
        oom_min_bump_up_bytes: 0.0,
    };

    fn at(hours: i64) -> Instant {
        (Timestamp::UNIX_EPOCH + SignedDuration::from_hours(hours)).into()
    }

    fn usage(cores: f64, bytes: i64) -> Observation {
        Observation::Usage {
            cpu: Some(Cpu::from_millicores((cores * 1000.0) as i64)),
            memory: Some(Memory::from_bytes(bytes)),
        }
    }

    fn kill(bytes: i64) -> Observation {
        Observation::Oom {
            request: Memory::from_bytes(bytes),
            rules: RULES,
        }
    }

    fn cpu_after(samples: &[(i64, f64)]) -> Option<i64> {
        let config = CraneConfig::new(|_| None).expect("defaults");
        let mut history = CraneHistory::default();
        let mut now = at(0);
        for (hour, cores) in samples {
            now = at(*hour);
            history.observe(&config, 1, usage(*cores, 1), now);
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
        let mut history = CraneHistory::default();
        history.observe(&config, 1, usage(0.0, 1), at(0));
        let memory = |history: &CraneHistory, hour| {
            let recommended = history.recommend(&config, at(hour));
            recommended.map(|(_, memory)| memory.bytes())
        };
        history.observe(&config, 1, kill(2 * GIB), at(0));
        history.observe(&config, 1, kill(GIB), at(1));
        assert_eq!(memory(&history, 2), Some(2_576_980_377));
        assert_eq!(memory(&history, 7 * 24 + 1), Some(120_586_239));
        history.observe(&config, 1, kill(GIB), at(8 * 24));
        assert_eq!(memory(&history, 8 * 24), Some(1_288_490_188));
    }

    #[test]
    fn oom_history_length_is_the_time_for_which_a_kill_protects() {
        let config = CraneConfig::new(|key| (key == "oom-history-length").then_some("2d"));
        let config = config.expect("valid");
        let mut history = CraneHistory::default();
        history.observe(&config, 1, usage(0.0, 1), at(0));
        history.observe(&config, 1, kill(2 * GIB), at(0));
        for (hour, expected) in [(48, 2_576_980_377), (49, 120_586_239)] {
            let recommended = history.recommend(&config, at(hour));
            let memory = recommended.map(|(_, memory)| memory.bytes());
            assert_eq!(memory, Some(expected), "hour {hour}");
        }
    }

    #[test]
    fn one_sample_of_each_pod_counts_in_a_sample_interval() {
        let interval = |key: &str| (key == "cpu-sample-interval").then_some("2h");
        let config = CraneConfig::new(interval).expect("valid");
        let mut history = CraneHistory::default();
        // Pods 1 and 2 count at hours 0 and 2; larger samples between them do not.
        for hour in 0..4 {
            for pod in [1, 2] {
                let cores = if hour % 2 == 0 { 0.5 } else { 9.0 };
                history.observe(&config, pod, usage(cores, GIB), at(hour));
            }
        }
        let cpu = |history: &CraneHistory| {
            let recommended = history.recommend(&config, at(4));
            recommended.map(|(cpu, _)| cpu.millicores())
        };
        assert_eq!(cpu(&history), Some(690));
        history.observe(&config, 1, usage(9.0, GIB), at(4));
        assert!(cpu(&history) > Some(9000));
        assert_eq!(history.sampled[0].len(), 2);
        history.observe(&config, 3, usage(1.0, GIB), at(40));
        assert_eq!(history.sampled[0].len(), 1, "pods that are gone");
    }
}
