//! The open window of five minutes: all CPU samples, and the memory peak of each pod.
//!
//! Samples come from many pods and slightly out of order, so a late one counts in the open window.
//! Memory: 8 bytes per bucket with a sample and about 30 bytes per pod, until the window closes.
//! Source: section 3.2.1.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Buckets;
use crate::instant::Instant;
use crate::packed;

pub(super) const WINDOW_NS: i64 = 300_000_000_000;

/// Samples since the last window closed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct OpenWindow {
    pub(super) number: i64,
    cpu: Counts,
    /// By pod.
    #[serde(with = "packed::amounts")]
    peaks: BTreeMap<u64, f64>,
    /// Needs of OOM-killed containers, which count as peaks without a pod.
    #[serde(with = "packed::numbers")]
    needed: Vec<f64>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct ClosedWindow {
    pub(super) number: i64,
    pub(super) cpu: Counts,
    pub(super) memory: Counts,
}

/// Maximum number of OOM kills per window; more add no information.
const MAX_NEEDS: usize = 1000;

impl OpenWindow {
    pub(super) fn new(at: Instant) -> Self {
        Self {
            number: number(at),
            cpu: Counts::default(),
            peaks: BTreeMap::new(),
            needed: Vec::new(),
        }
    }

    /// Opens the window of this time if it is a later one. Returns the previous one.
    pub(super) fn advance(&mut self, at: Instant) -> Option<ClosedWindow> {
        if number(at) <= self.number {
            return None;
        }
        let closed = std::mem::replace(self, Self::new(at));
        let buckets = Buckets::memory();
        let mut memory = Counts::default();
        for bytes in closed.peaks.values().chain(&closed.needed) {
            memory.add(buckets.find(*bytes) as u8);
        }
        Some(ClosedWindow {
            number: closed.number,
            cpu: closed.cpu,
            memory,
        })
    }

    pub(super) fn add_cpu(&mut self, cores: f64) {
        self.cpu.add(Buckets::cpu().find(cores) as u8);
    }

    pub(super) fn add_memory(&mut self, pod: u64, bytes: f64) {
        let peak = self.peaks.entry(pod).or_default();
        *peak = peak.max(bytes);
    }

    /// The memory peak of a pod so far; 0 without samples.
    pub(super) fn peak(&self, pod: u64) -> f64 {
        self.peaks.get(&pod).copied().unwrap_or(0.0)
    }

    /// Whether samples until the window `newest` can lead to this one.
    pub(super) fn is_valid(&self, newest: i64) -> bool {
        let mut amounts = self.peaks.values().chain(&self.needed);
        (0..=newest).contains(&self.number)
            && self.cpu.is_valid()
            && self.needed.len() <= MAX_NEEDS
            && amounts.all(|bytes| bytes.is_finite() && *bytes >= 0.0)
    }

    pub(super) fn add_need(&mut self, bytes: f64) {
        if self.needed.len() < MAX_NEEDS {
            self.needed.push(bytes);
        }
    }
}

/// Number of samples per bucket in one window, the paper's `s[t]`, in bucket order without empty
/// buckets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Counts(Vec<(u8, u32)>);

impl Counts {
    pub(super) fn add(&mut self, bucket: u8) {
        match self.0.binary_search_by_key(&bucket, |(known, _)| *known) {
            Ok(index) => self.0[index].1 = self.0[index].1.saturating_add(1),
            Err(index) => self.0.insert(index, (bucket, 1)),
        }
    }

    pub(super) fn is_valid(&self) -> bool {
        let buckets = || self.0.iter().map(|(bucket, _)| *bucket);
        buckets().is_sorted_by(|one, next| one < next)
            && buckets().all(|bucket| usize::from(bucket) < Buckets::COUNT)
            && self.0.iter().all(|(_, count)| *count > 0)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u8, f64)> + '_ {
        self.0
            .iter()
            .map(|(bucket, count)| (*bucket, f64::from(*count)))
    }

    pub(super) fn total(&self) -> f64 {
        self.iter().map(|(_, count)| count).sum()
    }

    pub(super) fn highest(&self) -> Option<u8> {
        self.0.last().map(|(bucket, _)| *bucket)
    }
}

pub(super) fn number(at: Instant) -> i64 {
    at.whole(WINDOW_NS)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    const MIB: f64 = 1_048_576.0;

    fn at(second: i64) -> Instant {
        Timestamp::from_second(second).expect("a time").into()
    }

    #[test]
    fn all_cpu_samples_count_and_of_memory_the_peak_of_each_pod() {
        let mut window = OpenWindow::new(at(0));
        let samples = [
            (0, 1, 100.0),
            (60, 1, 300.0),
            (120, 1, 200.0),
            (120, 2, 50.0),
        ];
        for (second, pod, megabytes) in samples {
            assert_eq!(window.advance(at(second)), None);
            window.add_cpu(0.5);
            window.add_memory(pod, megabytes * MIB);
        }
        let closed = window.advance(at(300)).expect("the window is over");
        assert_eq!(closed.number, 0);
        assert!(
            closed
                .cpu
                .iter()
                .eq([(Buckets::cpu().find(0.5) as u8, 4.0)])
        );
        let bucket = |megabytes: f64| Buckets::memory().find(megabytes * MIB) as u8;
        assert!(
            closed
                .memory
                .iter()
                .eq([(bucket(50.0), 1.0), (bucket(300.0), 1.0)])
        );
    }

    #[test]
    fn a_late_sample_counts_in_the_open_window() {
        let mut window = OpenWindow::new(at(600));
        assert_eq!(window.advance(at(10)), None);
        window.add_cpu(0.5);
        let closed = window.advance(at(900)).expect("the window is over");
        assert!(closed.number == 2 && closed.cpu.total() > 0.5 && closed.memory.is_empty());
    }
}
