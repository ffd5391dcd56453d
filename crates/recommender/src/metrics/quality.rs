//! Quality of the recommendations, measured against every usage sample and OOM kill: upstream's
//! `vpa_quality_*`, with its names, labels and buckets (`pkg/utils/metrics/quality/quality.go`).
//!
//! The recommendation is the uncapped target in the object when the sample arrives. CPU in cores,
//! memory in bytes; an OOM kill counts as its memory peak.

use std::collections::BTreeMap;

use api::vpa::UpdateMode;
use model::{Cpu, Memory, ResourceList, Sample};
use prometheus::{HistogramVec, IntCounterVec, exponential_buckets};
use vertical::Accepted;
use vertical::recommender_state::{Decision, Recommended};
use view::ObjectKey;

use super::{boolean, containers, mode, update_mode};

const CPU: &str = "cpu";
const MEMORY: &str = "memory";
const RELATIVE_BUCKETS: [f64; 29] = [
    -1.0, -0.75, -0.5, -0.25, -0.1, -0.05, -0.025, -0.01, -0.005, -0.0025, -0.001, 0.0, 0.001,
    0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0,
];
/// Logarithm of upstream's maximum number of pods, 2^20.
const MAX_SIZE_LOG2: u32 = 20;

runtime::metrics! {
    /// All of `vpa_quality_*`. Clones share them.
    pub(crate) struct Quality {
        relative_difference: HistogramVec { update_mode, resource, is_oom } [RELATIVE_BUCKETS]
            = "vpa_quality_usage_recommendation_relative_diffs",
            "Usage less recommendation, as a share of the recommendation.";
        missing: IntCounterVec { update_mode, resource, is_oom }
            = "vpa_quality_usage_sample_missing_recommendation_count",
            "Usage samples of sized containers without a recommendation.";
        cpu_over: HistogramVec { update_mode, recommendation_missing } [cpu_buckets()?]
            = "vpa_quality_cpu_recommendation_over_usage_diffs_cores",
            "Recommendation less usage where the recommendation is above.";
        memory_over: HistogramVec { update_mode, recommendation_missing, is_oom } [memory_buckets()?]
            = "vpa_quality_mem_recommendation_over_usage_diffs_bytes",
            "Recommendation less usage where the recommendation is above.";
        cpu_under: HistogramVec { update_mode, recommendation_missing } [cpu_buckets()?]
            = "vpa_quality_cpu_recommendation_lower_equal_usage_diffs_cores",
            "Usage less recommendation where the recommendation is not above.";
        memory_under: HistogramVec { update_mode, recommendation_missing, is_oom } [memory_buckets()?]
            = "vpa_quality_mem_recommendation_lower_equal_usage_diffs_bytes",
            "Usage less recommendation where the recommendation is not above.";
        cpu: HistogramVec { update_mode } [cpu_buckets()?]
            = "vpa_quality_cpu_recommendations_cores",
            "Recommendation at the time of each usage sample.";
        memory: HistogramVec { update_mode, is_oom } [memory_buckets()?]
            = "vpa_quality_mem_recommendations_bytes",
            "Recommendation at the time of each usage sample.";
        change: HistogramVec { update_mode, resource, vpa_size_log2 } [RELATIVE_BUCKETS]
            = "vpa_quality_relative_recommendation_changes",
            "Change of a recommendation from one round to the next, as a share of the old one.";
    }
}

fn cpu_buckets() -> Result<Vec<f64>, prometheus::Error> {
    exponential_buckets(0.01, 2.0, 17)
}

fn memory_buckets() -> Result<Vec<f64>, prometheus::Error> {
    exponential_buckets(1e6, 2.0, 17)
}

#[derive(Debug, Clone, Copy)]
struct Seen<'a> {
    mode: &'a str,
    resource: &'a str,
    usage: f64,
    recommended: Option<f64>,
    is_oom: bool,
}

impl Quality {
    /// Records a sample that entered a history.
    pub(crate) fn sample(&self, recommended: Recommended, sample: &Sample, accepted: Accepted) {
        let mode = name(recommended.update_mode);
        let uncapped = recommended.uncapped;
        let seen = |resource, usage, recommended| Seen {
            mode,
            resource,
            usage,
            recommended,
            is_oom: false,
        };
        if let Some(cpu) = sample.cpu.filter(|_| accepted.cpu) {
            self.see(&seen(CPU, cpu.cores(), uncapped.and_then(cores)));
        }
        if let Some(memory) = sample.memory.filter(|_| accepted.memory) {
            let usage = memory.bytes() as f64;
            self.see(&seen(MEMORY, usage, uncapped.and_then(bytes)));
        }
    }

