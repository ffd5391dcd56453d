//! One running container between samples: memory peak of the open window, and times of the last
//! samples.
//!
//! CPU: every newer sample counts. Memory: one peak per window counts; a higher peak replaces the
//! lower one of the same window, and the peak is dated at the end of its window. An OOM kill counts
//! as a peak above the container's memory request. Source: upstream
//! `pkg/recommender/model/container.go`.

use crate::amount;
use crate::config::MemoryRules;
use crate::container_history::{ContainerHistory, HistogramConfigs, MEMORY_PEAK_WEIGHT};
use crate::instant::Instant;

/// State of a running container between samples. Amounts in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ContainerState {
    last_cpu_sample: Instant,
    last_memory_sample: Instant,
    window_end: Instant,
    usage_peak: i64,
    oom_peak: i64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Peak {
    Usage,
    Oom,
}

impl ContainerState {
    /// Resets sample times later than `limit`, which is in the future. They come from a clock that
    /// was ahead, and would block correct samples until then. Their effect on the history stays.
    pub fn forget_after(&mut self, limit: Instant) {
        if self.last_cpu_sample.max(self.last_memory_sample) > limit {
            *self = Self::default();
        }
    }

    /// Adds a CPU sample. Returns false if it is negative or not newer than the last one.
    pub fn add_cpu(
        &mut self,
        history: &mut ContainerHistory,
        shapes: &HistogramConfigs,
        millicores: i64,
        at: Instant,
    ) -> bool {
        if millicores < 0 || at <= self.last_cpu_sample {
            return false;
        }
        history.add_cpu(shapes, millicores as f64 / 1000.0, at);
        self.last_cpu_sample = at;
        true
    }

    /// Whether memory has no sample at this time or later.
    pub fn is_new_memory(&self, at: Instant) -> bool {
        at > self.last_memory_sample
    }

    /// Adds a memory sample. Returns false if it is negative or older than the last one.
    pub fn add_memory(
        &mut self,
        history: &mut ContainerHistory,
        shapes: &HistogramConfigs,
        rules: &MemoryRules,
        bytes: i64,
        at: Instant,
    ) -> bool {
        if bytes < 0 || at < self.last_memory_sample {
            return false;
        }
        self.observe(history, shapes, rules, bytes, at, Peak::Usage);
        true
    }

    /// Adds an OOM kill of a container that requested `requested` bytes. Returns false if it is
    /// older than one window before the last sample.
    pub fn add_oom(
        &mut self,
        history: &mut ContainerHistory,
        shapes: &HistogramConfigs,
        rules: &MemoryRules,
        requested: i64,
        at: Instant,
    ) -> bool {
        if !self.last_memory_sample.is_never()
            && at < self.last_memory_sample.plus(-rules.interval_ns)
        {
            return false;
        }
        let needed = self.oom_peak(rules, requested);
        self.observe(history, shapes, rules, needed, at, Peak::Oom);
        true
    }

    /// The peak of an OOM kill of a container that requested `requested` bytes.
    pub fn oom_peak(&self, rules: &MemoryRules, requested: i64) -> i64 {
        // Without the peaks of earlier OOM kills: repeated kills at the same request must not add
        // up within a window.
        let used = requested.max(self.usage_peak);
        let bumped = used.saturating_add(amount::from_f64(rules.oom_min_bump_up_bytes));
        bumped.max(amount::scale(used, rules.oom_bump_up_ratio))
    }

    /// The peak and the end of the window that is open at `now`.
    pub fn open_peak(&self, now: Instant) -> Option<(i64, Instant)> {
        (now < self.window_end).then(|| (self.peak(), self.window_end))
    }

    /// Continues the state of the container before its first sample here. `history` has the samples
    /// of both.
    ///
    /// Memory samples here opened their own window. If they belong to the window that was open
    /// before, that one continues instead.
    pub fn resume(
        &mut self,
        earlier: &Self,
        history: &mut ContainerHistory,
        shapes: &HistogramConfigs,
        rules: &MemoryRules,
    ) {
        let own = *self;
        self.last_cpu_sample = own.last_cpu_sample.max(earlier.last_cpu_sample);
        if !own.window_end.is_never() && own.last_memory_sample >= earlier.window_end {
            return;
        }
        *self = Self {
            last_cpu_sample: self.last_cpu_sample,
            ..*earlier
        };
        if own.window_end.is_never() {
            return;
        }
        history.subtract_memory_peak(shapes, own.peak(), own.window_end);
        for (peak, source) in [(own.usage_peak, Peak::Usage), (own.oom_peak, Peak::Oom)] {
            self.observe(history, shapes, rules, peak, own.last_memory_sample, source);
        }
    }

    fn peak(&self) -> i64 {
        self.usage_peak.max(self.oom_peak)
    }

    fn observe(
        &mut self,
        history: &mut ContainerHistory,
        shapes: &HistogramConfigs,
        rules: &MemoryRules,
        bytes: i64,
        at: Instant,
        source: Peak,
    ) {
        self.last_memory_sample = at;
        if self.window_end.is_never() {
            self.window_end = at;
        }
        if at < self.window_end {
            // Every open window has a peak in the histogram, even a peak of 0, which upstream
            // treats as none.
            let old = self.peak();
            if bytes <= old {
                return;
            }
            history.subtract_memory_peak(shapes, old, self.window_end);
        } else {
            self.open_window(at, rules.interval_ns);
        }
        let (memory, end) = (&mut history.memory, self.window_end);
        memory.add(&shapes.memory, bytes as f64, MEMORY_PEAK_WEIGHT, end);
        match source {
            Peak::Usage => self.usage_peak = bytes,
            Peak::Oom => self.oom_peak = bytes,
        }
    }

    /// Moves the window by whole intervals so that it ends after `at`.
    fn open_window(&mut self, at: Instant, interval_ns: i64) {
        let late = at.since(self.window_end);
        self.window_end = self
            .window_end
            .plus((late - late % interval_ns).saturating_add(interval_ns));
        self.usage_peak = 0;
        self.oom_peak = 0;
    }
}
