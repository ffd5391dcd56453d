//! History of one container name in a group of like pods: usage histograms, first and last sample,
//! and number of samples.
//!
//! Source: upstream `pkg/recommender/model/aggregate_container_state.go`.

use crate::decaying_histogram::{DecayingHistogram, HistogramConfig};
use crate::instant::Instant;

pub(crate) const CPU_SAMPLE_WEIGHT: f64 = 0.1;
pub(crate) const MEMORY_PEAK_WEIGHT: f64 = 1.0;

/// Histogram parameters of both resources.
#[derive(Clone, Copy, Debug)]
pub struct HistogramConfigs {
    /// CPU usage in cores.
    pub cpu: HistogramConfig,
    /// Memory peaks in bytes.
    pub memory: HistogramConfig,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContainerHistory {
    /// CPU usage in cores, with decaying weights.
    pub cpu: DecayingHistogram,
    /// Memory peaks in bytes, with decaying weights.
    pub memory: DecayingHistogram,
    pub first_sample: Instant,
    pub last_sample: Instant,
    samples: i64,
}

impl ContainerHistory {
    /// A history without histograms, from a checkpoint.
    pub fn new(first_sample: Instant, last_sample: Instant, samples: i64) -> Self {
        Self {
            first_sample,
            last_sample,
            samples,
            ..Self::default()
        }
    }

    pub fn is_empty(&self) -> bool {
        self.cpu.is_empty() && self.memory.is_empty()
    }

    pub fn samples(&self) -> i64 {
        self.samples
    }

    /// Nanoseconds between the first and the last CPU sample.
    pub(crate) fn lifespan(&self) -> i64 {
        self.last_sample.since(self.first_sample)
    }

    pub(crate) fn add_cpu(&mut self, shapes: &HistogramConfigs, cores: f64, at: Instant) {
        self.cpu.add(&shapes.cpu, cores, CPU_SAMPLE_WEIGHT, at);
        self.first_sample = self.first_sample.earliest(at);
        self.last_sample = self.last_sample.max(at);
        self.samples = self.samples.saturating_add(1);
    }

    /// Removes the peak of the window that ends at `window_end`.
    pub fn subtract_memory_peak(
        &mut self,
        shapes: &HistogramConfigs,
        bytes: i64,
        window_end: Instant,
    ) {
        self.memory
            .subtract(&shapes.memory, bytes as f64, MEMORY_PEAK_WEIGHT, window_end);
    }

    /// Adds the history of another container of the same name.
    pub fn merge(&mut self, shapes: &HistogramConfigs, other: &Self) {
        self.cpu.merge(&shapes.cpu, &other.cpu);
        self.memory.merge(&shapes.memory, &other.memory);
        self.first_sample = self.first_sample.earliest(other.first_sample);
        self.last_sample = self.last_sample.max(other.last_sample);
        self.samples = self.samples.saturating_add(other.samples);
    }

    /// Moves the history back in time. The first sample keeps its time if it remains the first.
    pub fn move_back(&mut self, shapes: &HistogramConfigs, nanoseconds: i64) {
        self.cpu.move_back(shapes.cpu.half_life, nanoseconds);
        self.memory.move_back(shapes.memory.half_life, nanoseconds);
        self.last_sample = self.last_sample.plus(-nanoseconds);
        if self.first_sample > self.last_sample {
            self.first_sample = self.first_sample.plus(-nanoseconds);
        }
    }
}