    /// Records an OOM kill that entered a history as this peak.
    pub(crate) fn oom_kill(&self, recommended: Recommended, peak: Memory) {
        self.see(&Seen {
            mode: name(recommended.update_mode),
            resource: MEMORY,
            usage: peak.bytes() as f64,
            recommended: recommended.uncapped.and_then(bytes),
            is_oom: true,
        });
    }

    fn see(&self, seen: &Seen) {
        let (mode, resource, usage) = (seen.mode, seen.resource, seen.usage);
        let is_cpu = resource == CPU;
        let (is_missing, oom) = (boolean(seen.recommended.is_none()), boolean(seen.is_oom));
        if let Some(recommended) = seen.recommended {
            let all = if is_cpu {
                self.cpu.with_label_values(&[mode])
            } else {
                self.memory.with_label_values(&[mode, oom])
            };
            all.observe(recommended);
            let relative = self
                .relative_difference
                .with_label_values(&[mode, resource, oom]);
            relative.observe((usage - recommended) / recommended);
        } else {
            self.missing.with_label_values(&[mode, resource, oom]).inc();
        }
        let recommended = seen.recommended.unwrap_or(0.0);
        let is_over = recommended > usage;
        let (of_cpu, of_memory) = (&[mode, is_missing], &[mode, is_missing, oom]);
        let difference = match (is_cpu, is_over) {
            (true, true) => self.cpu_over.with_label_values(of_cpu),
            (true, false) => self.cpu_under.with_label_values(of_cpu),
            (false, true) => self.memory_over.with_label_values(of_memory),
            (false, false) => self.memory_under.with_label_values(of_memory),
        };
        difference.observe((usage - recommended).abs());
    }
}

/// Uncapped targets of the last round, from which changes are measured. Deleted objects and
/// containers are forgotten.
#[derive(Debug, Default)]
pub(crate) struct RecommendationChanges(BTreeMap<ObjectKey, BTreeMap<String, ResourceList>>);

impl RecommendationChanges {
    /// Records the changes since the last round.
    pub(crate) fn observe<'a>(
        &mut self,
        quality: &Quality,
        decisions: impl IntoIterator<Item = &'a Decision>,
    ) {
        let mut before = std::mem::take(&mut self.0);
        for decision in decisions {
            let key = &decision.vpa.key;
            let old = before.remove(key).unwrap_or_default();
            let mode = name(update_mode(decision));
            let size = size_log2(decision.pods).to_string();
            let mut new = BTreeMap::new();
            for container in containers(decision) {
                let target = container.uncapped_target.clone();
                new.insert(container.container_name.clone(), target);
            }
            let known = new
                .iter()
                .filter_map(|(container, new)| Some((old.get(container)?, new)));
            for (old, new) in known {
                for (resource, of) in [
                    (CPU, millicores as fn(&ResourceList) -> Option<f64>),
                    (MEMORY, bytes),
                ] {
                    if let Some((old, new)) = of(old).zip(of(new)) {
                        quality
                            .change
                            .with_label_values(&[mode, resource, &size])
                            .observe(new / old - 1.0);
                    }
                }
            }
            self.0.insert(key.clone(), new);
        }
    }
}

fn cores(list: &ResourceList) -> Option<f64> {
    millicores(list).map(|millicores| millicores / 1000.0)
}

fn millicores(list: &ResourceList) -> Option<f64> {
    list.cpu()
        .filter(|cpu| *cpu > Cpu::default())
        .map(|cpu| cpu.millicores() as f64)
}

fn bytes(list: &ResourceList) -> Option<f64> {
    list.memory()
        .filter(|memory| *memory > Memory::default())
        .map(|memory| memory.bytes() as f64)
}

/// The label of an update mode; empty if the object sets none, as upstream.
fn name(update_mode: Option<UpdateMode>) -> &'static str {
    update_mode.map_or("", mode)
}

/// The binary logarithm of the number of pods, rounded down; 0 for none.
fn size_log2(pods: usize) -> u32 {
    pods.checked_ilog2().unwrap_or(0).min(MAX_SIZE_LOG2)
}

#[cfg(test)]
mod tests;
